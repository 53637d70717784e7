// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A module is members, what it computes of its input, and its members' names:
///
/// ```
/// template <class Mesh>
/// struct Mlp : Module<Mlp<Mesh>> {
///   constexpr Mlp(const Mesh& mesh, Index features, Index hidden)
///       : up(mesh, features, hidden), down(mesh, hidden, features) {}
///   constexpr auto forward(const auto& x) const { return down(gelu(up(x))); }
///   constexpr void visit(auto&& f) { f("up", up); f("down", down); }
///
///   Linear<Mesh, ColwiseParallel<tp>> up;
///   Linear<Mesh, RowwiseParallel<tp>> down;
/// };
/// ```
/// The base makes it callable: `mlp(x)` is `mlp.forward(x)`. Before that, `forward` is asked what it would give, on
/// operands that are types only (autograd/abstract.hpp). If a layout does not fit, at whatever depth, the call does not
/// compile: one error, at the line of the call, with the first `LayoutError`; and `requires { mlp(x); }` is false.

#include <shardwise/autograd/abstract.hpp>

namespace shardwise {

namespace detail {

/// The first `LayoutError` in what a call gives, or `void`.
template <class Result>
struct ErrorIn {
  using type = void;
};
template <IllFormed Error, bool OnTape, bool Tracked>
struct ErrorIn<Abstract<Error, OnTape, Tracked>> {
  using type = Error;
};
template <class... Parts>
struct ErrorIn<std::tuple<Parts...>> : FirstError<typename ErrorIn<Parts>::type...> {};

/// The problem in what `forward` gives; or that there is none for such arguments.
template <class Self, class... X>
auto problem_in_forward(int)
    -> ErrorIn<decltype(std::declval<const Self&>().forward(std::declval<abstract_argument<X>>()...))>;
template <class Self, class... X>
auto problem_in_forward(...)
    -> Refused<Reason::module_has_no_const_forward_for_these, Got<std::remove_cvref_t<X>...>>;

/// Why a module cannot be called with these arguments: a `LayoutError`, or `void`. Abstract arguments are for the
/// outermost call to judge.
template <class Self, class... X>
struct CallProblem : decltype(problem_in_forward<Self, X...>(0)) {};
template <class Self, class... X>
  requires(AbstractOperand<X> || ...)
struct CallProblem<Self, X...> {
  using type = void;
};
/// A module that cannot be made, because its plan does not fit it: what it would compute does not matter.
template <class Self, class... X>
  requires(IllFormed<typename Self::Problem> && !(AbstractOperand<X> || ...))
struct CallProblem<Self, X...> {
  using type = typename Self::Problem;
};
template <class Self, class... X>
using call_problem = typename CallProblem<Self, X...>::type;

}  // namespace detail

/// The base of the module `Self`, which has `forward`.
template <class Self>
class Module {
 public:
  template <class... X, class Problem = detail::call_problem<Self, X...>>
  constexpr auto operator()(X&&... x) const {
    return static_cast<const Self&>(*this).forward(std::forward<X>(x)...);
  }
  template <class... X, IllFormed Why = detail::call_problem<Self, X...>>
  Why operator()(X&&...) const;  // see Why
};

}  // namespace shardwise
