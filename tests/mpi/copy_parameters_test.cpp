// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A model's parameters go to the same model on another mesh: the values are those that it would have drawn there.

#include <doctest/doctest.h>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/module/copy_parameters.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

#include <support/gpt.hpp>
#include <support/mpi_counter.hpp>

#include <cstring>
#include <optional>

namespace shardwise::testing::copy_parameters {
namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;
using Plane = sw::Mesh<dp, tp>;

Plane plane() {
  const int n = sw::world().size();
  return {sw::world(), {n % 2 == 0 ? 2 : 1, n % 2 == 0 ? n / 2 : n}};
}

/// Two layers of different element types, and a table that both share.
template <class Mesh, class Style>
struct Mixed : sw::Module<Mixed<Mesh, Style>> {
  Mixed(const Mesh& mesh, Index features) : first(mesh, 5, features), second(mesh, 5, 7) {}
  constexpr auto forward(const auto& x) const { return first(x); }
  constexpr void visit(auto&& f) {
    f("first", first);
    f("second", second);
    f("again", first);  // the same parameters
  }
  sw::Linear<Mesh, Style> first;
  sw::Linear<Mesh, Style, double> second;
};

template <class Model>
std::vector<std::vector<char>> blocks_of(Model& model) {
  std::vector<std::vector<char>> blocks;
  for (const auto& parameter : sw::detail::named_parameters_of(model)) {
    const sw::Buffer& block = parameter.cell->stored.buffer;
    const auto* data = static_cast<const char*>(block->data);
    blocks.emplace_back(data, data + block->bytes);
  }
  return blocks;
}

/// Checks that `to` gets what it would have if it had drawn it.
template <class From, class To>
void check_copy(From from, To to) {
  sw::initialize(to, 7);
  const auto expected = blocks_of(to);
  sw::initialize(to, 8);
  CHECK(blocks_of(to) != expected);
  sw::initialize(from, 7);
  const auto before = blocks_of(from);
  mpi_counter::reset();
  sw::copy_parameters(from, to);
  if (mpi_counter::counting())
    CHECK(mpi_counter::counts().send.calls < sw::world().size());  // one message a pair at most
  if (mpi_counter::counting()) {
    CHECK(mpi_counter::counts().data_calls() ==
          mpi_counter::counts().send.calls + mpi_counter::counts().receive.calls);
  }
  CHECK(blocks_of(to) == expected);
  CHECK(blocks_of(from) == before);
}

template <class From, class To>
std::string refusal(From from, To to) {
  sw::initialize(from, 1);
  try {
    sw::copy_parameters(from, to);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a GPT goes to other meshes and back") {
  if (sw::world().size() > 4) return;  // which are its heads
  const Line line(sw::world(), {sw::any});
  const GptConfig config{
      .vocabulary = 13, .context = 6, .features = 20, .heads = 4, .hidden = 11, .layers = 2};
  const Line reversed = line.part(sw::MeshRanks<tp>(line.size() - 1, {line.size()}, {-1}));
  check_copy(Gpt<Line>(line, config), Gpt<Plane>(plane(), config));
  check_copy(Gpt<Plane>(plane(), config), Gpt<Line>(line, config));
  check_copy(Gpt<Line>(line, config), Gpt<Line>(reversed, config));
}

TEST_CASE("parameters beyond the limit of a group go in the next messages") {
  const Line line(sw::world(), {sw::any});
  using From = Mixed<Line, sw::ColwiseParallel<tp>>;
  From from(line, 9);
  Mixed<Line, sw::RowwiseParallel<tp>> to(line, 9);
  sw::initialize(to, 7);
  const auto expected = blocks_of(to);
  sw::initialize(from, 7);
  for (const int groups : {1, 4}) {
    const Index limit = groups == 1 ? Index{1} << 26 : 1;
    sw::initialize(to, 8);
    mpi_counter::reset();
    sw::detail::copy_parameters(sw::detail::named_parameters_of(from), sw::detail::named_parameters_of(to),
                                nullptr, limit);
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().send.calls <= groups * (line.size() - 1));
    if (mpi_counter::counting() && groups > 1 && line.size() > 1)
      CHECK(mpi_counter::counts().send.calls > line.size() - 1);
    CHECK(blocks_of(to) == expected);
  }
}

TEST_CASE("other styles, ZeRO levels and element types; parameters of two names") {
  const Line line(sw::world(), {sw::any});
  const sw::Mesh<dp> data(sw::world(), {sw::any});
  using Cut = Mixed<Line, sw::ColwiseParallel<tp>>;
  using Sharded = Mixed<sw::Mesh<dp>, sw::FullyShard<dp>>;
  check_copy(Cut(line, 9), Sharded(data, 9));
  check_copy(Sharded(data, 9), Cut(line, 9));
  check_copy(Sharded(data, 9), Mixed<Plane, sw::RowwiseParallel<tp>>(plane(), 9));
}

/// Parameters go from some ranks of the job to others; each model is on its ranks alone.
template <template <class> class From, template <class> class To>
void check_ranks(const sw::MeshRanks<tp>& sources, const sw::MeshRanks<tp>& targets) {
  const Line line(sw::world(), {sw::any});
  const auto on = [&](const sw::MeshRanks<tp>& ranks) { return ranks.grid().find(line.rank()) >= 0; };
  std::optional<From<Line>> from;
  std::optional<To<Line>> to;
  std::vector<std::vector<char>> expected;
  if (on(sources)) from.emplace(line.part(sources), 9), sw::initialize(*from, 7);
  if (on(targets)) {
    to.emplace(line.part(targets), 9);
    sw::initialize(*to, 7);
    expected = blocks_of(*to);
    sw::initialize(*to, 8);
  }
  sw::copy_parameters(from, to, sw::world());
  if (to) CHECK(blocks_of(*to) == expected);
}

template <class Mesh>
using Cut = Mixed<Mesh, sw::ColwiseParallel<tp>>;
template <class Mesh>
using Whole = Mixed<Mesh, sw::NoParallel>;

TEST_CASE("from some ranks to others") {
  const int n = sw::world().size();
  using Ranks = sw::MeshRanks<tp>;
  check_ranks<Cut, Cut>(Ranks(0, {(n + 1) / 2}),
                        Ranks(n / 2, {(n + 1) / 2}));  // if n is even, none is on both
  check_ranks<Cut, Whole>(Ranks(0, {n}), Ranks(n - 1, {1}));
  check_ranks<Whole, Cut>(Ranks(n - 1, {1}), Ranks(n - 1, {n}, {-1}));
}

TEST_CASE("a rank that lacks the model of its mesh is refused on all ranks") {
  const Line line(sw::world(), {sw::any});
  if (line.size() == 1) return;
  const int last = line.size() - 1;
  Cut<Line> to(line, 9);
  for (const int lacking : {0, last}) {
    std::optional<Cut<Line>> from;
    if (line.rank() != lacking) from.emplace(line, 9), sw::initialize(*from, 7);
    const std::string name = "'first.weight'";
    const std::string problem = lacking == 0 ? "rank 0, the first of the mesh of " + name + ", lacks it"
                                             : "a rank of the mesh of " + name + " lacks it";
    CHECK_THROWS_WITH_AS(sw::copy_parameters(from, to, sw::world()), doctest::Contains(problem.c_str()),
                         std::runtime_error);
  }
}

/// A model whose layers are on different ranks.
template <class Mesh>
struct Stage : sw::Module<Stage<Mesh>> {
  constexpr void visit(auto&& f) { f("first", first), f("second", second); }
  std::optional<sw::Linear<Mesh, sw::NoParallel>> first;
  std::optional<sw::Linear<Mesh, sw::NoParallel, double>> second;
};

TEST_CASE("from stages to all ranks") {
  const Line line(sw::world(), {sw::any});
  const Line own = line.part(sw::MeshRanks<tp>(line.rank(), {1}));
  Stage<Line> from;
  if (line.rank() == 0) from.first.emplace(own, 5, 9);
  if (line.rank() + 1 == line.size()) from.second.emplace(own, 5, 7);
  sw::initialize(from, 7);
  Mixed<Line, sw::ColwiseParallel<tp>> to(line, 9);
  sw::initialize(to, 7);
  const auto expected = blocks_of(to);
  sw::initialize(to, 8);
  Stage<Line> target;
  target.first.emplace(line, 5, 9), target.second.emplace(line, 5, 7);
  sw::copy_parameters(from, target, sw::world());
  sw::copy_parameters(target.first, to.first);
  sw::copy_parameters(target.second, to.second);
  CHECK(blocks_of(to) == expected);
}

TEST_CASE("numbers are rounded to the other element type") {
  const Line line(sw::world(), {sw::any});
  using Style = sw::ColwiseParallel<tp>;
  using Bfloat16 = Eigen::bfloat16;
  sw::Linear<Line, Style, double> wide(line, 5, 9), back(line, 5, 9);
  sw::Linear<Line, sw::RowwiseParallel<tp>, float> narrow(line, 5, 9);
  sw::Linear<Line, Style, Bfloat16> narrower(line, 5, 9);
  sw::initialize(wide, 7);
  sw::copy_parameters(wide, narrow);
  sw::copy_parameters(narrow, narrower);
  sw::copy_parameters(narrow, back);
  const auto values = wide.weight.stored().view(), returned = back.weight.stored().view();
  const auto rounded = narrower.weight.stored().view();
  REQUIRE(values.elements() == returned.elements());
  for (Index i = 0; i < values.elements(); ++i) {
    CHECK(returned.data[i] == static_cast<double>(static_cast<float>(values.data[i])));
    CHECK(rounded.data[i] == static_cast<Bfloat16>(static_cast<float>(values.data[i])));
  }
}

TEST_CASE("models that differ are refused, on every rank alike, by name") {
  const Line line(sw::world(), {sw::any});
  using Style = sw::ColwiseParallel<tp>;
  using Model = Mixed<Line, Style>;
  const std::string begin = "copy_parameters: ";
  CHECK(refusal(Model(line, 9), Model(line, 8)) ==
        begin + "'first.weight' is [9 x 5] of f32 in the first model, and [8 x 5] of f32 in the second");
  CHECK(refusal(Model(line, 9), sw::Linear<Line, Style>(line, 3, 4)) ==
        begin + "only one of the two models has 'first.weight', [9 x 5] of f32");
  CHECK(refusal(Model(line, 9).first, Model(line, 9)) ==
        begin + "only one of the two models has 'weight', [9 x 5] of f32");

  const bool last = line.rank() + 1 == line.size();
  std::optional<Model> from, to;
  if (last) from.emplace(line.part(sw::MeshRanks<tp>(line.rank(), {1})), 9);
  if (line.rank() == 0) to.emplace(line.part(sw::MeshRanks<tp>(0, {1})), 8);
  CHECK_THROWS_WITH_AS(sw::copy_parameters(from, to, sw::world()),
                       doctest::Contains("is used before it has a value"), std::runtime_error);
  if (last) sw::initialize(*from, 1);
  CHECK_THROWS_WITH_AS(sw::copy_parameters(from, to, sw::world()),
                       "copy_parameters: 'first.weight' is [9 x 5] of f32 in the first model, and [8 x 5] of "
                       "f32 in the second",
                       std::invalid_argument);
}

}  // namespace shardwise::testing::copy_parameters
