// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `same_bits`: whether a plan gives each number of a model's result the same bits in any batch and on any mesh.
///
/// ```
/// using Same = PlanWith<LlamaColwiseParallel<>, SameBits>;
/// static_assert(llm::same_bits<Same>);
/// ```

#include <shardwise/parallel/styled.hpp>

namespace shardwise {

namespace detail {

/// Whether a linear layer of this style computes terms of a sum over ranks.
template <class Style>
inline constexpr bool splits_inputs = false;
template <LayerStyle Style>
inline constexpr bool splits_inputs<Style> = Style::weight(0, 1) == shard(1);
template <class... Parts>
inline constexpr bool splits_inputs<Styles<Parts...>> = (splits_inputs<Parts> || ...);

/// Whether the results of a module of this style depend on the mesh: a product that is a sum over ranks does, and so do
/// messages of another type than their tensor, which the blocks of a rank itself do not travel in.
template <ModuleKind Kind, class Style>
inline constexpr bool depends_on_mesh =
    (Kind == ModuleKind::linear && splits_inputs<Style>) ||
    !std::is_same_v<typename CommunicationOf<Style>::type, CommunicateAsStored>;

template <class PlanType, ModuleKind Kind, std::size_t Entry>
constexpr bool same_bits_of_module() {
  if constexpr (Entry >= PlanType::size) {
    return Kind != ModuleKind::linear;
  } else if constexpr (Kind == ModuleKind::experts || Kind == ModuleKind::inner_attention) {
    return false;  // groups of rows, and orders of sums, that depend on the ranks
  } else {
    using Style = typename PlanType::template StyleAt<Entry>;
    constexpr bool in_one_order = Kind != ModuleKind::linear || gives_same_bits<Style>;
    return in_one_order && !depends_on_mesh<Kind, Style>;
  }
}

}  // namespace detail

/// Whether all products of a plan for the modules `Modules`, a static array of `ModuleName`, are in one order of sums,
/// and none is a sum over ranks. Attention has one order without a style.
template <class PlanType, const auto& Modules>
inline constexpr bool same_bits_of = []<std::size_t... M>(std::index_sequence<M...>) {
  return (detail::same_bits_of_module<PlanType, Modules[M].kind, PlanType::entry_for(Modules[M].name)>() &&
          ...);
}
(std::make_index_sequence<Modules.size()>());

}  // namespace shardwise
