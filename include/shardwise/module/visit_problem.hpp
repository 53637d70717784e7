// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks whether the parameters of an argument can be visited and changed.

#include <shardwise/module/parameter.hpp>

namespace shardwise::detail {

/// An optional or a pointer, which may be empty.
template <class M>
concept PointsToModule = requires(M& module) {
  *module;
  module ? 0 : 1;
};

/// A call of an `M` runs the `forward` of a base class: `struct Big : Small` where `Small` is a `Module<Small>`.
template <class M>
concept CallsItsBase = requires {
  typename M::CalledModule;
}
&&!std::is_same_v<typename M::CalledModule, std::remove_cv_t<M>>;

/// `void` if the parameters of an `M` can be visited and changed, else a `LayoutError`.
template <class M>
struct VisitProblem {
  static constexpr auto type_of() {
    if constexpr (
        is_parameter<M> || PointsToModule<M> || requires(M & list) { list.begin(); } ||
        requires { std::tuple_size<M>::value; }) {
      return TypeIs<void>{};
    } else if constexpr (std::is_same_v<std::remove_cv_t<M>, Tape>) {
      return TypeIs<WrittenOtherwise<Hint::pass_the_model_or_call_for_each_parameter>>{};
    } else if constexpr (Operand<std::remove_cv_t<M>>) {
      return TypeIs<LayoutError<Reason::module_does_not_name_its_members, Got<M>,
                                Cure<Hint::pass_the_model_whose_parameters_backward_gave_gradients>>>{};
    } else if constexpr (std::is_const_v<M>) {
      return Refused<Reason::const_model_cannot_change, Got<M>>{};
    } else if constexpr (CallsItsBase<M>) {
      return Refused<Reason::call_runs_the_forward_of_a_base_class, Got<M>>{};
    } else if constexpr (requires(M & module) { module.visit([](const char*, auto&) {}); }) {
      return TypeIs<void>{};
    } else {
      return Refused<Reason::module_does_not_name_its_members, Got<M>>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class M>
using visit_problem = typename VisitProblem<M>::type;

}  // namespace shardwise::detail
