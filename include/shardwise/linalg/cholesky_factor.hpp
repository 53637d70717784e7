// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `CholeskyFactor`: the factorization of a symmetric positive definite matrix on all ranks of a mesh, to solve with
/// it.
///
/// ```
/// const CholeskyFactor factor(a);     // a: [n, n], any layout
/// const auto x = factor.solve(b);     // b: [n] or [n, r], any layout; x has the layout of b
/// const double d = factor.log_determinant();
/// ```
/// Of a `Var`, the solutions and the logarithm of the determinant have gradients, which are computed with the same
/// factor: da = -(a⁻¹ dx) xᵀ and a⁻¹.

#include <shardwise/linalg/batch.hpp>
#include <shardwise/linalg/cholesky_rows.hpp>
#include <shardwise/linalg/solve_node.hpp>

namespace shardwise {

namespace detail {

/// The type of a matrix for `CholeskyFactor`, which may be on a tape, or why it is refused.
template <class A>
struct CholeskyMatrix : FactorMatrix<A> {};
template <Operand A>
requires OperandTraits<A>::on_tape struct CholeskyMatrix<A>
    : TypeIs<std::conditional_t<IllFormed<factored<FactorLayout, A>>, factored<FactorLayout, A>, A>> {
};

/// The matrix, if it is on a tape.
template <class A>
struct MatrixOnTape {
  constexpr MatrixOnTape(const A&) {}
};
template <class A>
requires OperandTraits<A>::on_tape struct MatrixOnTape<A> {
  A matrix;
};

/// The pullback of ln det A: A⁻¹ times the gradient.
template <TensorType A>
class LogDeterminantNode final : public TapeNode {
 public:
  using T = typename A::Element;
  constexpr LogDeterminantNode(const Shared<CholeskyRows<T>>& factor, const Shared<GradientSlot>& da,
                               const Shared<GradientSlot>& slot)
      : factor_(factor), da_(da), slot_(slot) {
    da_->expect();
  }
  constexpr bool pull_back(BackwardPart) override {
    if (const Buffer block = slot_->pass()) {
      AnyTensor inverse = factor_->inverse();
      // A dry run takes a number that is not 1, so that it counts the product.
      const T gradient = inverse.mesh.dry() ? T{2} : *static_cast<const T*>(block->data);
      add_gradient(da_, std::move(inverse), gradient, A::layout);
    }
    da_->settle();
    return false;
  }

 private:
  Shared<CholeskyRows<T>> factor_;
  Shared<GradientSlot> da_;
  ResultSlot slot_;
};

}  // namespace detail

struct CholeskyOptions {
  /// Without it, half of the matrix is not read: which half depends on the mesh. So both must be there, and a matrix
  /// that is not symmetric gives wrong solutions.
  bool check_symmetry = true;
};

/// `A`: the type of the matrix, a tensor [n, n] of float or double or a `Var` of one, in any layout but a pending
/// maximum or minimum. Copies share the factor.
template <class A>
class CholeskyFactor {
  static_assert(WellFormed<typename detail::CholeskyMatrix<A>::type>);
  using Matrix = tensor_of<A>;
  using T = typename Matrix::Element;
  using Rows = detail::CholeskyRows<T>;
  static constexpr bool on_tape = OperandTraits<A>::on_tape;

 public:
  /// Throws, on all ranks, `std::invalid_argument` if the matrix is not square, or a row differs from its column by
  /// more than about √ε of its size; `std::runtime_error` if it is not positive definite or not finite. Collective over
  /// the mesh.
  constexpr explicit CholeskyFactor(const A& a, CholeskyOptions options = {})
      : mesh_(value_of(a).mesh()),
        rows_(Shared<Rows>::make(detail::AnyTensor(value_of(a)), "CholeskyFactor", options.check_symmetry)),
        given_{a} {}

