// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Many tensors in one collective: the same bits as when each goes by itself, whatever the buckets, the sizes, and how
/// many are under way.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>
#include <shardwise/train/reduce_gradients.hpp>
#include <support/plans.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace shardwise::testing::buckets {
namespace {

using Grid = Mesh<dp, tp>;

/// Small whole numbers, whose sums are exact in every type; others on each rank.
template <class X>
X numbers(const typename X::MeshOf& mesh, const Shape<X::rank>& shape, int seed) {
  X x(mesh, shape);
  const auto block = x.writable();
  for (Index i = 0; i < block.elements(); ++i) {
    block.data[i] =
        static_cast<typename X::Element>(static_cast<float>((i * 5 + seed * 3 + mesh.rank() * 7) % 9));
  }
  return x;
}
template <class X>
bool same_bits(const X& a, const X& b) {
  const auto count = static_cast<std::size_t>(a.view().elements());
  return a.shape() == b.shape() &&
         (count == 0 || std::memcmp(a.data(), b.data(), count * sizeof(typename X::Element)) == 0);
}

class Step final : public detail::CompletionHandler {
 public:
  explicit Step(std::function<void()> what) : what_(std::move(what)) {}
  void arrived(detail::AnyTensor&&) override { what_(); }

 private:
  std::function<void()> what_;
};

/// Tensors that go in buckets, and what must come of them.
class Traveller {
 public:
  Traveller(Index most_bytes, int background) : buckets_(most_bytes, background) {}

  /// From the layout of `From` to that of `To`, which differ on some axes: one has them cut, or they are summed.
  template <class From, class To>
  void send(const Grid& mesh, const Shape<From::rank>& shape) {
    const AxisSet axes = detail::changed_axes(From::layout, To::layout, mesh.sizes());
    if (axes == 0) return;
    const int id = sent_++;
    const From from = numbers<From>(mesh, shape, id);
    const To expected = redistribute_to<To>(from);
    To to(mesh, shape);
    if (has_partial(From::layout) && std::is_same_v<SummedOf<From>, To>) {
      to = To(mesh, shape, from.buffer());  // in place
    }
    auto check = [this, id, to, expected] {
      order_.push_back(id);
      CHECK(same_bits(to, expected));
    };
    buckets_.add(detail::AnyTensor(from), detail::AnyTensor(to), data_type_of<typename From::Element>(),
                 MemoryUse::gathered, Phase::backward, Shared<Step>::make(check));
  }

  detail::Buckets& buckets() { return buckets_; }
  /// All have arrived, each once.
  void finish() {
    buckets_.finish();
    CHECK(buckets_.idle());
    std::sort(order_.begin(), order_.end());
    CHECK(order_.size() == static_cast<std::size_t>(sent_));
    for (std::size_t i = 0; i < order_.size(); ++i) CHECK(order_[i] == static_cast<int>(i));
  }
  int sent() const { return sent_; }
  const std::vector<int>& order() const { return order_; }

 private:
  template <class X>
  static constexpr Layout summed() {
    return Layout::by_axis(
        X::layout.axes, [](int axis) { return X::layout[axis].is_partial() ? replicate : X::layout[axis]; });
  }
  template <class X>
  using SummedOf = with_layout<X, packed(summed<X>())>;

