// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Several layers that read one input.
///
/// ```
/// auto [q, k, v] = project(x, wq, wk, wv);  // x is redistributed once, and so is its gradient
/// ```

#include <shardwise/module/module.hpp>

namespace shardwise {

namespace detail {

struct Project : Module<Project> {
  template <Operand X, class First, class... Rest>
  constexpr auto forward(const X& x, const First& first, const Rest&... rest) const {
    using Shared = decltype(first.take(x));
    if constexpr (!(std::is_same_v<typename First::Communication, typename Rest::Communication> && ...)) {
      return redistribute_to<
          layout_error<Reason::styles_communicate_in_different_types,
                       Got<typename First::Communication, typename Rest::Communication...>>>(x);
    } else if constexpr ((std::is_same_v<Shared, decltype(rest.take(x))> && ...)) {
      if constexpr (requires { first.take_and_forward(x); }) {
        const auto [shared, y] = first.take_and_forward(x);
        return std::make_tuple(y, rest(shared)...);
      } else {
        const Shared shared = first.take(x);
        return std::make_tuple(first(shared), rest(shared)...);
      }
    } else {
      return redistribute_to<layout_error<Reason::layers_expect_different_input_layouts,
                                          Got<tensor_of<Shared>, tensor_of<decltype(rest.take(x))>...>>>(x);
    }
  }
};

}  // namespace detail

/// `x` through several layers that want it in one layout, as a tuple: it is redistributed once, and their gradients are
/// added before they are reduced.
template <Operand X, class... Layers, class Problem = detail::call_problem<detail::Project, X, Layers...>>
constexpr auto project(const X& x, const Layers&... layers) {
  return detail::Project()(x, layers...);
}
template <Operand X, class... Layers, IllFormed Why = detail::call_problem<detail::Project, X, Layers...>>
Why project(const X&, const Layers&...);  // see Why

}  // namespace shardwise
