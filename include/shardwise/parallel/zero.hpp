// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Styles for axes whose ranks work on different samples: they shard parameters, gradients and optimizer state
/// there (Rajbhandari et al., "ZeRO", 2020; Zhao et al., "PyTorch FSDP", 2023).
///
/// | style             | parameters          | gradients           | optimizer state |
/// |-------------------|---------------------|---------------------|-----------------|
/// | `Zero<0, Axes>`   | whole               | whole               | whole           |
/// | `Zero<1, Axes>`   | whole               | whole until reduced | sharded         |
/// | `Zero<2, Axes>`   | whole               | sharded             | sharded         |
/// | `FullyShard<Axes>`| sharded, gathered for use | sharded       | sharded         |
///
/// Combine them with a style for other axes; a data axis that no style names is `Zero<0>`, data parallel:
/// ```
/// Linear<Mesh<dp, tp>, Styles<ColwiseParallel<tp>, FullyShard<dp>>> up(mesh, 1024, 4096);
/// using MyPlan = PlanWith<LlamaTensorParallel<>, FullyShard<dp>>;   // for all modules of a plan
/// ```
/// If another axis already shards a dimension of a parameter, these shard a different one, so that nothing is
/// reordered; a parameter without another dimension is not sharded. For hybrid sharding, use a mesh with two data
/// axes and name one of them here.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/parallel/style.hpp>

namespace shardwise {

template <int Level, StyleAxes Axes>
struct Zero {
  static constexpr Hint misused = Level < 0 || Level > 3 ? Hint::use_a_level_of_0_to_3 : Hint::none;
  static constexpr int level = misused == Hint::none ? Level : 0;
  using NamedAxes = typename detail::AxesNamed<Axes>::type;
  static constexpr bool suits(ModuleKind kind) { return detail::is_layer(kind); }
  static constexpr Placement input(Placement found, int) { return found == replicate ? reduced : found; }
  static constexpr Placement weight(int, int) { return reduced; }
  static constexpr Placement bias() { return reduced; }
  static constexpr Placement output_of(Placement natural) { return natural; }
};

/// The parameters themselves are sharded: FSDP, ZeRO-3.
template <StyleAxes Axes>
using FullyShard = Zero<3, Axes>;

}  // namespace shardwise
