// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A loss as a function of a tape, for code that needs it at several values of the parameters:
///
/// ```
/// auto loss = [&](Tape& tape) { return mse_loss(model(tape.constant(x)), tape.constant(target)); };
/// ```

#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise::detail {

template <class Loss, class Module>
struct FunctionProblem : Refused<Reason::loss_is_not_a_function_of_a_tape, Got<Loss>> {};
template <std::invocable<Tape&> Loss, class Module>
  requires(!Operand<Loss>)
struct FunctionProblem<Loss, Module> : TypeIs<pass_problem<std::invoke_result_t<Loss&, Tape&>, Module>> {};
/// Why the loss that `loss(tape)` returns cannot be differentiated, or `void`.
template <class Loss, class Module>
using loss_problem = typename FunctionProblem<Loss, Module>::type;

/// The loss, or 0 on a dry mesh. Leaves its finished gradients, and no others, in the parameters of `module`.
template <class Module, class Loss>
constexpr double loss_and_gradients(Module& module, Loss& loss) {
  clear_gradients(module);
  Tape tape;
  const auto y = loss(tape);
  backward_and_reduce(y, module);
  return y.mesh().dry() ? 0 : static_cast<double>(*y.value().data());
}

}  // namespace shardwise::detail
