// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Results that are computed again in the backward pass: the same gradients, less memory, and once for all who
/// need them.

#include <doctest/doctest.h>

#include <shardwise/shardwise.hpp>

#include "../support/plans.hpp"

namespace shardwise::testing {
namespace {

/// x · y, whose result is computed again; or kept.
template <bool Again>
struct Times {
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool recomputed = Again;

  template <int A, int B>
  static constexpr Signature signature() {
    return Signature::of(Indices::range('a', A), Indices::range('a', B), Indices::range('a', A));
  }
  template <std::size_t Rank>
  static constexpr auto shape(const std::array<Index, Rank>& a, const std::array<Index, Rank>&) {
    return a;
  }
  template <class T>
  static void product(Index count, const T* a, const T* b, T* y) {
    for (Index i = 0; i < count; ++i) y[i] = a[i] * b[i];
  }
  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> a, View<const T, Rank> b) {
    product(y.elements(), a.data, b.data, y.data);
  }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> a,
                        Input<T, Rank> b) {
    if (a.gradient) product(dy.elements(), dy.data, b.data, a.gradient);
    if (b.gradient) product(dy.elements(), dy.data, a.data, b.gradient);
  }
};

constexpr Index rows = 64, features = 32;
constexpr int layers = 4;

/// Layers of two products with one value, which is recomputed and relabelled.
template <bool Again>
constexpr auto loss_of(const auto& x, const auto& w) {
  auto y = redistribute<Replicate>(x);
  for (int layer = 0; layer < layers; ++layer) {
    auto shared = redistribute<Reduced>(apply(Times<Again>{}, y, y));
    auto sum = add(matmul(shared, w), matmul(shared, w));
    y = redistribute<Replicate>(redistribute<Partial<Sum>>(sum));
  }
  return mean(y);
}

template <bool Again>
constexpr auto step = [](const auto& mesh) {
  Tape tape;
  auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
  auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
  auto loss = loss_of<Again>(x, w);
  tape.backward(loss);
};

template <bool Again>
auto gradients(const Mesh<tp>& mesh) {
  Tape tape;
  auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
  auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
  auto loss = loss_of<Again>(x, w);
  tape.backward(loss);
  return std::pair(full_tensor(x.gradient()).eval(),
                   full_tensor(redistribute<Replicate>(w.gradient())).eval());
}

TEST_CASE("what is computed again gives the same gradients") {
  const Mesh<tp> mesh(world(), {any});
  const auto [kept_x, kept_w] = gradients<false>(mesh);
  const auto [again_x, again_w] = gradients<true>(mesh);
  CHECK(kept_x.norm() > 0);
  CHECK(kept_x == again_x);
  CHECK(kept_w == again_w);
}

TEST_CASE("it is computed once for all who need it, and costs less memory") {
  const Mesh<tp> mesh(world(), {any});
  const auto kept = agreed_plan(mesh, step<false>);
  const auto again = agreed_plan(mesh, step<true>);
  const Index block = rows * features * Index{sizeof(double)};
  CHECK(again.flops(Phase::backward) - kept.flops(Phase::backward) == layers * rows * features);
  CHECK(again.flops(Phase::forward) == kept.flops(Phase::forward));
  CHECK(again.peak_activation_bytes() <= kept.peak_activation_bytes() - (layers - 1) * block);
  CHECK(same_communication(kept, again));
}

TEST_CASE("memory comes back when a tape is dropped without a backward pass") {
  const Mesh<tp> mesh(world(), {any});
  auto forward_only = [&] {
    Tape tape;
    auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
    auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
    loss_of<true>(x, w);
  };
  forward_only();
  const Index before = memory_pool().system_bytes();
  for (int i = 0; i < 20; ++i) forward_only();
  CHECK(memory_pool().system_bytes() == before);
}

}  // namespace
}  // namespace shardwise::testing
