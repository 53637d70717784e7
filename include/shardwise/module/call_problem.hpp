// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The result of a module's `forward`, found with operands that are only types; or the error, which says why a call is
/// refused, and within which modules.

#include <shardwise/autograd/abstract.hpp>
#include <shardwise/base/name.hpp>

namespace shardwise::detail {

/// The name of the template of which `M` is an instance, as the compiler prints it.
template <class M>
struct TemplateName {
  static constexpr std::string_view text() { return __PRETTY_FUNCTION__; }
  static constexpr std::size_t begin = text().find("M = ");
  static constexpr bool is_long = text().size() - begin > 200;
  static constexpr std::string_view name = text().substr(0, text().find('<', begin));
  static constexpr std::string_view value = name.substr(name.find_last_of(": ") + 1);
};
/// The type that names a module of type `M` in an error.
template <class M>
struct Within
    : std::conditional_t<TemplateName<M>::is_long, TypeIs<In<name_type<TemplateName<M>>>>, TypeIs<In<M>>> {};
template <template <class...> class M, class... Arguments>
struct Within<M<Arguments...>> : TypeIs<InA<M>> {};

/// The first `LayoutError` in the result of a call, or `void`.
template <class Result>
struct ErrorIn : TypeIs<void> {};
template <IllFormed Error, bool OnTape, bool Tracked>
struct ErrorIn<Abstract<Error, OnTape, Tracked>> : TypeIs<Error> {};
template <class... Parts>
struct ErrorIn<std::tuple<Parts...>> : FirstError<typename ErrorIn<Parts>::type...> {};

/// The result of `forward` of a `Self`; `Self` is added to an error unless an operand already had that error.
/// `Came`: the operands' errors, or `void`.
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
/// `forward` is ambiguous in `TwoForwards` if `Self` has one.
template <class Self>
concept WithoutForward = requires {
  &TwoForwards<Self>::forward;
};
/// The module's `forward`, with a fallback that returns `void` for arguments it does not take.
template <class Self>
struct ForwardOrNot : Self {
  using Self::forward;
  void forward(...) const;
};
template <class Self, class... X>
concept TakesNone = WithoutForward<Self> || requires(const ForwardOrNot<Self>& self, X&&... x) {
  { self.forward(std::forward<X>(x)...) } -> std::same_as<void>;
};

/// Why `forward` has no result for abstract operands.
template <class Self, class... X>
constexpr auto no_forward() {
  if constexpr (!TakesNone<Self, X...>) {
    return TypeIs<Reported>{};
  } else if constexpr (!WithoutForward<Self> && sizeof...(X) > 0 && !(Operand<X> || ...)) {
    return Refused<Reason::argument_is_not_a_tensor, Got<meant<X>...>>{};
  } else if constexpr (requires(const Self& self, const meant<X>&... x) { self.forward(x...); }) {
    return Refused<Reason::forward_does_not_take_abstract_operands, Got<meant<X>...>>{};
  } else {
    return Refused<Reason::no_matching_const_forward, Got<meant<X>...>>{};
  }
}

/// The result of `forward` for abstract operands, or an error if there is none.
template <class Self, class... X>
auto forwarded(int) -> Located<Self, decltype(std::declval<const Self&>().forward(std::declval<X>()...)),
                               typename ErrorIn<std::remove_cvref_t<X>>::type...>;
template <class Self, class... X>
auto forwarded(...) -> Located<Self, Abstract<typename decltype(no_forward<Self, X...>())::type, true, true>>;

/// The result of a call with such operands: a type or an error.
template <class Self, class... X>
struct Forwarded {};
template <class Self, class... X>
  requires(AbstractOperand<X> || ...)
struct Forwarded<Self, X...> : decltype(forwarded<Self, X...>(0)) {};

/// Why a module cannot be called with these arguments: a `LayoutError`, or `void`. With abstract arguments the
/// outermost call decides.
template <class Self, class... X>
struct CallProblem : ErrorIn<typename decltype(forwarded<Self, abstract_argument<X>...>(0))::type> {};
template <class Self, class... X>
  requires(AbstractOperand<X> || ...)
struct CallProblem<Self, X...> : TypeIs<void> {};
/// A module that cannot be constructed, because its plan does not fit: its results are irrelevant.
template <class Self, class... X>
  requires(IllFormed<typename Self::Problem> && !(AbstractOperand<X> || ...))
struct CallProblem<Self, X...> : TypeIs<typename Self::Problem> {};
template <class Self, class... X>
using call_problem = typename CallProblem<Self, X...>::type;

}  // namespace shardwise::detail
