// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `apply` runs an operation (ops/operation.hpp): it checks the shapes, runs the kernel on the local blocks, counts,
/// and leaves the pullback on the tape if there is one.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/ops/op_node.hpp>
#include <shardwise/ops/result.hpp>

namespace shardwise {

namespace detail {

/// Runs `op` on blocks. `residual`: memory that its pullback will read too.
template <class Op, class T, int Rank, class... X>
constexpr void run_here(const Op& op, const MeshView& mesh, [[maybe_unused]] Buffer& residual,
                        const View<T, Rank>& y, const X&... x) {
  const View<const T, Rank> result = y;
  if constexpr (requires { op.residual_bytes(result, x...); }) {
    const Index bytes = op.residual_bytes(result, x...);
    if (bytes > 0) residual = allocate_buffer(mesh, bytes);
  }
  const std::int64_t work = flops(op, result, x...);
  Index moved = work > 0 ? (result.bytes() + ... + x.bytes()) : 2 * result.bytes();  // else it copies
  if constexpr (requires { op.moved_bytes(result, x...); }) moved = op.moved_bytes(result, x...);
  count_work(mesh, work, moved, name_of_operation<Op>());
  if (!mesh.dry()) op.forward(y, residual ? residual->data : nullptr, x...);
}

/// Records the node of an operation on a tape. The node takes the gradient of `y` from the slot.
template <class Op, class T, int Rank, class... X>
constexpr void record_here(Tape& tape, const Op& op, const MeshHandle& mesh, const View<T, Rank>& y,
                           const Buffer& output, Buffer&& residual, const Shared<GradientSlot>& slot,
                           unsigned passing, X&&... x) {
  using Node = OpNode<Op, View<T, Rank>, std::make_integer_sequence<int, sizeof...(X)>, X...>;
  tape.record<Node>(op, mesh, y, output, std::move(residual), slot, passing, std::move(x)...);
}

/// The part of `apply` that works on blocks, at run time. It depends neither on layouts nor on the mesh, so all of them
/// share it; and so do all programs, for the operations and ranks of `SHARDWISE_COMPILE_OPERATION`. `Blocks` is the
/// type of a function from the views of the operands to that of the result.
template <class Op, class Blocks>
struct OnBlocks;
template <class Op, class T, int Rank, class... E, int... Ranks>
struct OnBlocks<Op, View<T, Rank>(View<E, Ranks>...)> {
  static void run(const Op& op, const MeshView& mesh, Buffer& residual, const View<T, Rank>& y,
                  const View<E, Ranks>&... x);
  static void record(Tape& tape, const Op& op, const MeshHandle& mesh, const View<const T, Rank>& y,
                     const Buffer& output, Buffer&& residual, const Shared<GradientSlot>& slot,
                     unsigned passing, NodeInput<std::remove_const_t<E>, Ranks>&&... x);
};
template <class Op, class T, int Rank, class... E, int... Ranks>
[[gnu::noinline]] void OnBlocks<Op, View<T, Rank>(View<E, Ranks>...)>::run(const Op& op, const MeshView& mesh,
                                                                           Buffer& residual,
                                                                           const View<T, Rank>& y,
                                                                           const View<E, Ranks>&... x) {
  run_here(op, mesh, residual, y, x...);
}
template <class Op, class T, int Rank, class... E, int... Ranks>
[[gnu::noinline]] void OnBlocks<Op, View<T, Rank>(View<E, Ranks>...)>::record(
    Tape& tape, const Op& op, const MeshHandle& mesh, const View<const T, Rank>& y, const Buffer& output,
    Buffer&& residual, const Shared<GradientSlot>& slot, unsigned passing,
    NodeInput<std::remove_const_t<E>, Ranks>&&... x) {
  record_here(tape, op, mesh, y, output, std::move(residual), slot, passing, std::move(x)...);
}

template <class Op, class T, int Rank, class... E, int... Ranks>
constexpr void run(const Op& op, const MeshView& mesh, Buffer& residual, const View<T, Rank>& y,
                   const View<E, Ranks>&... x) {
  if (__builtin_is_constant_evaluated()) {
    run_here(op, mesh, residual, y, x...);
  } else {
    OnBlocks<Op, View<T, Rank>(View<E, Ranks>...)>::run(op, mesh, residual, y, x...);
  }
}
template <class Op, class T, int Rank, class... E, int... Ranks>
constexpr void record(Tape& tape, const Op& op, const MeshHandle& mesh, const View<const T, Rank>& y,
                      const Buffer& output, Buffer&& residual, const Shared<GradientSlot>& slot,
                      unsigned passing, NodeInput<E, Ranks>&&... x) {
  if (__builtin_is_constant_evaluated()) {
    record_here(tape, op, mesh, y, output, std::move(residual), slot, passing, std::move(x)...);
  } else {
    OnBlocks<Op, View<T, Rank>(View<const E, Ranks>...)>::record(
        tape, op, mesh, y, output, std::move(residual), slot, passing, std::move(x)...);
  }
}

/// The recipe of an operation's result.
template <class Op, class T, int Rank, class... Inputs>
class OpRecipe final : public Recipe {
 public:
  constexpr OpRecipe(const Op& op, const MeshHandle& mesh, const View<const T, Rank>& y, Inputs&&... x)
      : op_(op), mesh_(mesh), y_(y), x_(std::move(x)...) {}

