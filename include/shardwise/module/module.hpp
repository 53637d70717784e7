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
#include <shardwise/base/name.hpp>
#include <shardwise/layout/other_names.hpp>

namespace shardwise {

namespace detail {

/// The name of the template that `M` is made of, as the compiler writes it.
template <class M>
struct TemplateName {
  static constexpr std::string_view text() { return __PRETTY_FUNCTION__; }
  static constexpr std::size_t begin = text().find("M = ");
  static constexpr bool is_long = text().size() - begin > 200;
  static constexpr std::string_view name = text().substr(0, text().find('<', begin));
  static constexpr std::string_view value = name.substr(name.find_last_of(": ") + 1);
};
/// What names a module of type `M` in an error.
template <class M>
struct Within
    : std::conditional_t<TemplateName<M>::is_long, TypeIs<In<name_type<TemplateName<M>>>>, TypeIs<In<M>>> {};
template <template <class...> class M, class... Arguments>
struct Within<M<Arguments...>> : TypeIs<InA<M>> {};

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

/// What `forward` of a `Self` gives, with `Self` named in an error that no operand came with. `Came`: those errors, or `void`.
template <class Self, class Result, class... Came>
struct Located : TypeIs<Result> {};
template <class Self, IllFormed Error, bool OnTape, bool Tracked, class... Came>
struct Located<Self, Abstract<Error, OnTape, Tracked>, Came...>
    : TypeIs<
          Abstract<typename Extended<Error, typename Within<Self>::type, Came...>::type, OnTape, Tracked>> {};
template <class Self, class... Parts, class... Came>
struct Located<Self, std::tuple<Parts...>, Came...>
    : TypeIs<std::tuple<typename Located<Self, Parts, Came...>::type...>> {};

struct AnotherForward {
  int forward;
};
template <class Self>
struct TwoForwards : Self, AnotherForward {};
/// The name is ambiguous in `TwoForwards` if there is one.
template <class Self>
concept WithoutForward = requires {
  &TwoForwards<Self>::forward;
};
/// Its `forward`; or, where that takes no such arguments, one that gives `void`.
template <class Self>
struct ForwardOrNot : Self {
  using Self::forward;
  void forward(...) const;
};
template <class Self, class... X>
concept TakesNone = WithoutForward<Self> || requires(const ForwardOrNot<Self>& self, X&&... x) {
  { self.forward(std::forward<X>(x)...) } -> std::same_as<void>;
};

/// Why `forward` gives nothing of abstract operands.
template <class Self, class... X>
constexpr auto no_forward() {
  if constexpr (!TakesNone<Self, X...>) {
    return TypeIs<Reported>{};
  } else if constexpr (requires(const Self& self, const meant<X>&... x) { self.forward(x...); }) {
    return Refused<Reason::forward_does_not_take_abstract_operands, Got<meant<X>...>>{};
  } else {
    return Refused<Reason::module_has_no_const_forward_for_these, Got<meant<X>...>>{};
  }
}

/// What `forward` gives of abstract operands; or the error that there is none for them.
template <class Self, class... X>
auto forwarded(int) -> Located<Self, decltype(std::declval<const Self&>().forward(std::declval<X>()...)),
                               typename ErrorIn<std::remove_cvref_t<X>>::type...>;
template <class Self, class... X>
auto forwarded(...) -> Located<Self, Abstract<typename decltype(no_forward<Self, X...>())::type, true, true>>;

/// What a call with such operands gives: a type only, or an error.
template <class Self, class... X>
struct Forwarded {};
template <class Self, class... X>
  requires(AbstractOperand<X> || ...)
struct Forwarded<Self, X...> : decltype(forwarded<Self, X...>(0)) {};

/// Why a module cannot be called with these arguments: a `LayoutError`, or `void`. Abstract arguments are for the
/// outermost call to judge.
template <class Self, class... X>
struct CallProblem : ErrorIn<typename decltype(forwarded<Self, abstract_argument<X>...>(0))::type> {};
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
class Module : public detail::OtherModuleNames {
 public:
  template <class... X, class Problem = detail::call_problem<Self, X...>>
  constexpr auto operator()(X&&... x) const {
    return static_cast<const Self&>(*this).forward(std::forward<X>(x)...);
  }
  template <class... X, IllFormed Why = detail::call_problem<Self, X...>>
  Why operator()(X&&...) const;  // see Why
  /// Of abstract operands; never evaluated.
  template <class... X, class Problem = detail::call_problem<Self, X...>>
    requires(AbstractOperand<X> || ...)
  constexpr typename detail::Forwarded<Self, X...>::type operator()(X&&...) const {
    throw std::logic_error("an abstract operand has no value");
  }

 private:
  friend Self;
  constexpr Module() = default;  // for Self alone: derive Net from Module<Net>
};

}  // namespace shardwise
