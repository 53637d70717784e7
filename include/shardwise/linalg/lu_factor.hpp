// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `LuFactor`: the factorization of a square matrix on all ranks of a mesh, by LU with tournament pivoting, to solve
/// with it.
///
/// ```
/// const LuFactor factor(a);           // a: [n, n], any layout
/// const auto x = factor.solve(b);     // b: [n] or [n, r], any layout; x has the layout of b
/// ```
/// It is the elimination of `solve`. All ranks must compute with the same bits, as there.

#include <shardwise/linalg/batch.hpp>
#include <shardwise/linalg/equations.hpp>

namespace shardwise {

/// `A`: the type of the matrix, a tensor [n, n] of float or double, in any layout but a pending maximum or minimum.
template <class A>
class LuFactor {
  static_assert(WellFormed<typename detail::FactorMatrix<A>::type>);

 public:
  /// Throws, on all ranks, `std::invalid_argument` if the matrix is not square; `std::runtime_error` as `solve` if it
  /// is singular or not finite. Collective over the mesh.
  constexpr explicit LuFactor(const A& a)
      : mesh_(a.mesh()), equations_(detail::AnyTensor(a), no_sides(a), "LuFactor") {
    equations_.check("LuFactor", detail::AnyTensor(a));
    sign_ = equations_.determinant_sign();
  }

  /// x with A x = b, in the layout of b: a tensor [n] or [n, r], with elements of A's type. Throws
  /// `std::invalid_argument` for other extents. Collective.
  template <class B, WellFormed X = detail::factored_off_tape<detail::FactorSolveLayout, A, B>>
  constexpr B solve(const B& b) const {
    const detail::RankLine& line = equations_.line();
    detail::check_right_side("LuFactor", mesh_, equations_.rows(), b);
    detail::AnyTensor sides = detail::redistributed_to(detail::AnyTensor(b), line.rows(), line.type);
    detail::AnyTensor x = equations_.solve(sides);
    x.rank = b.rank;
    return detail::redistributed_to(std::move(x), B::layout, line.type).template as<B>(mesh_);
  }
  template <class B, IllFormed Why = detail::factored_off_tape<detail::FactorSolveLayout, A, B>>
  Why solve(const B&) const;  // see Why

  /// ln |det A|, on every rank: of a matrix whose determinant overflows too. Of a dry run 0.
  double log_abs_determinant() const { return equations_.log_abs_determinant(); }
  /// The sign of det A, 1 or -1, on every rank. Of a dry run not that of a matrix.
  int determinant_sign() const { return sign_; }

 private:
  static constexpr detail::AnyTensor no_sides(const A& a) {
    const detail::AnyTensor x(a);
    const detail::RankLine line{x.mesh, x.type};
    return line.tensor({x.shape[0], 0}, line.rows());
  }
  typename A::MeshOf mesh_;
  detail::Equations<typename A::Element> equations_;
  int sign_ = 1;
};
template <class A>
LuFactor(const A&) -> LuFactor<typename detail::FactorMatrix<A>::type>;
template <IllFormed Why>
class LuFactor<Why>;  // see Why

}  // namespace shardwise
