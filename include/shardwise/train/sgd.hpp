// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stochastic gradient descent, optionally with momentum (Sutskever et al., "On the importance of initialization
/// and momentum in deep learning", 2013), in PyTorch's form without `dampening`.
///
/// ```
/// SGD sgd({.rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
/// tape.backward(loss);
/// sgd.step(model);
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/update.hpp>
#include <shardwise/train/optimizer.hpp>

namespace shardwise {

/// g = gradient + weight_decay · parameter; velocity = momentum · velocity + g; parameter -= rate · velocity, or
/// with Nesterov's momentum, rate · (g + momentum · velocity).
struct SgdUpdate {
  double rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool master_weights = true;            ///< keep a float copy of bfloat16 parameters, and update that
  bool may_be_unused = false;            ///< the first step accepts parameters without a gradient
  StateType state = StateType::compute;  ///< of the velocity; bf16: half the bytes, stochastically rounded

  /// Returns the settings. Throws `std::invalid_argument` unless the numbers are at least 0, and the momentum above
  /// 0 if `nesterov`.
  constexpr const SgdUpdate& checked() const {
    detail::check_setting("SGD", "rate", rate);
    detail::check_setting("SGD", "momentum", momentum);
    detail::check_setting("SGD", "weight_decay", weight_decay);
    if (nesterov && momentum == 0) throw std::invalid_argument("SGD: nesterov needs a momentum above 0");
    return *this;
  }
  /// Calls f(name, value) for each setting, so that ranks can be compared.
  constexpr void each_setting(auto&& f) const {
    f("rate", rate), f("momentum", momentum), f("weight_decay", weight_decay);
    f("nesterov", nesterov), f("master_weights", master_weights);
    f("may_be_unused", may_be_unused), f("state", static_cast<double>(state));
  }
  constexpr int flops() const {
    return 2 + (momentum != 0 ? 2 : 0) + (weight_decay != 0 ? 2 : 0) + (nesterov ? 2 : 0);
  }
  constexpr int state_blocks() const { return momentum != 0 ? 1 : 0; }

  template <class T>
  void apply(Index count, const kernel::Updated<T>& parameter, const T* gradient,
             const StateElements<kernel::compute_t<T>>& elements) const {
    using C = kernel::compute_t<T>;
    C* velocity = state_blocks() > 0 ? elements.first : nullptr;
    const kernel::SgdFactors<C> factors{.rate = static_cast<C>(rate),
                                        .momentum = static_cast<C>(momentum),
                                        .decay = static_cast<C>(weight_decay),
                                        .nesterov = nesterov};
    kernel::sgd_update(count, parameter, gradient, velocity, factors);
  }
};

/// The constructor checks its settings: see `SgdUpdate::checked`.
using SGD = Optimizer<SgdUpdate>;
SHARDWISE_COMPILE_OPTIMIZER(SgdUpdate)

}  // namespace shardwise
