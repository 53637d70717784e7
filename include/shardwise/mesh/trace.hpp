// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `trace` runs a function on a dry mesh and returns the plan, at run time or in a constant expression:
///
/// ```
/// constexpr auto step = trace<Mesh<dp, tp>>({1, 4}, [](const auto& mesh) { … build a model, run it … });
/// static_assert(step.count(Collective::all_reduce) == 1);
/// ```

#include <shardwise/mesh/mesh.hpp>

namespace shardwise {

/// Runs `f(mesh)` dry on a mesh of `sizes` as the rank at `coordinates`, and returns its plan. Each host has
/// `ranks_per_host` consecutive ranks; 0: all share one host. `log`: also logs events in order, if not null.
template <class MeshType, class F>
constexpr typename MeshType::PlanOf trace(const typename MeshType::SizesOf& sizes, F f,
                                          const typename MeshType::SizesOf& coordinates = {},
                                          int ranks_per_host = 0, EventLog* log = nullptr) {
  Recorder recorder;
  const MeshType mesh(recorder, sizes, coordinates, ranks_per_host);
  recorder.set_log(log);
  f(mesh);
  return {recorder.record(), mesh.sizes()};
}

}  // namespace shardwise
