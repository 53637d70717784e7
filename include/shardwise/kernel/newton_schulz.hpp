// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The nearest orthogonal matrix, roughly, by Newton-Schulz iterations of degree five, as Muon uses them: products
/// alone, no factorization. Singular values come near 1.
///
/// A step multiplies x, [m, n] with m <= n, by a polynomial of its Gram matrix x · xᵀ, [m, m]. So several steps can be
/// made on a Gram matrix alone, before x is multiplied by the product of their polynomials, which is less work if
/// n > 1.5 m (Zhang, Amsel, Chen and Dao, "Gram Newton-Schulz", 2026). Rounding errors grow in these steps, so the Gram
/// matrix is computed from x again after the second one, and then after each third one.

#include <array>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/gemm.hpp>

namespace shardwise::kernel {

/// Each step computes X := a X + (b A + c A²) X with A = X Xᵀ.
struct NewtonSchulz {
  static constexpr int most_steps = 8;
  struct Step {
    double a, b, c;
  };
  int count = 0;
  std::array<Step, most_steps> steps{};
};

/// Keller Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; torch.optim.Muon's default.
/// Singular values end between 0.7 and 1.2.
inline constexpr NewtonSchulz muon_steps = [] {
  NewtonSchulz all{.count = 5};
  all.steps.fill({3.4445, -4.7750, 2.0315});
  return all;
}();

/// Each step with coefficients of its own (You Jiacheng, 2024). Singular values end nearer to 1.
inline constexpr NewtonSchulz tuned_muon_steps{5,
                                               {{{4.0848, -6.8946, 2.9270},
                                                 {3.9505, -6.3029, 2.6377},
                                                 {3.7418, -5.5913, 2.3037},
                                                 {2.8769, -3.1427, 1.2046},
                                                 {2.8366, -3.0525, 1.2012}}}};

/// The end of the steps, from `first` on, that are made on one Gram matrix: one step, or `by_gram` several.
constexpr int end_of_steps(int first, int count, bool by_gram) {
  return std::min(count, first + (!by_gram ? 1 : first == 0 ? 2 : 3));
}

/// The floating-point operations of steps on one Gram matrix, and of `orthogonalize`.
constexpr Index gram_steps_flops(Index m, int count) { return (8 * count - 6) * m * m * m; }
constexpr Index orthogonalize_flops(Index m, Index n, int count, bool by_gram = false) {
  const Index least = std::min(m, n), most = std::max(m, n);
  Index flops = 0;
  for (int first = 0, end = 0; first < count; first = end) {
    end = end_of_steps(first, count, by_gram);
    flops += 4 * least * least * most + gram_steps_flops(least, end - first);
  }
  return flops;
}

/// g := x · xᵀ of a wide x, [m, n], or xᵀ · x of a tall x, [n, m].
template <class T>
void gram(bool wide, Index m, Index n, const T* x, compute_t<T>* g) {
  const Transpose no = Transpose::no, yes = Transpose::yes;
  gemm(wide ? no : yes, wide ? yes : no, m, m, n, x, wide ? n : m, x, wide ? n : m, g, m, false);
}

namespace detail {

struct NewtonSchulzRoom;
struct GramStepsRoom;
struct GramFactorRoom;

/// y := q · x, or x · q if x is tall.
template <class C>
void multiply(bool wide, Index m, Index n, const C* q, const C* x, C* y) {
  const Transpose no = Transpose::no;
  wide ? gemm(no, no, m, n, m, q, m, x, n, y, n, false) : gemm(no, no, n, m, m, x, m, q, m, y, m, false);
}

/// The steps from `first` to before `end`, on the Gram matrix g before them: they make x to a · x + q · x. Writes q,
/// returns a, and overwrites g.
template <class C>
C gram_steps(Index m, C* g, C* q, const NewtonSchulz& how, int first, int end) {
  C *const z = scratch<GramStepsRoom, C>(2 * m * m), *const product = z + m * m;
  C all = 1;
  for (int step = first; step < end; ++step) {
    const auto& of_step = how.steps[static_cast<std::size_t>(step)];
    const C a = static_cast<C>(of_step.a), b = static_cast<C>(of_step.b), c = static_cast<C>(of_step.c);
    multiply(true, m, m, g, g, z);
    for (Index i = 0; i < m * m; ++i) z[i] = b * g[i] + c * z[i];
    if (step > first) multiply(true, m, m, z, q, product);
    for (Index i = 0; i < m * m; ++i) q[i] = step > first ? a * q[i] + all * z[i] + product[i] : z[i];
    all *= a;
    if (step + 1 == end) break;
    for (Index i = 0; i < m; ++i) z[i * m + i] += a;
    multiply(true, m, m, g, z, product);
    multiply(true, m, m, z, product, g);
  }
  return all;
}

}  // namespace detail

/// x, [m, n] without gaps: divided by its 2-norm over all elements, or by epsilon if that is larger, then `how.count`
/// steps, then multiplied by `scale`. The Gram matrix is that of the shorter side. `by_gram`: several steps on one.
template <class T>
void orthogonalize(Index m, Index n, T* x, const NewtonSchulz& how, double epsilon, double scale,
                   bool by_gram = false) {
  using C = compute_t<T>;
  const bool wide = m <= n;
  const Index least = wide ? m : n, elements = m * n;
  if (elements == 0) return;
  C* const X = scratch<detail::NewtonSchulzRoom, C>(2 * elements + 2 * least * least);
  C *const Y = X + elements, *const A = Y + elements, *const B = A + least * least;
  double squares = 0;
  for (Index i = 0; i < elements; ++i) {
    const double value = widen(x[i]);
    squares += value * value;
  }
  const C factor = static_cast<C>(1 / std::max(std::sqrt(squares), epsilon));
  for (Index i = 0; i < elements; ++i) X[i] = widen(x[i]) * factor;
  for (int first = 0, end = 0; first < how.count; first = end) {
    end = end_of_steps(first, how.count, by_gram);
    gram(wide, least, elements / least, X, A);
    const C a = detail::gram_steps(least, A, B, how, first, end);
    detail::multiply(wide, least, elements / least, B, X, Y);
    for (Index i = 0; i < elements; ++i) X[i] = a * X[i] + Y[i];
  }
  for (Index i = 0; i < elements; ++i) x[i] = narrow<T>(static_cast<C>(scale) * X[i]);
}
SHARDWISE_COMPILE(orthogonalize<float>)
SHARDWISE_COMPILE(orthogonalize<double>)
SHARDWISE_COMPILE(orthogonalize<Eigen::bfloat16>)

/// The same for an x in blocks takes three parts, for each `first` and `end` in turn: `gram` of each block; this
/// function, which writes q over their sum g; and `multiply_by_factor` on each block. The norm is that of g's diagonal.
template <class C>
void gram_factor(Index m, C* g, const NewtonSchulz& how, int first, int end, double epsilon, double scale) {
  C* const q = scratch<detail::GramFactorRoom, C>(m * m);
  double squares = 0;
  for (Index i = 0; i < m; ++i) squares += static_cast<double>(g[i * m + i]);
  const double norm = first > 0 ? 1 : std::max(std::sqrt(squares), epsilon);
  const C inverse = static_cast<C>(1 / norm);
  for (Index i = 0; i < m * m; ++i) g[i] = g[i] * inverse * inverse;
  const C a = detail::gram_steps(m, g, q, how, first, end);
  const C factor = static_cast<C>((end == how.count ? scale : 1) / norm);
  for (Index i = 0; i < m * m; ++i) g[i] = factor * (i % (m + 1) == 0 ? a + q[i] : q[i]);
}
SHARDWISE_COMPILE(gram_factor<float>)
SHARDWISE_COMPILE(gram_factor<double>)

/// x := q · x of a wide x, [m, n], or x · q of a tall x, [n, m].
template <class T>
void multiply_by_factor(bool wide, Index m, Index n, const compute_t<T>* q, T* x) {
  using C = compute_t<T>;
  C *const X = scratch<detail::NewtonSchulzRoom, C>(2 * m * n), *const Y = X + m * n;
  for (Index i = 0; i < m * n; ++i) X[i] = widen(x[i]);
  detail::multiply(wide, m, n, q, X, Y);
  for (Index i = 0; i < m * n; ++i) x[i] = narrow<T>(Y[i]);
}

}  // namespace shardwise::kernel
