// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `recompute`: a call of a module that keeps only its arguments, and is repeated in the backward pass (Chen et
/// al., "Training deep nets with sublinear memory cost", 2016: "activation checkpointing").
///
/// ```
/// for (const auto& block : blocks) x = recompute(block, x);   // instead of x = block(x)
/// ```
/// Values and gradients are the same, bit by bit. The cost is a second forward pass of the module, with its
/// communication, in `Phase::backward`.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/abstract.hpp>

namespace shardwise {

namespace detail {

/// The result of a call, or a `LayoutError`.
template <class Module, class... X>
using called_with = std::remove_cvref_t<decltype(std::declval<const Module&>()(std::declval<const X&>()...))>;

/// An argument of a call that will be repeated on another tape.
template <class X>
class RepeatedArgument {
 public:
  constexpr explicit RepeatedArgument(const X& x) : value_(x) {}
  constexpr const X& on(Tape&) const { return value_; }

 private:
  X value_;
};
/// The gradient goes directly to its accumulator, so that its terms are added in the same order.
template <class X, bool Tracked>
class RepeatedArgument<Var<X, Tracked>> {
 public:
  constexpr explicit RepeatedArgument(const Var<X, Tracked>& x)
      : mesh_(x.mesh()), shape_(x.shape()), kept_(kept(x)) {
    if constexpr (Tracked) slot_ = x.slot();
  }
  constexpr Var<X, Tracked> on(Tape& tape) const {
    X value(mesh_, shape_, kept_.block());
    if constexpr (Tracked) {
      return Var<X>(tape, std::move(value), Shared<GradientSlot>(slot_));
    } else {
      return tape.constant(std::move(value));
    }
  }

 private:
  struct None {};
  typename X::MeshOf mesh_;
  Shape<X::rank> shape_;
  Kept kept_;
  [[no_unique_address]] std::conditional_t<Tracked, Shared<GradientSlot>, None> slot_;
};

template <class Module>
concept NamesMembers = requires(Module& module) {
  module.visit([](const char*, auto&) {});
};
/// Parameters and modules are captured by reference, everything else by value.
template <class X>
concept ReferredTo = NamesMembers<X> ||(OperandTraits<X>::tracked && !OperandTraits<X>::on_tape);
template <ReferredTo X>
class RepeatedArgument<X> {
 public:
  constexpr explicit RepeatedArgument(const X& x) : object_(&x) {}
  constexpr const X& on(Tape&) const { return *object_; }

 private:
  const X* object_;
};

/// The backward pass may call it after the enclosing function has returned. A lambda with captures or a class with
/// references may refer to that function's variables; neither is assignable, so both are rejected.
template <class F>
concept Repeatable = !Operand<F> && (NamesMembers<F> || std::is_copy_assignable_v<F>);
struct NotRepeatable {
  template <class F>
    requires(!Repeatable<F> && !Operand<F>)
  constexpr NotRepeatable(const F&) {}  // NOLINT(google-explicit-constructor)
};
template <class F>
struct CalledAgain {
  F f;
  constexpr explicit CalledAgain(const F& given) : f(given) {}
  constexpr const F& operator*() const { return f; }
};
template <NamesMembers Module>
struct CalledAgain<Module> {
  const Module* module;
  constexpr explicit CalledAgain(const Module& given) : module(&given) {}
  constexpr const Module& operator*() const { return *module; }
};

template <class Module, TensorType Y, class... X>
class RecomputeNode final : public TapeNode {
 public:
  constexpr RecomputeNode(const Module& module, const Shared<GradientSlot>& result, const X&... x)
      : module_(module), arguments_(RepeatedArgument<X>(x)...), slot_(result) {}

  constexpr bool pull_back(BackwardPart part) override {
    if (part == BackwardPart::parameters) {
      tape_.backward_parameters();
      return false;
    }
    Buffer dy = slot_->pass();
    if (!dy) return false;
    tape_.set_repeats(dy->recorder);
    auto again = [&](const auto&... argument) { return (*module_)(argument.on(tape_)...); };
    auto y = std::apply(again, arguments_);
    auto gradient = gradient_of<Y>(y.mesh(), y.shape(), std::move(dy));
    if (part == BackwardPart::inputs) {
      tape_.backward_inputs(std::move(y), std::move(gradient));
      return true;
    }
    tape_.backward(std::move(y), std::move(gradient));
    return false;
  }

 private:
  CalledAgain<Module> module_;
  std::tuple<RepeatedArgument<X>...> arguments_;
  ResultSlot slot_;
  Tape tape_;  ///< of the repeated call
};

/// An argument for a call without a tape.
template <class X>
constexpr const auto& off_tape(const X& x) {
  if constexpr (OperandTraits<X>::on_tape) {
    return x.value();
  } else {
    return x;
  }
}

}  // namespace detail

/// `module(x...)` without keeping its activations: on a tape, the call records one node, which repeats the call in
/// the backward pass. Without a tape it is a plain call.
///
/// The arguments are tensors, `Var`s, parameters, modules, and values of other types, which are copied. The module
/// must return one tensor, and the same one for the same arguments; it must accept tensors wherever it accepts
/// `Var`s. The module, and parameters and modules among the arguments, are kept by reference: they must not be
/// moved, destroyed or changed before the backward pass.
///
/// Instead of a module, pass a function without captures; give it what it needs as arguments:
///
/// ```
/// x = recompute([](const auto& self, const auto& in) { return self.down(gelu(self.up(in))); }, *this, x);
/// ```
template <class Module, class... X, class Result = detail::called_with<Module, X...>>
  requires detail::Repeatable<Module>
constexpr auto recompute(const Module& module, const X&... x) {
  constexpr bool one_tensor = Operand<Result>;
  static_assert(one_tensor, "recompute: the module must return one tensor, not a tuple or another type");
  if constexpr (!one_tensor || AbstractOperand<Result> || !any_tracked<Result>) {
    return module(x...);
  } else {
    using Y = tensor_of<Result>;
    using Value = detail::called_with<Module, std::remove_cvref_t<decltype(detail::off_tape(x))>...>;
    constexpr bool needs_no_tape = std::is_same_v<Value, Y>;
    static_assert(
        needs_no_tape,
        "recompute: called with tensors, the module must give a tensor: each Var must be an argument");
    if constexpr (needs_no_tape) {
      Tape& tape = common_tape(x...);
      Y y = module(detail::off_tape(x)...);
      auto slot = Shared<GradientSlot>::make();  // no recipe: a later user of y keeps y itself
      tape.count_repeated();
      tape.template record<detail::RecomputeNode<Module, Y, X...>>(module, slot, x...);
      return Var<Y>(tape, std::move(y), std::move(slot));
    }
  }
}
template <class Module, class... X, IllFormed Why = detail::called_with<Module, X...>>
  requires detail::Repeatable<Module> Why recompute(const Module&, const X&...);  // see Why
template <class... X,
          IllFormed Why = WrittenOtherwise<Hint::let_the_lambda_capture_nothing_and_take_arguments_instead>>
Why recompute(const detail::NotRepeatable&, const X&...);  // see Why
template <Operand X, class... More, IllFormed Why = WrittenOtherwise<Hint::pass_the_module_first>>
Why recompute(const X&, const More&...);  // see Why
/// Rejects a temporary module, which would be destroyed before the backward pass.
template <detail::NamesMembers Module, class... X>
void recompute(const Module&&, const X&...) = delete;

}  // namespace shardwise
