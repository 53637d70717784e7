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
#include <functional>
#include <shardwise/comm/environment.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/factories.hpp>
#include <support/arrival.hpp>
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
double difference(const Dense& found, const Dense& expected);

/// Writes this rank's block, or its share of the values in a pending sum, of a tensor that all know.
void place(const detail::AnyTensor& x, const Dense& all);
template <TensorType X>
X place(const typename X::MeshOf& mesh, const Dense& all) {
  Shape<X::rank> shape{};
  std::copy(all.shape.begin(), all.shape.end(), shape.begin());
  X x(mesh, shape);
  place(detail::AnyTensor(x), all);
  return x;
}

/// The whole tensor. Collective.
Dense gather(const detail::AnyTensor& x);
template <TensorType X>
Dense gather(const X& x) {
  return gather(detail::AnyTensor(x));
}

Dense random_dense(std::vector<Index> shape, std::uint64_t seed);
/// Integers in [0, bound).
Dense random_integers(std::vector<Index> shape, Index bound, std::uint64_t seed);

/// Normal numbers, the same in every layout.
template <class T, class... Placements, class MeshType, int Rank>
auto random(const MeshType& mesh, const Index (&shape)[Rank], std::uint64_t seed) {
  return place<Tensor<T, Rank, MeshType, Placements...>>(mesh, random_dense({shape, shape + Rank}, seed));
}

/// Integers in [0, bound), the same in every layout.
template <class T, class... Placements, class MeshType, int Rank>
auto random_ids(const MeshType& mesh, const Index (&shape)[Rank], Index bound, std::uint64_t seed) {
  return place<Tensor<T, Rank, MeshType, Placements...>>(mesh,
                                                         random_integers({shape, shape + Rank}, bound, seed));
}

/// What came of a run.
struct Found {
  std::vector<detail::AnyTensor> tensors;
  Index collectives = 0;  ///< asked for meanwhile
};

/// The naive computation of all operands.
using Reference = std::function<Dense(const std::vector<Dense>&)>;

/// An operation on certain operands, without their types: all that a check knows of it.
struct Checked {
  Reference reference;
  std::vector<detail::AnyTensor> operands;
  Layout layout_of_dy{};

  Checked(Reference naive, std::initializer_list<detail::AnyTensor> x)
      : reference(std::move(naive)), operands(x) {}
  virtual ~Checked() = default;
  /// Its result.
  virtual Found run() const = 0;
  /// The gradients of the operands, empty where there is none, when each of so many results gets the gradient `dy`.
  virtual Found run_back(int uses, const detail::AnyTensor& dy) const = 0;
};
void check_value(const Checked& op);
void check(const Checked& op);

template <class F, class... X>
struct CheckedValue : Checked {
  const F& op;
  std::tuple<const X&...> x;

  CheckedValue(const F& f, Reference naive, const X&... operand)
      : Checked(std::move(naive), {detail::AnyTensor(operand)...}), op(f), x(operand...) {}
  Found run() const override {
    Recording recording(std::get<0>(x).mesh());
    const detail::AnyTensor y(std::apply(op, x));
    return {{y}, recording.plan().collectives()};
  }
  Found run_back(int, const detail::AnyTensor&) const override { return {}; }
};

template <class X>
auto on_tape(Tape& tape, const X& x) {
  if constexpr (X::is_float) {
    return tape.input(x);
  } else {
    return tape.constant(x);
  }
}
template <class X, bool Tracked>
detail::AnyTensor gradient_of(const Var<X, Tracked>& var) {
  if constexpr (Tracked) {
    return detail::AnyTensor(var.value()).with(cotangent_of<X>::layout, var.slot()->sum());
  } else {
    return {};
  }
}

template <class F, class... X>
struct CheckedGradient final : CheckedValue<F, X...> {
  using Y = decltype(std::declval<F>()(std::declval<X>()...));

  CheckedGradient(const F& f, Reference naive, const X&... operand)
      : CheckedValue<F, X...>(f, std::move(naive), operand...) {
    this->layout_of_dy = cotangent_of<Y>::layout;
  }
  Found run_back(int uses, const detail::AnyTensor& dy) const override {
    Tape tape;
    return std::apply([&](const X&... x) { return back(uses, dy, tape, on_tape(tape, x)...); }, this->x);
  }
  template <class... V>
  Found back(int uses, const detail::AnyTensor& dy, Tape& tape, const V&... var) const {
    const auto& mesh = std::get<0>(this->x).mesh();
    Recording recording(mesh);
    for (int use = 0; use < uses; ++use) {
      auto y = this->op(var...);
      static_assert(std::is_same_v<decltype(y), Var<Y>>);
      arrive(tape, y, dy);
    }
    go_back(tape, mesh);
    return {{gradient_of(var)...}, recording.plan().collectives()};
  }
};

template <class F, std::size_t... I>
Reference of_all(F naive, std::index_sequence<I...>) {
  return [naive](const std::vector<Dense>& inputs) { return naive(inputs[I]...); };
}
/// Only the forward pass.
template <class F, class Naive, class... X>
void check_value(F op, Naive naive, const X&... x) {
  check_value(CheckedValue<F, X...>(op, of_all(naive, std::index_sequence_for<X...>()), x...));
}
template <class F, class Naive, class... X>
void check(F op, Naive naive, const X&... x) {
  check(CheckedGradient<F, X...>(op, of_all(naive, std::index_sequence_for<X...>()), x...));
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
