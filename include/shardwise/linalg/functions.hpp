// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Functions of distributed matrices, in any layout that is not pending. They have no gradient.
/// ```
/// auto [u, h] = polar(a);        // a = u · h
/// auto y = sqrtm(a);             // y · y = a
/// auto z = inverse_root<4>(a);   // z⁴ = a⁻¹
/// ```
/// Newton's iteration x ← (ζ x + x⁻¹ / ζ) / 2 takes singular values, or roots of eigenvalues, to 1. Byers and Xu ("A
/// new scaling for Newton's iteration for the polar decomposition", 2008) give a ζ for each step that depends on
/// bounds, not on a: 9 steps in double and 6 in float suffice up to a condition number of 1 / (√n ε). They
/// invert by `solve`.

#include <shardwise/kernel/sums.hpp>
#include <shardwise/linalg/bounds.hpp>
#include <shardwise/linalg/cholesky_rows.hpp>
#include <shardwise/linalg/qr.hpp>
#include <shardwise/linalg/solve.hpp>
#include <shardwise/ops/operators.hpp>

namespace shardwise {

namespace detail {

struct MatrixFunction {
  static constexpr Signature signature = Signature::of("mn -> mn");
};

/// x · y, or xᵀ · y, in the layout of `A`.
template <TensorType A, TensorType X, TensorType Y>
constexpr A product_as(const X& x, const Y& y, bool transposed = false) {
  return product_of<typename A::Element>({AnyTensor(x), transposed}, {AnyTensor(y)}, A::layout, {})
      .template as<A>(x.mesh());
}
template <TensorType A>
constexpr A identity_like(const A& a) {
  A one(a.mesh(), a.shape());
  const auto block = one.writable();
  for (Index i = 0; i < block.elements() && !a.mesh().dry(); ++i) {
    block.data[i] = block.begin[0] + i / block.size[1] == block.begin[1] + i % block.size[1] ? 1 : 0;
  }
  return one;
}
template <TensorType A>
constexpr A symmetric_part(const A& x) {
  const A half = x / 2;  // the sum of both may overflow
  return half + redistribute_to<A>(transpose(half));
}
/// An even power of 2 near the largest element, so that squares of x / unit neither overflow nor vanish; 1 on a dry
/// mesh. `most` limits half of its exponent: so quotients are numbers, too. Throws on all ranks if a row is not finite.
template <TensorType A>
constexpr double unit_of(const char* name, const A& a,
                         int most = sizeof(typename A::Element) == 8 ? 450 : 50) {
  constexpr AxisSet cut = A::layout.axes_where([](Placement p) { return p.is_shard(); });
  double largest = a.mesh().dry() ? 1 : kernel::largest_magnitude(a.view().elements(), a.data());
  MeshView(a.mesh()).all_reduce(&largest, 1, DataType::f64, ReduceOp::max, cut);
  if (a.mesh().dry()) return 1;
  const AnyTensor x(a);
  if (!is_finite(largest)) RankLine{x.mesh, x.type}.check_finite<typename A::Element>(name, x);
  int exponent = 0;
  std::frexp(largest, &exponent);
  return std::ldexp(1., 2 * std::clamp(exponent / 2, -most, most));
}
/// The Frobenius norm of a / unit, from squares in double; 1 on a dry mesh.
template <TensorType A>
constexpr double frobenius_norm(const A& a, double unit = 1) {
  constexpr AxisSet cut = A::layout.axes_where([](Placement p) { return p.is_shard(); });
  const auto square = [inverse = 1 / unit](auto& term, const auto& x, const auto&) {
    term = (x * inverse) * (x * inverse);
  };
  double squares =
      a.mesh().dry() ? 1 : kernel::detail::sum_of<double>(a.view().elements(), a.data(), a.data(), square);
  MeshView(a.mesh()).all_reduce(&squares, 1, DataType::f64, ReduceOp::sum, cut);
  return a.mesh().dry() ? 1 : root(2, squares);
}

/// The iteration converges to 1 from numbers in [1 / widest, widest].
template <class T>
inline constexpr double widest = root(2, 1 / static_cast<double>(std::numeric_limits<T>::epsilon()));
/// Calls step(ζ / 2, 1 / (2 ζ)) for each step from numbers in [1 / range, range].
constexpr void newton_steps(double range, double most, auto step) {
  for (double zeta = 1; range > 1 + 1 / (most * most); zeta = 1 / range) {
    step(zeta / 2, 1 / (2 * zeta));
    range = root(2, (range + 1 / range) / 2);
  }
}
/// a⁻¹, in the layout of `one`. Throws on all ranks if a has no inverse, or if `norm`, that of a, times that of a⁻¹ is
/// above 1 / (√n ε): an inverse is then made of rounding errors, which differ with the number of ranks.
template <TensorType A, TensorType X, class T = typename A::Element>
constexpr A inverse_of(const char* name, const X& a, const A& one, double norm) {
  Equations<T> equations{AnyTensor(a), AnyTensor(one)};
  const Index n = a.shape()[0];
  const double most =
      n == 0 ? 1
             : 1 / (root(2, static_cast<double>(n)) * static_cast<double>(std::numeric_limits<T>::epsilon()));
  bool singular = equations.failed() >= 0;
  if (!singular) {
    const A inverse = redistributed_to(std::move(equations).solution(), A::layout, data_type_of<T>())
                          .template as<A>(a.mesh());
    if (norm == 0 || norm * frobenius_norm(inverse) <= most) return inverse;
  }
  fail<std::runtime_error>({name,
                            ": the matrix is singular up to rounding errors: its condition number is above ",
                            static_cast<Index>(most)});
}
/// a^½ and a^-½: y ← (ζ y + z⁻¹ / ζ) / 2, z ← (ζ z + y⁻¹ / ζ) / 2 (Denman and Beavers, 1976).
template <TensorType A, class T = typename A::Element>
constexpr std::pair<A, A> square_roots(const char* name, const A& a) {
  const double unit = unit_of(name, a), norm = frobenius_norm(a, unit) / widest<T>;
  CholeskyRows<T>{AnyTensor(a / unit), name};  // throws unless a is positive definite
  const A one = identity_like(a);
  A y = a / unit / norm, z = one;
  double of_y = widest<T>;
  newton_steps(root(2, widest<T>), widest<T>, [&](double p, double q) {
    const A inverse = inverse_of(name, y, one, std::exchange(of_y, 0));
    y = p * y + q * solve(z, one);
    z = p * z + q * inverse;
  });
  const double back = root(2, norm), whole = root(2, unit);
  return {symmetric_part(y * back) * whole, symmetric_part(z / back) / whole};
}

}  // namespace detail

/// The factors of a = u · h: see `polar`.
template <class A>
struct Polar {
  A u, h;
};

/// a: [m, n] with m ≥ n, float or double, of full rank. `u` is the closest matrix [m, n] with orthonormal columns; `h`
/// is [n, n], symmetric positive semidefinite. Both have the layout of a. A tall a is first made square by `qr`. Throws
/// `std::invalid_argument` if m < n; on all ranks the same `std::runtime_error` if a is not finite, or if its condition
/// number ‖a‖ ‖a⁻¹‖, of Frobenius norms, is above 1 / (√n ε): u would be made of rounding errors. Collective over the
/// mesh.
template <TensorType A, WellFormed Result = detail::factored_off_tape<detail::MatrixFunction, A>>
constexpr Polar<A> polar(const A& a) {
  if (a.shape()[0] < a.shape()[1])
    detail::fail({"polar: a matrix of ", a.shape(), " has more columns than rows"});
  const double unit = detail::unit_of("polar", a);
  if (a.shape()[0] != a.shape()[1]) {
    const auto f =
        qr(redistribute_to<with_layout<A, packed(everywhere(A::MeshOf::axes, shard(0)))>>(a / unit));
    const auto of_r = polar(f.r);
    return {detail::product_as<A>(f.q, of_r.u), redistribute_to<A>(of_r.h * unit)};
  }
  const A one = detail::identity_like(a);
  constexpr double range = detail::widest<typename A::Element>;
  A u = a * (range / detail::frobenius_norm(a, unit) / unit);
  double of_u = range;
  detail::newton_steps(range, range, [&](double p, double q) {
    u = p * u + q * detail::inverse_of("polar", transpose(u), one, std::exchange(of_u, 0));
  });
  return {u, detail::symmetric_part(detail::product_as<A>(u, a, true))};
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::MatrixFunction, A>>
Why polar(const A&);  // see Why

/// The symmetric positive definite root of a: [n, n], symmetric positive definite, float or double; it has the layout
/// of a. ‖y · y - a‖ is about √κ ε ‖a‖ for a condition number κ. Throws as `CholeskyFactor(a)`, and
/// as `polar` for the condition number. Collective.
template <TensorType A, WellFormed Result = detail::factored_off_tape<detail::MatrixFunction, A>>
constexpr A sqrtm(const A& a) {
  return detail::square_roots("sqrtm", a).first;
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::MatrixFunction, A>>
Why sqrtm(const A&);  // see Why

/// The symmetric positive definite z with z^p = a⁻¹, for p = 2, 4, 8, …: of the same matrices. ‖z^p · a - 1‖ is about
/// κ ε. Throws as `sqrtm`.
template <int p, TensorType A, WellFormed Result = detail::factored_off_tape<detail::MatrixFunction, A>>
  requires(p > 1 && (p & (p - 1)) == 0)
constexpr A inverse_root(const A& a) {
  const auto roots = detail::square_roots("inverse_root", a);
  if constexpr (p > 2) return inverse_root<p / 2>(roots.first);
  return roots.second;
}
template <int p, class A, IllFormed Why = detail::factored_off_tape<detail::MatrixFunction, A>>
Why inverse_root(const A&);  // see Why

}  // namespace shardwise
