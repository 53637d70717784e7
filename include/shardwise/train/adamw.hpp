// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), with PyTorch's defaults.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/update.hpp>
#include <shardwise/train/optimizer.hpp>

namespace shardwise {

/// parameter *= 1 - rate · weight_decay; then parameter -= rate · mean / (√square + epsilon), where mean and square
/// are moving averages of the gradient and of its square, corrected for their initial value of 0.
struct AdamWUpdate {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool master_weights = true;            ///< keep a float copy of bfloat16 parameters, and update that
  bool may_be_unused = false;            ///< the first step accepts parameters without a gradient
  StateType state = StateType::compute;  ///< of both moments; bf16: half the bytes, stochastically rounded

  /// Returns the settings. Throws `std::invalid_argument` unless rate, epsilon and weight_decay are at least 0, and
  /// the betas in [0, 1).
  constexpr const AdamWUpdate& checked() const {
    detail::check_setting("AdamW", "rate", rate);
    detail::check_setting("AdamW", "beta1", beta1, 1);
    detail::check_setting("AdamW", "beta2", beta2, 1);
    detail::check_setting("AdamW", "epsilon", epsilon);
    detail::check_setting("AdamW", "weight_decay", weight_decay);
    return *this;
  }
  /// Calls f(name, value) for each setting, so that ranks can be compared.
  constexpr void each_setting(auto&& f) const {
    f("rate", rate), f("beta1", beta1), f("beta2", beta2), f("epsilon", epsilon);
    f("weight_decay", weight_decay), f("master_weights", master_weights);
    f("may_be_unused", may_be_unused), f("state", static_cast<double>(state));
  }
  constexpr int flops() const { return 14; }
  constexpr int state_blocks() const { return 2; }

  template <class T>
  void apply(Index count, const kernel::Updated<T>& parameter, const T* gradient,
             const StateElements<kernel::compute_t<T>>& elements) const {
    using C = kernel::compute_t<T>;
    const auto n = static_cast<double>(elements.steps);
    kernel::AdamFactors<C> factors{
        .rate = static_cast<C>(rate),
        .beta1 = static_cast<C>(beta1),
        .beta2 = static_cast<C>(beta2),
        .epsilon = static_cast<C>(epsilon),
        .decay = static_cast<C>(1 - rate * weight_decay),
        .correction1 = static_cast<C>(1 - std::pow(beta1, n)),
        .correction2 = static_cast<C>(std::sqrt(1 - std::pow(beta2, n))),
    };
    kernel::adamw_update(count, parameter, gradient, elements.first, elements.second, factors);
  }
};

/// The constructor checks its settings: see `AdamWUpdate::checked`.
using AdamW = Optimizer<AdamWUpdate>;
SHARDWISE_COMPILE_OPTIMIZER(AdamWUpdate)

}  // namespace shardwise