  /// x with A x = b, in the layout of b: a tensor [n] or [n, r], with elements of A's type. If A is a `Var`, b must be
  /// on its tape, and x is a `Var`. Throws `std::invalid_argument` for other extents. Collective.
  template <class B, WellFormed X = detail::factored<detail::FactorSolveLayout, A, B>>
  constexpr auto solve(const B& b) const {
    const auto& right = value_of(b);
    detail::check_right_side("CholeskyFactor", mesh_, rows_->rows(), right);
    if constexpr (AbstractOperand<X>) {
      return X{};
    } else if constexpr (!on_tape) {
      return solution<X>(right);
    } else {
      return on_common_tape(
          solution<X>(right),
          [&](Tape& tape, const X& y, const Shared<GradientSlot>& slot) {
            const auto solve_back = [factor = rows_](const detail::AnyTensor& dx) {
              return factor->solution(dx, everywhere(dx.layout.axes, shard(0)));
            };
            tape.record<detail::SolveNode<Matrix, std::remove_const_t<decltype(solve_back)>>>(
                detail::AnyTensor(y), solve_back, slot_of(given_.matrix), slot_of(b), slot);
            return Shared<Recipe>();
          },
          given_.matrix, b);
    }
  }
  template <class B, IllFormed Why = detail::factored<detail::FactorSolveLayout, A, B>>
  Why solve(const B&) const;  // see Why

  /// ln det A: also of a matrix whose determinant overflows. A number that every rank has; if A is a `Var`, a scalar on
  /// its tape, whose gradient is A⁻¹. Of a dry run 0.
  constexpr auto log_determinant() const {
    using Scalar =
        tensor_with<T, 0, typename Matrix::MeshOf, packed(everywhere(Matrix::MeshOf::axes, replicate))>;
    if constexpr (AbstractOperand<A>) {
      return detail::abstract_result<Scalar, A>{};
    } else if constexpr (!on_tape) {
      return rows_->log_determinant();
    } else {
      Scalar value(mesh_, {});
      if (!mesh_.dry()) *value.writable().data = static_cast<T>(rows_->log_determinant());
      return on_common_tape(
          std::move(value),
          [&](Tape& tape, const Scalar&, const Shared<GradientSlot>& slot) {
            tape.record<detail::LogDeterminantNode<Matrix>>(rows_, slot_of(given_.matrix), slot);
            return Shared<Recipe>();
          },
          given_.matrix);
    }
  }
  /// A⁻¹, its rows cut over all axes, without a gradient. `solve` is faster and more exact than a product with it.
  constexpr auto inverse() const requires(!on_tape) { return rows_->inverse().template as<ByRows>(mesh_); }
  template <IllFormed Why = detail::factored_off_tape<detail::FactorLayout, A>>
  Why inverse() const requires on_tape;  // see Why
  /// w [n, n] with A = w wᵀ, its rows cut over all axes, without a gradient: w z has the covariance A, if the elements
  /// of z are normal and independent. Its columns are in the order of elimination, so w is not triangular.
  constexpr auto factor() const requires(!on_tape) { return rows_->factor().template as<ByRows>(mesh_); }
  template <IllFormed Why = detail::factored_off_tape<detail::FactorLayout, A>>
  Why factor() const requires on_tape;  // see Why

 private:
  using ByRows = with_layout<Matrix, packed(everywhere(Matrix::MeshOf::axes, shard(0)))>;
  template <class X>
  constexpr X solution(const auto& b) const {
    return rows_->solution(detail::AnyTensor(b), X::layout).template as<X>(mesh_);
  }

  typename Matrix::MeshOf mesh_;
  Shared<Rows> rows_;
  [[no_unique_address]] detail::MatrixOnTape<A> given_;
};
template <class A>
CholeskyFactor(const A&, CholeskyOptions = {}) -> CholeskyFactor<typename detail::CholeskyMatrix<A>::type>;
template <IllFormed Why>
class CholeskyFactor<Why>;  // see Why

}  // namespace shardwise
