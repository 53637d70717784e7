// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How the tests of operations check one: against a naive dense computation of the same thing in `double`,
/// forward, and every gradient against central differences of that computation.
///
/// ```
/// check([](const auto& a, const auto& b) { return add(a, b); },   // the operation, on tensors or Vars
///       [](const Dense& a, const Dense& b) { … },                  // the same, naively
///       random<double, Shard<0>>(mesh, {7, 3}, 1), random<double, Reduced>(mesh, {3}, 2));
/// ```
/// It also checks that nothing communicates, that without a tape the result is the same, that two uses of an
/// operand add up, and that nobody writes to a gradient that is shared.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/factories.hpp>
#include <vector>

namespace shardwise::testing {

/// A whole tensor of any rank, row-major.
struct Dense {
  std::vector<Index> shape;
  std::vector<double> values;

  explicit Dense(std::vector<Index> extents) : shape(std::move(extents)) {
    Index count = 1;
    for (Index extent : shape) count *= extent;
    values.resize(static_cast<std::size_t>(count));
  }
  Index size() const { return static_cast<Index>(values.size()); }
  double& operator[](Index i) { return values[static_cast<std::size_t>(i)]; }
  double operator[](Index i) const { return values[static_cast<std::size_t>(i)]; }
  Index extent(std::size_t dim) const { return shape[dim]; }
};

/// Largest difference, relative to the largest value.
inline double difference(const Dense& found, const Dense& expected) {
  REQUIRE(found.shape == expected.shape);
  double largest = 0, off = 0;
  for (Index i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return HUGE_VAL;
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(found[i] - expected[i]));
  }
  return off / (largest > 0 ? largest : 1);
}

/// This rank's share of the value in a pending sum: shares differ from rank to rank and add up to 1.
template <class X>
double share(const X& x) {
  double part = 1;
  for (int axis = 0; axis < X::layout.axes; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const double ranks = x.mesh().sizes()[a], rank = x.mesh().coordinates()[a];
    if (X::layout[axis] == partial_sum) part *= 2 * (rank + 1) / (ranks * (ranks + 1));
  }
  return part;
}

/// Every rank's block, or its share, of a tensor that all know.
template <TensorType X>
X place(const typename X::MeshOf& mesh, const Dense& all) {
  Shape<X::rank> shape{};
  std::copy(all.shape.begin(), all.shape.end(), shape.begin());
  X x(mesh, shape);
  auto block = x.writable();
  detail::for_each_run(block, [&](Index local, Index global, Index count) {
    for (Index i = 0; i < count; ++i) {
      block.data[local + i] = static_cast<typename X::Element>(all[global + i] * share(x));
    }
  });
  return x;
}

/// The whole tensor. Collective.
template <TensorType X>
Dense gather(const X& x) {
  const auto whole = redistribute_to<whole_of<X>>(x);
  Dense all(std::vector<Index>(x.shape().begin(), x.shape().end()));
  for (Index i = 0; i < all.size(); ++i) all[i] = static_cast<double>(whole.data()[i]);
  return all;
}

inline Dense random_dense(std::vector<Index> shape, std::uint64_t seed) {
  Dense all(std::move(shape));
  kernel::fill_normal(all.size(), seed, 0, 0., 1., all.values.data());
  return all;
}

/// Normal numbers, the same in every layout.
template <class T, class... Placements, class MeshType, int Rank>
auto random(const MeshType& mesh, const Index (&shape)[Rank], std::uint64_t seed) {
  return place<Tensor<T, Rank, MeshType, Placements...>>(mesh, random_dense({shape, shape + Rank}, seed));
}

/// Integers in [0, bound), the same in every layout.
template <class T, class... Placements, class MeshType, int Rank>
auto random_ids(const MeshType& mesh, const Index (&shape)[Rank], Index bound, std::uint64_t seed) {
  Dense all({shape, shape + Rank});
  kernel::fill_uniform(all.size(), seed, 0, 0., static_cast<double>(bound), all.values.data());
  for (double& value : all.values) value = std::floor(value);
  return place<Tensor<T, Rank, MeshType, Placements...>>(mesh, all);
}

/// At the end of a tape: the gradient of a result, given.
template <TensorType Y>
class SeedNode final : public TapeNode {
 public:
  SeedNode(Shared<GradientSlot> slot, cotangent_of<Y> gradient)
      : slot_(std::move(slot)), gradient_(std::move(gradient)) {}
  void pull_back() override { slot_->add(gradient_); }

 private:
  Shared<GradientSlot> slot_;
  cotangent_of<Y> gradient_;
};

