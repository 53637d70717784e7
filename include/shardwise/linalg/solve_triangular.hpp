// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `solve_triangular`: x of l · x = b, where l is triangular and whole on every rank. The leading dimensions, a batch
/// of matrices, may be cut; so may the columns of b, or its rows if l is on the right. On axes that cut these, l is
/// `Reduced`.
///
/// ```
/// x = solve_triangular(l, b);                                        // l · x = b
/// x = solve_triangular(l, b, {.upper = true, .transposed = true});   // lᵀ · x = b
/// q = solve_triangular<Side::right>(l, x, {.transposed = true});     // q · lᵀ = x
/// ```

#include <shardwise/kernel/factor.hpp>
#include <shardwise/linalg/batch.hpp>

namespace shardwise {

using kernel::Side;
using kernel::Triangular;

template <Side side>
struct SolveTriangularOp {
  Triangular how;

  static constexpr const char* name = "solve_triangular";
  static constexpr bool left = side == Side::left;
  static constexpr Signature signature =
      Signature::of(left ? "...ij, ...jr -> ...ir" : "...ij, ...ri -> ...rj").whole('i').whole('j');
  static constexpr Saved saved{.inputs = 0b01, .output = true};

  template <int Rank>
  static constexpr Shape<Rank> shape(const Shape<Rank>& l, const Shape<Rank>& b) {
    detail::check_square(name, l);
    const std::span<const Index> shapes[]{{l.data(), Rank}, {b.data(), Rank}};
    Shape<Rank> x{};
    detail::fit(detail::signature_of<SolveTriangularOp, Rank, Rank>, name, shapes, x.data());
    return x;
  }
  static constexpr std::int64_t flops(const auto& y, const auto& l, const auto&) {
    return y.elements() * l.columns();
  }
  static constexpr std::int64_t gradient_flops(unsigned wanted, const auto& y, const auto& l, const auto&) {
    return (wanted & 1u ? 3 : 1) * y.elements() * l.columns();
  }

  void forward(auto y, void*, auto l, auto b) const {
    std::copy_n(b.data, b.elements(), y.data);
    const Sizes s(l, y);
    for (Index i = 0; i < s.matrices; ++i) {
      kernel::solve_triangular<side>(s.n, s.other, how, l.data + i * s.l, s.n, y.data + i * s.b, s.ld());
    }
  }

  /// db solves with the transpose; dl is one triangle of a product of db and x.
  template <class T, int Rank>
  void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void*, Input<T, Rank> l,
                 Input<T, Rank> b) const {
    using enum kernel::Transpose;
    struct Right;
    const Sizes s(l, y);
    for (Index i = 0; i < s.matrices; ++i) {
      T* db = b.gradient ? b.gradient + i * s.b : kernel::scratch<Right, T>(s.b);
      std::copy_n(dy.data + i * s.b, s.b, db);
      kernel::solve_triangular<side>(s.n, s.other, {how.upper, !how.transposed}, l.data + i * s.l, s.n, db,
                                     s.ld());
      if (!l.gradient) continue;
      const T *x = y.data + i * s.b, *first = how.transposed == left ? x : db,
              *second = how.transposed == left ? db : x;
      T* dl = l.gradient + i * s.l;
      kernel::gemm(left ? no : yes, left ? yes : no, s.n, s.n, s.other, first, s.ld(), second, s.ld(), dl,
                   s.n, false);
      for (Index row = 0; row < s.n; ++row) {
        for (Index column = 0; column < s.n; ++column) {
          const bool counts = how.upper ? column >= row : column <= row;
          dl[row * s.n + column] = counts ? -dl[row * s.n + column] : T{0};
        }
      }
    }
  }

 private:
  /// Extents of a matrix l [n, n], the other extent of a matrix b, and the elements of each.
  struct Sizes {
    Index n, other, matrices, l, b;
    template <class L, class B, int Rank>
    Sizes(const View<L, Rank>& of_l, const View<B, Rank>& of_b)
        : n(of_l.columns()),
          other(of_b.size[left ? Rank - 1 : Rank - 2]),
          matrices(of_b.extent(0, Rank - 2)),
          l(n * n),
          b(n * other) {}
    Index ld() const { return left ? other : n; }
  };
};

/// l: [b…, n, n], of which it reads the lower triangle, or with `{.upper = true}` the upper one, and never the other;
/// b: [b…, n, r], or [b…, r, n] on the right; the result has the shape of b. Both are float or both double. A zero on
/// the diagonal gives infinities or NaN, as in a BLAS. Throws `std::invalid_argument` if l is not square, or an extent
/// differs.
template <Side side = Side::left, Operand L, Operand B,
          WellFormed Result = detail::factored<SolveTriangularOp<side>, L, B>>
constexpr auto solve_triangular(const L& l, const B& b, Triangular how = {}) {
  return apply(SolveTriangularOp<side>{how}, l, b);
}
template <Side side = Side::left, class L, class B,
          IllFormed Why = detail::factored<SolveTriangularOp<side>, L, B>>
Why solve_triangular(const L&, const B&, Triangular = {});  // see Why

}  // namespace shardwise
