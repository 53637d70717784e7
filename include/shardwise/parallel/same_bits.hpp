// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `same_bits`: whether a plan gives each number of a model's result the same bits in any batch and on any mesh.

#include <shardwise/kernel/fold.hpp>
#include <shardwise/parallel/plan_problem.hpp>

namespace shardwise {

namespace detail {

/// Whether the results of module number `M` have the same bits, in the elements from bound `At` on. The projections to
/// latents of attention have a norm's style (llm/models/llama/latent.hpp), so norms need `SameBits` as well.
template <class PlanType, const auto& Modules, std::size_t M, int At>
constexpr bool same_bits_of_module() {
  constexpr ModuleKind kind = Modules[M].kind;
  if constexpr (kind == ModuleKind::experts || kind == ModuleKind::inner_attention) {
    // Their groups of rows, and orders of sums, depend on the ranks.
    return PlanType::entry_for(Modules[M].name, At) == no_entry;
  } else {
    using Style = typename decltype(style_in_table<PlanType, Modules, M, At>())::type;
    constexpr bool may_multiply = kind == ModuleKind::linear || kind == ModuleKind::norm;
    constexpr bool in_one_order = !may_multiply || gives_same_bits<Style>;
    return in_one_order && !depends_on_mesh<kind, Style>;
  }
}

}  // namespace detail

/// Whether all products of a plan for the modules `Modules`, a static array of `ModuleName`, are in one order of sums,
/// and none is a sum over ranks. Attention has one order without a style, in a program that is compiled for AVX or
/// newer; in others this is false.
template <class PlanType, const auto& Modules>
inline constexpr bool same_bits_of = []<std::size_t... I>(std::index_sequence<I...>) {
  constexpr auto& groups = detail::groups_in_plan<PlanType>;
  return kernel::detail::register_bytes > 0 &&
         (detail::same_bits_of_module<PlanType, Modules, I % Modules.size(), groups[I / Modules.size()]>() &&
          ...);
}
(std::make_index_sequence<Modules.size() * detail::groups_in_plan<PlanType>.size()>());

}  // namespace shardwise