  detail::Buckets buckets_;
  int sent_ = 0;
  std::vector<int> order_;
};

/// There and back along dp, for a matrix of rank 3 that tp may cut too.
template <class T, class OnDp, class OnTp>
void send_both_ways(Traveller& traveller, const Grid& mesh, const Shape<3>& shape) {
  using Cut = Tensor<T, 3, Grid, OnDp, OnTp>;
  traveller.send<Cut, Tensor<T, 3, Grid, Replicate, OnTp>>(mesh, shape);
  traveller.send<Tensor<T, 3, Grid, Partial<Sum>, OnTp>, Cut>(mesh, shape);
}
template <class T>
void send_all(Traveller& traveller, const Grid& mesh, const Shape<3>& shape) {
  send_both_ways<T, Shard<0>, Replicate>(traveller, mesh, shape);
  send_both_ways<T, Shard<1>, Replicate>(traveller, mesh, shape);
  send_both_ways<T, Shard<2>, Replicate>(traveller, mesh, shape);
  send_both_ways<T, Shard<1>, Shard<0>>(traveller, mesh, shape);
  send_both_ways<T, Shard<0>, Shard<2>>(traveller, mesh, shape);
  traveller.send<Tensor<T, 3, Grid, Partial<Sum>, Shard<1>>, Tensor<T, 3, Grid, Replicate, Shard<1>>>(mesh,
                                                                                                      shape);
  // Along both axes.
  using Both = Tensor<T, 3, Grid, Shard<1>, Shard<2>>;
  traveller.send<Both, Tensor<T, 3, Grid, Replicate, Replicate>>(mesh, shape);
  traveller.send<Tensor<T, 3, Grid, Partial<Sum>, Partial<Sum>>, Both>(mesh, shape);
  traveller.send<Tensor<T, 3, Grid, Partial<Sum>, Partial<Sum>>, Tensor<T, 3, Grid, Replicate, Replicate>>(
      mesh, shape);
  // Other ranks.
  const Shape<1> line{shape[0] + shape[2]};
  traveller.send<Tensor<T, 1, Grid, Shard<0>, Replicate>, Tensor<T, 1, Grid, Replicate, Replicate>>(mesh,
                                                                                                    line);
  traveller.send<Tensor<T, 1, Grid, Partial<Sum>, Replicate>, Tensor<T, 1, Grid, Shard<0>, Replicate>>(mesh,
                                                                                                       line);
}

/// Even on 4 ranks; uneven; with less than a row a rank; without any element; a single one.
constexpr Shape<3> shapes[] = {{4, 8, 12}, {7, 5, 3}, {3, 1, 2}, {0, 4, 2}, {1, 1, 1}, {2, 11, 6}};

TEST_CASE("a bucket moves what each tensor's own collective would, bit by bit") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (Index most_bytes : {Index{0}, Index{64}, Index{1000}, Index{1} << 20}) {
      for (int background : {0, 1, 2, std::numeric_limits<int>::max()}) {
        INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " bytes ", most_bytes, " background ",
             background);
        Traveller traveller(most_bytes, background);
        for (const Shape<3>& shape : shapes) {
          send_all<float>(traveller, mesh, shape);
          send_all<double>(traveller, mesh, shape);
          send_all<Eigen::bfloat16>(traveller, mesh, shape);
        }
        traveller.finish();
        CHECK((mesh.size() == 1 || traveller.sent() > 0));
      }
    }
  }
}

TEST_CASE("each shape by itself") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (const Shape<3>& shape : shapes) {
      for (int background : {0, 1}) {
        Traveller traveller(Index{1} << 20, background);
        traveller
            .send<Tensor<float, 3, Grid, Shard<0>, Replicate>, Tensor<float, 3, Grid, Replicate, Replicate>>(
                mesh, shape);
        traveller.finish();
        Traveller scatters(Index{1} << 20, background);
        scatters.send<Tensor<float, 3, Grid, Partial<Sum>, Replicate>,
                      Tensor<float, 3, Grid, Shard<2>, Replicate>>(mesh, shape);
        scatters.finish();
      }
    }
  }
}

TEST_CASE("buckets arrive in the order in which they began; nothing before it must") {
  const Grid mesh(world(), {any, 1});
  if (mesh.size() == 1) return;
  Traveller traveller(100, 2);
  using Cut = Tensor<float, 1, Grid, Shard<0>, Replicate>;
  using Whole = Tensor<float, 1, Grid, Replicate, Replicate>;
  for (int i = 0; i < 5; ++i) traveller.send<Cut, Whole>(mesh, {25});  // a bucket each
  CHECK(traveller.order() == std::vector<int>{0, 1});                  // two are under way, one is not full
  traveller.buckets().start();
  CHECK(traveller.order() == std::vector<int>{0, 1, 2});
  traveller.buckets().finish();
  CHECK(traveller.order() == std::vector<int>{0, 1, 2, 3, 4});
  traveller.finish();
}