/// Runs the tape backward from `y`, whose gradient is `dy`.
template <class Y>
void pull_back_from(Tape& tape, const Var<Y>& y, const cotangent_of<Y>& dy) {
  tape.record<SeedNode<Y>>(y.slot(), dy);
}
template <class MeshType>
void run_backward(Tape& tape, const MeshType& mesh) {
  tape.backward(
      tape.input(tensor_with<double, 0, MeshType, packed(everywhere(MeshType::axes, replicate))>(mesh, {})));
}

/// d(Σ weights · f(inputs)) / d inputs[which], by central differences.
template <class Reference, std::size_t... I>
Dense numerical_gradient(Reference f, std::vector<Dense> inputs, const Dense& weights, std::size_t which,
                         std::index_sequence<I...>) {
  Dense gradient(inputs[which].shape);
  for (Index i = 0; i < gradient.size(); ++i) {
    const double x = inputs[which][i], step = 1e-5 * std::max(1., std::abs(x));
    double sum = 0;
    inputs[which][i] = x + step;
    const Dense above = f(inputs[I]...);
    inputs[which][i] = x - step;
    const Dense below = f(inputs[I]...);
    inputs[which][i] = x;
    for (Index j = 0; j < weights.size(); ++j) sum += weights[j] * (above[j] - below[j]);
    gradient[i] = sum / (2 * step);
  }
  return gradient;
}

template <TensorType X>
auto on_tape(Tape& tape, const X& x) {
  if constexpr (X::is_float) {
    return tape.input(x);
  } else {
    return tape.constant(x);
  }
}

/// Only the forward pass.
template <class F, class Reference, class... X>
void check_value(F op, Reference reference, const X&... x) {
  const auto& mesh = std::get<0>(std::tie(x...)).mesh();
  Recording recording(mesh);
  const auto y = op(x...);
  CHECK(recording.plan().collectives() == 0);
  using T = typename decltype(y)::Element;
  CHECK(difference(gather(y), reference(gather(x)...)) <= (std::is_same_v<T, double> ? 1e-12 : 2e-2));
}

template <class F, class Reference, class... X>
void check(F op, Reference reference, const X&... x) {
  check_value(op, reference, x...);
  const auto& mesh = std::get<0>(std::tie(x...)).mesh();
  using Y = decltype(op(x...));
  constexpr bool exact = std::is_same_v<typename Y::Element, double>;
  const std::vector<Dense> inputs{gather(x)...};
  const Dense weights = random_dense(reference(gather(x)...).shape, 99);
  const auto dy = place<cotangent_of<Y>>(mesh, weights);
  for (int uses : {1, 2}) {
    CAPTURE(uses);
    Tape tape;
    std::tuple vars{on_tape(tape, x)...};
    std::apply(
        [&](const auto&... var) {
          Recording recording(mesh);
          for (int use = 0; use < uses; ++use) {
            auto y = op(var...);
            static_assert(std::is_same_v<decltype(y), Var<Y>>);
            pull_back_from(tape, y, dy);
          }
          run_backward(tape, mesh);
          CHECK(recording.plan().collectives() == 0);
        },
        vars);
    // bfloat16 gradients have been rounded where they were made and where they were added.
    CHECK(difference(gather(dy), weights) <= (exact ? 1e-15 : 1e-2));
    auto compare = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      using Given = std::tuple_element_t<I, std::tuple<X...>>;
      if constexpr (Given::is_float) {
        CAPTURE(I);
        const auto& gradient = std::get<I>(vars).gradient();
        static_assert(std::is_same_v<std::remove_cvref_t<decltype(gradient)>, cotangent_of<Given>>);
        Dense expected =
            numerical_gradient(reference, inputs, weights, I, std::make_index_sequence<sizeof...(X)>());
        for (double& value : expected.values) value *= uses;
        CHECK(difference(gather(gradient), expected) <= (exact ? 1e-6 : 4e-2));
      }
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (compare(std::integral_constant<std::size_t, I>()), ...);
    }
    (std::make_index_sequence<sizeof...(X)>());
  }
}

/// All ranks along one axis.
inline Mesh<tp> line() { return Mesh<tp>(world(), {any}); }
/// Two rows where the number of ranks allows it.
inline Mesh<dp, tp> grid() { return Mesh<dp, tp>(world(), {world().size() % 2 == 0 ? 2 : 1, any}); }

/// Why operation `Op` does not take these operands; `Reason::none` if it does.
template <class Op, class... X>
constexpr Reason why_not = [] {
  using Result = result_of<Op, X...>;
  if constexpr (IllFormed<Result>) {
    return reason_of<Result>;
  } else {
    return Reason::none;
  }
}();

/// Operands on a line, for questions about types.
template <int Rank, class Placement, class T = double>
using On1 = Tensor<T, Rank, Mesh<tp>, Placement>;
template <int Rank, class Placement, class T = double>
using Tracked1 = Var<On1<Rank, Placement, T>>;

/// The message of the exception that `f` must throw.
template <class Exception, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace shardwise::testing
