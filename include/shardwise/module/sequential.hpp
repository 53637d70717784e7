// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Calls layers one after another:
///
/// ```
/// auto y = sequential(x, blocks);   // for (const auto& block : blocks) x = block(x);
/// auto z = sequential(x, up, [](const auto& in) { return gelu(in); }, down);   // down(gelu(up(x)))
/// auto y = repeat(x, n, [&](const auto& in, std::size_t i) { return blocks[i](in); });
/// ```
/// The next layer must accept the result of the previous one, and a repeated layer must return the layout that it
/// takes. A hand-written loop does the same, but its variable cannot change its type: from a constant of a tape to
/// a value that depends on parameters, or to the error of a layer, which is then reported at the line of the loop.

#include <shardwise/module/module.hpp>

namespace shardwise {

namespace detail {

struct Repeat : Module<Repeat> {
  template <Operand X, std::integral Count, class F>
  constexpr auto forward(const X& x, Count count, const F& f) const {
    using First = decltype(f(x, std::size_t{}));
    using Second = decltype(f(std::declval<const First&>(), std::size_t{}));
    if constexpr (AbstractOperand<X>) {
      using Y = tensor_of<First>;
      if constexpr (IllFormed<Y> || std::is_same_v<Y, tensor_of<Second>>) {
        return First();
      } else if constexpr (IllFormed<tensor_of<Second>>) {
        return Second();
      } else {
        return redistribute_to<
            layout_error<Reason::layer_changes_the_layout_of_its_input, Expected<Y>, Got<tensor_of<Second>>>>(
            x);
      }
    } else {
      if (count < 1) throw std::invalid_argument("repeat, sequential: there are no layers");
      auto y = f(x, std::size_t{0});
      for (std::size_t i = 1; i < static_cast<std::size_t>(count); ++i) y = f(y, i);
      return y;
    }
  }
};

struct InTurn : Module<InTurn> {
  template <class F, class... More>
  constexpr auto forward(const Operand auto& x, const F& first, const More&... more) const {
    if constexpr (sizeof...(More) == 0) {
      return first(x);
    } else {
      return forward(first(x), more...);
    }
  }
};

template <class Layers>
struct EachOf {
  const Layers& layers;
  constexpr auto operator()(const auto& in, std::size_t i) const { return layers[i](in); }
};
template <class X, class Layers>
struct SequenceProblem : TypeIs<WrittenOtherwise<Hint::pass_the_input_first_and_then_the_layers>> {};
template <Operand X, class Layers>
  requires requires(const Layers& layers) { layers[layers.size()]; }
struct SequenceProblem<X, Layers> : CallProblem<Repeat, X, std::size_t, EachOf<Layers>> {};
template <class X, class Layers>
using sequence_problem = typename SequenceProblem<X, Layers>::type;

}  // namespace detail

/// f(… f(f(x, 0), 1) …, count - 1). Throws `std::invalid_argument` if `count` is not positive.
template <Operand X, std::integral Count, class F,
          class Problem = detail::call_problem<detail::Repeat, X, Count, F>>
constexpr auto repeat(const X& x, Count count, const F& f) {
  return detail::Repeat()(x, count, f);
}
template <Operand X, std::integral Count, class F,
          IllFormed Why = detail::call_problem<detail::Repeat, X, Count, F>>
Why repeat(const X&, Count, const F&);  // see Why

/// Applies each of a vector of modules to x in turn.
template <Operand X, class Layers, class Problem = detail::sequence_problem<X, Layers>>
constexpr auto sequential(const X& x, const Layers& layers) {
  return repeat(x, layers.size(), detail::EachOf<Layers>{layers});
}
template <Operand X, class Layers, IllFormed Why = detail::sequence_problem<X, Layers>>
Why sequential(const X&, const Layers&);  // see Why

/// Applies modules and functions to x in turn.
template <Operand X, class A, class B, class... More,
          class Problem = detail::call_problem<detail::InTurn, X, A, B, More...>>
constexpr auto sequential(const X& x, const A& first, const B& second, const More&... more) {
  return detail::InTurn()(x, first, second, more...);
}
template <Operand X, class A, class B, class... More,
          IllFormed Why = detail::call_problem<detail::InTurn, X, A, B, More...>>
Why sequential(const X&, const A&, const B&, const More&...);  // see Why
template <class F, class... X,
          IllFormed Why = WrittenOtherwise<Hint::pass_the_input_first_and_then_the_layers>>
  requires(!Operand<F>)
Why sequential(const F&, const X&...);  // see Why

}  // namespace shardwise