TEST_CASE("a tensor that travels alone, its parts in order, is not copied") {
  const Grid mesh(world(), {any, 1});
  if (mesh.size() == 1) return;
  using Rows = Tensor<float, 2, Grid, Shard<0>, Replicate>;
  using Columns = Tensor<float, 2, Grid, Shard<1>, Replicate>;
  using Whole = Tensor<float, 2, Grid, Replicate, Replicate>;
  using Terms = Tensor<float, 2, Grid, Partial<Sum>, Replicate>;
  auto copied = [&](auto send) {
    Recording recording(mesh);
    Traveller traveller(1000, 0);
    send(traveller);
    traveller.finish();
    return recording.plan().peak_bytes(MemoryUse::gathered);
  };
  const Shape<2> shape{30, 40};
  CHECK(copied([&](Traveller& t) { t.send<Rows, Whole>(mesh, shape); }) == 0);
  CHECK(copied([&](Traveller& t) { t.send<Terms, Rows>(mesh, shape); }) == 0);
  CHECK(copied([&](Traveller& t) { t.send<Terms, Whole>(mesh, shape); }) == 0);
  CHECK(copied([&](Traveller& t) { t.send<Columns, Whole>(mesh, shape); }) == 30 * 40 * 4);
  CHECK(copied([&](Traveller& t) { t.send<Terms, Columns>(mesh, shape); }) == 30 * 40 * 4);
}

TEST_CASE("uneven blocks: what arrivals add goes together on all ranks, though their own blocks differ") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (int background : {0, 1, 2}) {
      for (Index most_bytes : {60, 200, 500}) {
        INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " bytes ", most_bytes, " background ",
             background);
        detail::Buckets buckets(most_bytes, background);
        // Along dp: matrices whose rows tp cuts, of another size on each rank there, or of none; and vectors that
        // are the same on all ranks of tp, whose parts then are summed along tp.
        using Terms = Tensor<double, 2, Grid, Partial<Sum>, Shard<0>>;
        using Blocks = Tensor<double, 2, Grid, Shard<1>, Shard<0>>;
        using Line = Tensor<double, 1, Grid, Partial<Sum>, Partial<Sum>>;
        using LinePart = Tensor<double, 1, Grid, Shard<0>, Partial<Sum>>;
        using LineSum = Tensor<double, 1, Grid, Shard<0>, Replicate>;
        const AxisSet along_dp = detail::changed_axes(Terms::layout, Blocks::layout, mesh.sizes());
        const AxisSet along_tp = detail::changed_axes(LinePart::layout, LineSum::layout, mesh.sizes());
        if (along_dp == 0 || along_tp == 0) continue;
        int sums = 0;
        std::vector<std::function<void()>> checks;
        for (int i = 0; i < 8; ++i) {
          const Shape<2> rows{i % 3 == 0 ? 1 : 3, 6};
          const auto terms = numbers<Terms>(mesh, rows, i);
          const Blocks blocks(mesh, rows);
          checks.push_back([=] { CHECK(same_bits(blocks, redistribute_to<Blocks>(terms))); });
          auto send = [&](const auto& from, const auto& to, Shared<Step> arrival = {}) {
            const detail::AnyTensor any(from);
            buckets.add(any, detail::AnyTensor(to), any.type, MemoryUse::gathered, Phase::backward,
                        std::move(arrival));
          };
          send(terms, blocks);
          const Shape<1> extent{7};
          const auto line = numbers<Line>(mesh, extent, i);
          const LinePart part(mesh, extent);
          checks.push_back([=] {
            CHECK(same_bits(LineSum(mesh, extent, part.buffer()), redistribute_to<LineSum>(line)));
          });
          auto sum_part = [&sums, send, part, extent, mesh] {
            send(part, LineSum(mesh, extent, part.buffer()), Shared<Step>::make([&sums] { ++sums; }));
          };
          send(line, part, Shared<Step>::make(sum_part));
        }
        buckets.finish();
        CHECK(sums == 8);
        for (const auto& check : checks) check();
      }
    }
  }
}

TEST_CASE("buckets that are dropped tell nobody, and free what they hold") {
  const Grid mesh(world(), {any, 1});
  if (mesh.size() == 1) return;
  Recording recording(mesh);
  {
    Traveller traveller(100, 2);
    using Cut = Tensor<float, 1, Grid, Shard<0>, Replicate>;
    using Whole = Tensor<float, 1, Grid, Replicate, Replicate>;
    for (int i = 0; i < 2; ++i) traveller.send<Cut, Whole>(mesh, {25});
    CHECK(traveller.order().empty());
  }
  const auto plan = recording.plan();
  CHECK(plan.record().all_memory.live == 0);
}

}  // namespace
}  // namespace shardwise::testing::buckets
