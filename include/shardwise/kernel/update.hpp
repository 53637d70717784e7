// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of optimizer steps, on blocks: parameter, gradient and state lie alike. Sums and roots are
/// computed in the state's type (`float` for bfloat16).

#include <cmath>

#include <shardwise/kernel/element.hpp>

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

}  // namespace shardwise::kernel