 private:
  constexpr Buffer compute() override {
    return std::apply(
        [&](auto&... x) {
          (x.fetch(), ...);
          const MeshView mesh(mesh_);
          Buffer block = allocate_buffer(mesh, y_.elements() * static_cast<Index>(sizeof(T))), residual;
          View<T, Rank> y{nullptr, y_.size, y_.begin, y_.shape};
          if (!mesh.dry()) y.data = static_cast<T*>(block->data);
          detail::run(op_, mesh, residual, y, x.extents...);
          return block;
        },
        x_);
  }

  Op op_;
  MeshHandle mesh_;
  View<const T, Rank> y_;
  std::tuple<Inputs...> x_;
};

/// Whether the gradients of a `Y` and an `X` have one type. (Either may have no gradient.)
template <class Y, class X>
inline constexpr bool same_gradient = std::is_same_v<cotangent_of<X>, cotangent_of<Y>>;

/// The result of `op`. `residual`: memory that its pullback will read too.
template <TensorType Y, class Op, TensorType... X>
constexpr Y evaluate(const Op& op, Buffer& residual, const X&... x) {
  const auto& mesh = common_mesh(x...);
  Y y(mesh, shape_of_result(op, x.shape()...));
  detail::run(op, MeshView(mesh), residual, y.writable(), x.view()...);
  return y;
}

/// Depends neither on layouts nor on the mesh. Not inlined, so that all of them share it.
template <class Op, class T, int Rank, class... Inputs>
[[gnu::noinline]] constexpr Shared<Recipe> recipe_of(const Op& op, const MeshHandle& mesh,
                                                     const View<const T, Rank>& y, Inputs&&... x) {
  return Shared<OpRecipe<Op, T, Rank, Inputs...>>::make(op, mesh, y, std::move(x)...);
}

template <class T, int Rank, int... Ranks>
using BlocksOf = View<T, Rank>(View<const T, Ranks>...);

/// The result of `apply`, or the `LayoutError` with the reason why `apply` is refused.
template <class Op, class... X>
struct Applied : ResultOfOperands<Op, X...> {};
template <class Op, Operand... X>
  requires TensorType<result_of<Op, X...>>
struct Applied<Op, X...> {
  using Y = result_of<Op, X...>;
  using type =
      typename decltype(checked_members < Op, Y::is_float && !HasElement<Op>, Y, tensor_of<X>... > ())::type;
};

}  // namespace detail

/// The type of the result for abstract operands.
template <class Op, Operand... X, AbstractOperand Y = result_of<Op, X...>>
constexpr Y apply(const Op&, const X&...) {
  return {};
}

namespace detail {

/// `result`, which `op` computed, on the tape of its operands.
template <TensorType Y, class Op, Operand... X>
constexpr auto recorded(const Op& op, Y result, Buffer residual, const X&... x) {
  if constexpr (!any_tracked<X...> || detail::HasElement<Op>) {
    return on_common_tape(std::move(result), nullptr, x...);
  } else {
    return on_common_tape(
        std::move(result),
        [&](Tape& tape, const Y& y, const Shared<GradientSlot>& slot) {
          static_assert(((!OperandTraits<X>::tracked ||
                          std::is_same_v<typename tensor_of<X>::Element, typename Y::Element>)&&...));
          constexpr unsigned saved =
              detail::saved_inputs<Op>(detail::operands_where({OperandTraits<X>::tracked...}));
          constexpr unsigned passing =
              detail::passed_on<Op>() & detail::operands_where({detail::same_gradient<Y, tensor_of<X>>...});
          [&]<int... I>(std::integer_sequence<int, I...>) {
            detail::record(tape, op, y.mesh().handle(), y.view(), y.buffer(), std::move(residual), slot,
                           passing, detail::node_input(x, (saved >> I & 1u) != 0)...);
          }
          (std::make_integer_sequence<int, sizeof...(X)>());
          Shared<Recipe> recipe;
          if constexpr (requires { requires Op::recomputed; }) {
            recipe = detail::recipe_of(op, y.mesh().handle(), y.view(),
                                       detail::NodeInput(value_of(x).view(), kept(x))...);
          }
          return recipe;
        },
        x...);
  }
}

}  // namespace detail

/// Runs `op`. The result is a tensor; or a `Var` if an operand is on a tape.
template <class Op, Operand... X, TensorType Y = typename detail::Applied<Op, X...>::type>
constexpr auto apply(const Op& op, const X&... x) {
  Buffer residual;
  Y result = detail::evaluate<Y>(op, residual, value_of(x)...);
  return detail::recorded(op, std::move(result), std::move(residual), x...);
}
template <class Op, class... X, IllFormed Why = typename detail::Applied<Op, X...>::type>
Why apply(const Op&, const X&...);  // see Why

// NOLINTBEGIN(bugprone-macro-parentheses): types
/// Compiles an operation once, for the element types of parameters, a result of `rank` and operands of the ranks that
/// follow: see base/bodies.hpp. Write it after an operation, in the namespace `shardwise`, for the ranks that layers
/// use. Each costs the target's own compilation, so there are few.
#define SHARDWISE_COMPILE_OPERATION(Op, rank, ...)                                                   \
  SHARDWISE_COMPILE_MEMBER(struct detail::OnBlocks<Op, detail::BlocksOf<float, rank, __VA_ARGS__>>)  \
  SHARDWISE_COMPILE_MEMBER(struct detail::OnBlocks<Op, detail::BlocksOf<double, rank, __VA_ARGS__>>) \
  SHARDWISE_COMPILE_MEMBER(struct detail::OnBlocks<Op, detail::BlocksOf<Eigen::bfloat16, rank, __VA_ARGS__>>)

/// Defines `name`, a function of the operands of `Op`, and the overload for operands that it refuses.
#define SHARDWISE_FUNCTION(name, Op)                               \
  template <Operand... X, WellFormed Result = result_of<Op, X...>> \
  constexpr auto name(const X&... x) {                             \
    return apply(Op{}, x...);                                      \
  }                                                                \
  template <class... X, IllFormed Why = result_of<Op, X...>>       \
  Why name(const X&...)
// NOLINTEND(bugprone-macro-parentheses)

/// An operation as a function of its operands. It is also a stage of `sequential`.
///
/// ```
/// inline constexpr sw::Function<SquareOp> square;   // square(x)
/// const sw::Function half{sw::ScaleOp{0.5}};        // of an operation that holds numbers
/// ```
template <class Op>
struct Function {
  Op operation{};

  template <Operand... X, WellFormed Result = typename detail::Applied<Op, X...>::type>
  constexpr auto operator()(const X&... x) const {
    return apply(operation, x...);
  }
  template <class... X, IllFormed Why = typename detail::Applied<Op, X...>::type>
    requires(!(std::is_arithmetic_v<X> || ...))
  Why operator()(const X&...) const;  // see Why
  template <class... X,
            IllFormed Why =
                WrittenOtherwise<Hint::put_the_number_into_the_operation_as_in_Function_Op_number>>
    requires(std::is_arithmetic_v<X> || ...)
  Why operator()(const X&...) const;  // see Why
};
template <class Op>
Function(Op) -> Function<Op>;

}  // namespace shardwise
