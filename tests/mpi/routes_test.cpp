// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What redistribute does, between every pair of layouts on one and two axes and many on three and four: the
/// route's steps are carried out on tensors whose every element is known. Checked are all elements, that the
/// source is left as it was, and that route, recorder and MPI agree in kinds and bytes; at once and in the
/// background.

#include <shardwise/layout/route.hpp>
#include <support/redistribution.hpp>

#include <cstdint>

namespace shardwise::testing::routes {
namespace sw = shardwise;
using sw::any;
using sw::dp;
using sw::Index;
using sw::Layout;
using sw::partial_max;
using sw::partial_min;
using sw::partial_sum;
using sw::pp;
using sw::reduced;
using sw::replicate;
using sw::tp;

namespace {

struct outermost {
  static constexpr const char* name = "outermost";
  static constexpr bool data = false;
};

/// Takes a block along a route; in the background where `background` says so.
template <class T, int Rank, class MeshType>
sw::Buffer carry(const MeshType& mesh, const sw::Shape<Rank>& shape, Layout from, const sw::Route& route,
                 sw::Buffer block, bool background) {
  for (const sw::Step& step : route) {
    sw::detail::AnyTensor tensor;
    tensor.mesh = sw::MeshView(mesh);
    tensor.type = sw::data_type<T>;
    tensor.rank = Rank;
    tensor.shape = sw::detail::padded(shape);
    tensor.layout = from;
    tensor.buffer = std::move(block);
    sw::detail::Transfer transfer(std::move(tensor), step, sw::data_type<T>);
    transfer.start(background);
    block = transfer.finish().buffer;
    from = step.to;
  }
  return block;
}

template <class T, int Rank, class MeshType>
class Examination {
 public:
  Examination(const MeshType& mesh, const sw::Shape<Rank>& shape) : mesh_(mesh), shape_(shape) {}

  std::string pair(const Layout& from, const Layout& to, std::uint64_t seed) const {
    const sw::Route route = sw::route(from, to, Rank, mesh_.sizes());
    if (!route.possible) return "no route";
    std::string wrong;
    const std::vector<T> values = source_block<T>(mesh_, shape_, from, seed);
    const auto bytes = static_cast<Index>(values.size() * sizeof(T));
    for (bool background : {false, true}) {
      sw::Buffer source = sw::allocate_buffer(mesh_, bytes);
      std::copy(values.begin(), values.end(), static_cast<T*>(source->data));
      sw::Buffer kept;
      if (!background) kept = source;  // then nothing may be done in place
      mpi_counter::reset();
      sw::Recording recording(mesh_);
      sw::Buffer result = carry<T, Rank>(mesh_, shape_, from, route, std::move(source), background);
      wrong += disagreement(route, {sw::data_type<T>, from, mesh_.sizes()}, recording.plan(),
                            mpi_counter::counts());
      if (result->bytes != count(to) * static_cast<Index>(sizeof(T))) wrong += " wrong size;";
      if (!is_block_of(mesh_, shape_, static_cast<const T*>(result->data), to, from, seed)) {
        wrong += background ? " wrong values in the background;" : " wrong values;";
      }
      if (kept && !std::equal(values.begin(), values.end(), static_cast<const T*>(kept->data))) {
        wrong += " the source has changed;";
      }
    }
    return wrong;
  }

  /// `every`: one in so many pairs, at random but the same on all ranks.
  void all_pairs(const std::vector<sw::Placement>& placements, std::uint64_t every = 1) const {
    const auto layouts = all_layouts(MeshType::axes, Rank, placements);
    std::uint64_t number = 0;
    Index examined = 0;
    for (const Layout& from : layouts) {
      for (const Layout& to : layouts) {
        if (!convertible(from, to)) continue;
        ++number;
        if ((number * 0x9e3779b97f4a7c15u >> 33) % every != 0) continue;
        ++examined;
        std::string wrong = pair(from, to, number);
        INFO(text(mesh_.sizes(), MeshType::axes), " mesh, ", text(shape_), ": ", detail::text_of(from),
             " -> ", detail::text_of(to));
        if (!wrong.empty()) FAIL_CHECK(wrong);
      }
    }
    CHECK(examined > 0);
  }

