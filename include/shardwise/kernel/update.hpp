// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of optimizer steps, on blocks: parameter, gradient and state lie alike. Sums and roots are
/// computed in the state's type (`float` for bfloat16). Also what norms of gradients need, in `double`: squares
/// of floats neither overflow nor vanish there.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <shardwise/kernel/fold.hpp>

namespace shardwise::kernel {

/// velocity = momentum * velocity + gradient; parameter -= rate * velocity. Without momentum, `velocity` is
/// null.
template <class T>
void sgd_update(Index n, T* parameter, const T* gradient, compute_t<T>* velocity, compute_t<T> rate,
                compute_t<T> momentum) {
  for (Index i = 0; i < n; ++i) {
    compute_t<T> step = widen(gradient[i]);
    if (velocity) step = velocity[i] = momentum * velocity[i] + step;
    parameter[i] = narrow<T>(widen(parameter[i]) - rate * step);
  }
}

/// What AdamW needs of its settings and of the step's number.
template <class C>
struct AdamFactors {
  C rate, beta1, beta2, epsilon;
  C decay;        ///< 1 - rate * weight decay
  C correction1;  ///< 1 - beta1^step
  C correction2;  ///< √(1 - beta2^step)
};

/// Decoupled weight decay (Loshchilov and Hutter, 2019), in PyTorch's order of operations.
template <class T>
void adamw_update(Index n, T* parameter, const T* gradient, compute_t<T>* mean, compute_t<T>* square,
                  const AdamFactors<compute_t<T>>& f) {
  using C = compute_t<T>;
  const C rate = f.rate / f.correction1;
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) {
    const C g = widen(gradient[i]);
    mean[i] = f.beta1 * mean[i] + (1 - f.beta1) * g;
    square[i] = f.beta2 * square[i] + (1 - f.beta2) * g * g;
    const C size = std::sqrt(square[i]) / f.correction2 + f.epsilon;
    parameter[i] = narrow<T>(widen(parameter[i]) * f.decay - rate * mean[i] / size);
  }
}

/// Σ x², of squares in `double`.
template <class T>
double sum_of_wide_squares(Index n, const T* x) {
  if constexpr (std::is_same_v<T, double>) {
    return sum_squares(n, x);
  } else {
    constexpr Index size = 512;
    double wide[size], total = 0;
    for (Index i = 0; i < n; i += size) {
      const Index count = std::min(size, n - i);
      for (Index j = 0; j < count; ++j) wide[j] = static_cast<double>(widen(x[i + j]));
      total += sum_squares(count, wide);
    }
    return total;
  }
}

/// The largest |x|, or 0; NaN if there is one. Without their signs, floating-point numbers are ordered as their
/// bits are, and NaN above all.
template <class T>
double largest_magnitude(Index n, const T* x) {
  using C = compute_t<T>;
  using Bits = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;
  Bits largest = 0;
  for (Index i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<Bits>(widen(x[i])) & std::numeric_limits<Bits>::max());
  }
  return static_cast<double>(std::bit_cast<C>(largest));
}

}  // namespace shardwise::kernel
