// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A module consists of members, a `forward` function, and a `visit` function that names the members:
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
/// The base class makes it callable: `mlp(x)` calls `mlp.forward(x)`. First, `forward` is checked with operands
/// that are only types (autograd/abstract.hpp). If a layout does not fit, at any depth, the call does not compile:
/// there is one error, at the line of the call, with the first `LayoutError`; and `requires { mlp(x); }` is false.

#include <shardwise/layout/other_names.hpp>
#include <shardwise/module/call_problem.hpp>

namespace shardwise {

namespace detail {

/// The recorder of the first argument of a call, or null.
constexpr Recorder* recorder_of() { return nullptr; }
template <class X>
constexpr Recorder* recorder_of(const X& x, const auto&...) {
  if constexpr (is_var<X>) return recorder_of(x.value());
  if constexpr (is_tensor<X>) return x ? x.mesh().recorder() : nullptr;
  return nullptr;
}

}  // namespace detail

/// The base of the module `Self`, which defines `forward`.
template <class Self>
class Module : public detail::OtherModuleNames {
 public:
  using CalledModule = Self;  ///< the module whose `forward` a call runs

  template <class... X, class Problem = detail::call_problem<Self, X...>>
  constexpr auto operator()(X&&... x) const {
    const Self& self = static_cast<const Self&>(*this);
    Recorder* recorder = detail::recorder_of(x...);
    const ModuleScope scope(recorder, recorder ? recorder->module_at(&self) : -1);
    return self.forward(std::forward<X>(x)...);
  }
  /// For abstract operands; never evaluated.
  template <class... X, class Problem = detail::call_problem<Self, X...>>
    requires(AbstractOperand<X> || ...)
  constexpr typename detail::Forwarded<Self, X...>::type operator()(X&&...) const {
    throw std::logic_error("an abstract operand has no value");
  }
  /// Refused: a call for which `forward` has no result.
  template <class... X, IllFormed Why = detail::call_problem<Self, X...>>
  Why operator()(X&&...) const;  // see Why

 private:
  friend Self;
  constexpr Module() = default;  // for Self alone: derive Net from Module<Net>
};

}  // namespace shardwise
