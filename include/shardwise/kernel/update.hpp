// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of optimizer steps on blocks: parameter, gradient and state have the same layout. It uses the
/// state's type (`float` for bfloat16).

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

/// The elements of a parameter to update and, unless null, its master weights: copies in the compute type.
template <class T>
struct Updated {
  T* parameter;
  compute_t<T>* master = nullptr;

  /// The master weight if it rounds to the parameter; otherwise the parameter has been overwritten, and its value
  /// counts.
  [[gnu::always_inline]] compute_t<T> value(Index i) const {
    const compute_t<T> stored = widen(parameter[i]);
    if constexpr (!std::is_same_v<T, compute_t<T>>) {
      if (master) return widen(narrow<T>(master[i])) == stored ? master[i] : stored;
    }
    return stored;
  }
  [[gnu::always_inline]] void set(Index i, compute_t<T> value) const {
    if constexpr (!std::is_same_v<T, compute_t<T>>) {
      if (master) master[i] = value;
    }
    parameter[i] = narrow<T>(value);
  }
};

/// The options of a step of `sgd_update`.
template <class C>
struct SgdFactors {
  C rate = 0, momentum = 0;
  C decay = 0;            ///< multiplied by the parameter and added to the gradient
  bool nesterov = false;  ///< look-ahead by the momentum
};

/// g = gradient + decay * parameter; velocity = momentum * velocity + g; parameter -= rate * velocity. Without
/// momentum, `velocity` is null.
template <class T>
void sgd_update(Index n, const Updated<T>& parameter, const T* gradient, compute_t<T>* velocity,
                const SgdFactors<compute_t<T>>& f) {
  using C = compute_t<T>;
  // Without SHARDWISE_INDEPENDENT: clang finds that in bfloat16 vectors do not pay, and would warn.
  for (Index i = 0; i < n; ++i) {
    const C value = parameter.value(i), g = widen(gradient[i]) + f.decay * value;
    C step = g;
    if (velocity) {
      velocity[i] = f.momentum * velocity[i] + g;
      step = f.nesterov ? g + f.momentum * velocity[i] : velocity[i];
    }
    parameter.set(i, value - f.rate * step);
  }
}
SHARDWISE_COMPILE_EACH(sgd_update)

/// The options of a step of `adamw_update`.
template <class C>
struct AdamFactors {
  C rate, beta1, beta2, epsilon;
  C decay;        ///< 1 - rate * weight decay
  C correction1;  ///< 1 - beta1^step
  C correction2;  ///< √(1 - beta2^step)
};

/// Decoupled weight decay (Loshchilov and Hutter, 2019), in PyTorch's order of operations.
template <class T>
void adamw_update(Index n, const Updated<T>& parameter, const T* gradient, compute_t<T>* mean,
                  compute_t<T>* square, const AdamFactors<compute_t<T>>& f) {
  using C = compute_t<T>;
  const C rate = f.rate / f.correction1;
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) {
    const C g = widen(gradient[i]);
    mean[i] = f.beta1 * mean[i] + (1 - f.beta1) * g;
    square[i] = f.beta2 * square[i] + (1 - f.beta2) * g * g;
    const C size = std::sqrt(square[i]) / f.correction2 + f.epsilon;
    parameter.set(i, parameter.value(i) * f.decay - rate * mean[i] / size);
  }
}
SHARDWISE_COMPILE_EACH(adamw_update)

/// parameter -= rate * sign(gradient)
template <class T>
void sign_update(Index n, T* parameter, const T* gradient, double rate) {
  using C = compute_t<T>;
  const C step = static_cast<C>(rate);
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) {
    const C g = widen(gradient[i]);
    parameter[i] = narrow<T>(widen(parameter[i]) - step * static_cast<C>((g > 0) - (g < 0)));
  }
}

}  // namespace shardwise::kernel
