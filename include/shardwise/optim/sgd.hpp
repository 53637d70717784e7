// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stochastic gradient descent, with momentum if wanted.
///
/// ```
/// SGD sgd({.rate = 0.1});
/// tape.backward(loss);
/// sgd.step(model);
/// ```

#include <shardwise/kernel/update.hpp>
#include <shardwise/optim/optimizer.hpp>

namespace shardwise {

/// velocity = momentum · velocity + gradient; parameter -= rate · velocity.
struct SgdUpdate {
  double rate = 0.01;
  double momentum = 0;

  static constexpr int flops = 4;
  constexpr int state_blocks() const { return momentum != 0 ? 1 : 0; }

  template <class T>
  void apply(std::int64_t, Index count, T* parameter, const T* gradient, const ParameterState& state) const {
    using C = kernel::compute_t<T>;
    C* velocity = state_blocks() > 0 ? static_cast<C*>(state.first.data()) : nullptr;
    kernel::sgd_update(count, parameter, gradient, velocity, static_cast<C>(rate), static_cast<C>(momentum));
  }
};

class SGD : public Optimizer<SgdUpdate> {
 public:
  constexpr explicit SGD(SgdUpdate settings, ReduceOptions reduction = {}) : Optimizer(settings, reduction) {}
};

}  // namespace shardwise
