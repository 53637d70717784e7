// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batches of whole matrices: which operands a factorization takes, and how all ranks report one failure. A tensor
/// [b…, m, n] holds a matrix for each index b…; its leading dimensions may be cut, so ranks hold different matrices.
///
/// Operations do not communicate. So a function such as `cholesky` runs its operation, and then the ranks that hold
/// different matrices agree on the first one that failed: one all-reduce of 8 bytes over the axes that cut the batch,
/// which plans count. If no axis cuts it, all ranks see the same failure, and nothing is sent.

#include <shardwise/kernel/sums.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/mesh/mesh_state.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise::detail {

/// `Y`, unless its elements are not `float` or `double`.
template <class Y>
struct Factored : TypeIs<Y> {};
template <TensorType Y>
  requires(!std::is_floating_point_v<typename Y::Element>)
struct Factored<Y> : Refused<Reason::operation_needs_floating_point_numbers, Got<typename Y::Element>> {};
/// The result type of the factorization `Op`, or a `LayoutError`.
template <class Op, class... X>
using factored = typename Factored<result_of<Op, X...>>::type;

/// The same for a factorization without gradient, which refuses parameters and operands on a tape.
template <class Op, class... X>
using factored_off_tape =
    std::conditional_t<((OperandTraits<X>::tracked || OperandTraits<X>::on_tape) || ...),
                       layout_error<Reason::operation_has_no_gradient, Got<shown<X>...>>, factored<Op, X...>>;

/// `X` with pending sums finished, so that it meets blocks of rows. An error stays.
template <class X>
struct FinishedOf : TypeIs<X> {};
template <TensorType X>
struct FinishedOf<X> : TypeIs<with_layout<X, packed(without_pending(X::layout, reduced))>> {};
template <class X>
using finished_of = typename FinishedOf<X>::type;

/// The type of a matrix for `CholeskyFactor` or `LuFactor`, in any layout but a pending maximum, or why it is refused.
struct FactorLayout {
  static constexpr Signature signature = Signature::of("mn -> mn").linear_in_each();
};
template <class A>
struct FactorMatrix : Refused<Reason::argument_is_not_a_tensor, Got<A>> {};
template <Operand A>
struct FactorMatrix<A> : TypeIs<factored_off_tape<FactorLayout, A>> {};

/// Solutions have the layout of the right side, whatever that of the matrix is.
struct FactorSolveLayout {
  template <int A, int B>
  static constexpr Signature signature() {
    return B == 1 || B == 2 ? Signature::of(B == 1 ? "mn, m -> m" : "mn, mr -> mr") : Signature();
  }
  static constexpr Propagated rule(const Signature&, const OperandPlacements& at) {
    return propagate(Signature::of("mr -> mr").linear_in_each(), {at[1]});
  }
};
/// Throws `std::invalid_argument` unless b is on the mesh, and has the rows, of a matrix.
template <class B>
constexpr void check_right_side(const char* name, const typename B::MeshOf& mesh, Index rows, const B& b) {
  if (!(b.mesh() == mesh)) {
    throw std::invalid_argument(std::string(name) + ": the right side lives on another mesh than the matrix");
  }
  if (b.shape()[0] != rows) {
    fail({name, ": the right side ", b.shape(), " does not have the ", rows, " rows of the matrix"});
  }
}

/// Throws `std::invalid_argument` unless the last two extents are equal.
template <int Rank>
constexpr void check_square(const char* name, const Shape<Rank>& shape) {
  if (shape[Rank - 2] != shape[Rank - 1]) fail({name, ": the matrices of ", shape, " are not square"});
}

inline constexpr Index no_failure = std::numeric_limits<Index>::max();

/// The number in the whole batch of matrix `local` of this block.
template <class T, int Rank>
Index matrix_number(const View<T, Rank>& x, Index local) {
  Index number = 0, stride = 1;
  for (int dim = Rank - 3; dim >= 0; --dim) {
    number += (x.begin[dim] + local % x.size[dim]) * stride;
    local /= x.size[dim];
    stride *= x.shape[dim];
  }
  return number;
}

/// The least of the ranks' numbers. Collective over the axes that cut `x`.
template <TensorType X>
constexpr Index first_of_all(const X& x, Index first) {
  constexpr AxisSet cut = X::layout.axes_where([](Placement p) { return p.is_shard(); });
  MeshView(x.mesh()).all_reduce(&first, 1, DataType::i64, ReduceOp::min, cut);
  return first;
}

/// "the matrix", or "matrix [2, 0]" of a batch.
template <int Rank>
std::string matrix_text(const Shape<Rank>& shape, Index number) {
  if constexpr (Rank == 2) return "the matrix";
  return "matrix " + position(std::span<const Index>(shape.values, Rank - 2), number);
}

/// The first row of x [n, n] that differs from its column by more than √ε of the largest element, or -1: such a matrix
/// was not meant to be symmetric.
template <class T>
Index asymmetric_row(Index n, const T* x) {
  const T limit =
      static_cast<T>(kernel::largest_magnitude(n * n, x)) * std::sqrt(std::numeric_limits<T>::epsilon());
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < i; ++j) {
      if (std::abs(x[i * n + j] - x[j * n + i]) > limit) return j;
    }
  }
  return -1;
}
template <int Rank>
[[noreturn]] void fail_asymmetric(const char* name, const Shape<Rank>& shape, Index number, Index row) {
  fail({name, ": ", matrix_text(shape, number), " is not symmetric: row ", row, " is not equal to column ",
        row});
}

}  // namespace shardwise::detail
