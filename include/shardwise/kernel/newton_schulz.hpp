// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The nearest orthogonal matrix, roughly, by Newton-Schulz iterations of degree five, as Muon uses them: products
/// alone, no factorization. Singular values come near 1.

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

/// The floating-point operations of `orthogonalize`.
constexpr Index orthogonalize_flops(Index m, Index n, int steps) {
  const Index least = m < n ? m : n, most = m < n ? n : m;
  return 2 * steps * least * least * (2 * most + least);
}

namespace detail {

struct NewtonSchulzRoom;

}  // namespace detail

/// x, [m, n] without gaps: divided by its 2-norm over all elements, or by epsilon if that is larger, then `how.count`
/// steps, then multiplied by `scale`. The Gram matrix is that of the shorter side.
template <class T>
void orthogonalize(Index m, Index n, T* x, const NewtonSchulz& how, double epsilon, double scale) {
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
  for (int step = 0; step < how.count; ++step) {
    const auto [a, b, c] = how.steps[static_cast<std::size_t>(step)];
    const Transpose no = Transpose::no, yes = Transpose::yes;
    gemm(wide ? no : yes, wide ? yes : no, least, least, wide ? n : m, X, n, X, n, A, least, false);
    gemm(no, no, least, least, least, A, least, A, least, B, least, false);
    for (Index i = 0; i < least * least; ++i) B[i] = static_cast<C>(b) * A[i] + static_cast<C>(c) * B[i];
    wide ? gemm(no, no, m, n, m, B, m, X, n, Y, n, false) : gemm(no, no, m, n, n, X, n, B, n, Y, n, false);
    for (Index i = 0; i < elements; ++i) X[i] = static_cast<C>(a) * X[i] + Y[i];
  }
  for (Index i = 0; i < elements; ++i) x[i] = narrow<T>(static_cast<C>(scale) * X[i]);
}
SHARDWISE_COMPILE(orthogonalize<float>)
SHARDWISE_COMPILE(orthogonalize<double>)
SHARDWISE_COMPILE(orthogonalize<Eigen::bfloat16>)

}  // namespace shardwise::kernel
