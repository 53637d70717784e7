// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Forgets the gradients of a module, as torch's `zero_grad` does: to leave out a step.

#include <shardwise/module/parameters.hpp>

namespace shardwise {

/// Drops all gradients of `module`, wherever they are on their way to the optimizer. A step does it by itself.
template <class Module>
constexpr void clear_gradients(Module& module) {
  for (detail::ParameterCell* cell : detail::parameters_of(module)) {
    cell->pending->clear();
    cell->resting.clear();
    cell->finished.clear();
  }
}

}  // namespace shardwise
