// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `apply` runs an operation: it checks the shapes, runs the kernel on the local blocks, counts, and leaves
/// the pullback on the tape if there is one. An operation is one small struct:
///
/// ```
/// struct MyOp {
///   static constexpr Saved saved{…};                                  // what the pullback reads
///   template <int... Ranks> static constexpr Signature signature();   // which dimensions are the same index
///   static constexpr auto shape(const Shape<R>&... x);                // the result's extents; checks them
///   static void forward(View<T, R> y, void* residual, View<const T, R>... x);
///   static void pull_back(View<const T, R> dy, View<const T, R> y, const void* residual, Input<T, R>... x);
/// };
/// ```
/// and optionally `flops(y, x...)`, `gradient_flops(wanted, y, x...)` (`wanted`: a set of operands, as below), or how many
/// there are for each element of y, as numbers `flops_each`, `gradient_flops_each`; `residual_bytes(y, x...)`;
/// `accumulates`, if `pull_back` can add to a gradient that is there; `passes`, the set of operands whose
/// gradient is the result's gradient itself (bit i is operand i): it is handed on, not copied;
/// `leaves_gradient`, if `leave(…)` may keep a parameter's gradient in another form (see `EmbeddingOp`);
/// `reads_crosswise`, if the gradient of operand 0 needs operand 1, that of 1 needs 0, and no other needs them;
/// `parameters_first`, if `pull_back` may be called for some of the gradients, and again for the others, so that those of
/// parameters, which travel, come first; and
/// `recomputed`, if operations that need the result in their pullback had better compute it again than keep it.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/ops/op_node.hpp>
#include <shardwise/ops/result.hpp>

namespace shardwise {

namespace detail {

/// The result of `op`. `residual`: what its pullback will read besides.
template <TensorType Y, class Op, TensorType... X>
constexpr Y evaluate(const Op& op, [[maybe_unused]] Buffer& residual, const X&... x) {
  const auto& mesh = common_mesh(x...);
  Y y(mesh, op.shape(x.shape()...));
  if constexpr (requires { op.residual_bytes(y.view(), x.view()...); }) {
    const Index bytes = op.residual_bytes(y.view(), x.view()...);
    if (bytes > 0) residual = allocate_buffer(mesh, bytes);
  }
  if (auto* recorder = mesh.recorder()) recorder->compute(flops(op, y.view(), x.view()...));
  if constexpr (!Y::MeshOf::dry) {
    op.forward(y.writable(), residual ? residual->data : nullptr, x.view()...);
  }
  return y;
}

/// The recipe of an operation's result.
template <TensorType Y, class Op, TensorType... X>
constexpr RecipeFor<Y> recipe_of(const Op& op, const Kept<X>&... x) {
  return recipe_from<Y>([op, x...] {
    Buffer residual;
    return evaluate<Y>(op, residual, x.value()...);
  });
}

/// What `apply` leaves on a tape.
template <class Op, TensorType Y, class Numbers, class... Sources>
struct Recorded;
template <class Op, TensorType Y, int... I, class... Sources>
struct Recorded<Op, Y, std::integer_sequence<int, I...>, Sources...> {
  using Numbers = std::integer_sequence<int, I...>;
  static constexpr unsigned saved =
      saved_inputs<Op>(((unsigned{OperandTraits<Sources>::tracked} << I) | ...));
  using Node =
      OpNode<Op, Y, Numbers,
             NodeInput<tensor_of<Sources>, (saved >> I & 1u) != 0, OperandTraits<Sources>::tracked>...>;
};

}  // namespace detail

/// Of abstract operands: what would come of it.
template <class Op, Operand... X, AbstractOperand Y = result_of<Op, X...>>
constexpr Y apply(const Op&, const X&...) {
  return {};
}

/// Runs `op`. The result is a tensor; or a `Var` if an operand is on a tape.
template <class Op, Operand... X, TensorType Y = result_of<Op, X...>>
constexpr auto apply(const Op& op, const X&... x) {
  Buffer residual;
  Y y = detail::evaluate<Y>(op, residual, value_of(x)...);
  return on_common_tape(
      std::move(y),
      [&](Tape& tape, const Y& result, const auto& slot) {
        using Recorded = detail::Recorded<Op, Y, std::make_integer_sequence<int, sizeof...(X)>, X...>;
        tape.record<typename Recorded::Node>(op, result, std::move(residual), slot, x...);
        if constexpr (requires { requires Op::recomputed; }) {
          return detail::recipe_of<Y>(op, kept(x)...);
        } else {
          return RecipeFor<Y>();
        }
      },
      x...);
}

}  // namespace shardwise