 private:
  Index count(const Layout& layout) const {
    return local_box(shape_, layout, mesh_.sizes(), mesh_.coordinates()).elements();
  }

  MeshType mesh_;
  sw::Shape<Rank> shape_;
};

const std::vector<sw::Placement> everything{replicate, reduced, partial_sum, partial_max, partial_min};

template <class T, int Rank, class MeshType>
void examine(const MeshType& mesh, std::initializer_list<sw::Shape<Rank>> shapes,
             const std::vector<sw::Placement>& placements = everything, std::uint64_t every = 1) {
  for (const auto& shape : shapes) Examination<T, Rank, MeshType>(mesh, shape).all_pairs(placements, every);
}

}  // namespace

TEST_CASE("one axis, ranks 1 to 4, all pairs of placements") {
  const sw::Mesh<tp> mesh(sw::world(), {any});
  examine<float, 1>(mesh, {{13}, {12}, {2}, {0}});
  examine<float, 2>(mesh, {{5, 3}, {8, 4}, {1, 9}, {3, 0}});
  examine<float, 3>(mesh, {{7, 1, 5}, {2, 3, 4}});
  examine<float, 4>(mesh, {{3, 2, 5, 2}, {1, 6, 2, 3}});
}

TEST_CASE("one axis, other element types") {
  const sw::Mesh<tp> mesh(sw::world(), {any});
  examine<double, 2>(mesh, {{5, 3}, {14, 2}});
  examine<std::int32_t, 2>(mesh, {{5, 3}});
  examine<std::int64_t, 1>(mesh, {{7}});
  if (mesh.size() > 32) return;  // sums of more are not whole in bfloat16
  examine<Eigen::bfloat16, 2>(mesh, {{5, 3}, {2, 6}});
}

TEST_CASE("two axes, a vector, all pairs of layouts") {
  const int ranks = sw::world().size();
  for (auto [outer, inner] : {std::pair{1, ranks}, {ranks, 1}, {2, ranks / 2}}) {
    if (outer * inner != ranks || (outer == 2 && ranks != 4)) continue;
    examine<float, 1>(sw::Mesh<dp, tp>(sw::world(), {outer, inner}), {{7}, {3}});
  }
}

TEST_CASE("two axes, a matrix: all pairs of layouts on the square mesh, a selection on the others") {
  const int ranks = sw::world().size();
  for (auto [outer, inner] : {std::pair{1, ranks}, {ranks, 1}}) {
    examine<float, 2>(sw::Mesh<dp, tp>(sw::world(), {outer, inner}), {{5, 3}}, everything, 5);
  }
  if (ranks == 4) {
    const sw::Mesh<dp, tp> square(sw::world(), {2, 2});
    examine<float, 2>(square, {{5, 3}});
    examine<float, 2>(square, {{2, 7}}, everything, 7);
  }
}

TEST_CASE("three and four axes, a selection") {
  const int ranks = sw::world().size();
  const std::vector<sw::Placement> data{replicate, partial_sum};
  using Cube = sw::Mesh<dp, pp, tp>;
  if (ranks == 4) {
    for (auto [a, b, c] : {std::array{2, 2, 1}, {2, 1, 2}, {1, 2, 2}}) {
      const Cube mesh(sw::world(), {a, b, c});
      examine<float, 2>(mesh, {{5, 3}}, data, 7);
      examine<double, 3>(mesh, {{3, 2, 5}}, data, 61);
    }
    examine<float, 2>(sw::Mesh<outermost, dp, pp, tp>(sw::world(), {2, 1, 1, 2}), {{5, 3}}, data, 101);
  } else {
    examine<float, 2>(Cube(sw::world(), {1, ranks, 1}), {{5, 3}}, data, 3);
  }
}

}  // namespace shardwise::testing::routes
