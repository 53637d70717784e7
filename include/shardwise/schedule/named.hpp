// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline schedules by name, for command-line options.

#include <functional>

#include <shardwise/base/bodies.hpp>
#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

namespace shardwise {

namespace detail {

struct NamedSchedule {
  std::string_view name;
  int chunks;  ///< stages per rank; 0: any number, by default 2
  PipelineSchedule (*make)(int ranks, int chunks, int micro_batches);  ///< null: `by_costs`
};

inline constexpr NamedSchedule named_schedules[] = {
    {"gpipe", 1, [](int ranks, int, int micro_batches) { return gpipe(ranks, micro_batches); }},
    {"1f1b", 1,
     [](int ranks, int, int micro_batches) { return one_forward_one_backward(ranks, micro_batches); }},
    {"interleaved", 0, interleaved},
    {"zb-h1", 1, [](int ranks, int, int micro_batches) { return zb_h1(ranks, micro_batches); }},
    {"interleaved-zb-h1", 0, interleaved_zb_h1},
    {"zb-v", 2, [](int ranks, int, int micro_batches) { return zb_v(ranks, micro_batches); }},
    {"dualpipe-v", 2, [](int ranks, int, int micro_batches) { return dualpipe_v(ranks, micro_batches); }},
    {"by-costs", 0, nullptr},
};

}  // namespace detail

/// The schedule with this name: gpipe, 1f1b, interleaved, zb-h1, interleaved-zb-h1, zb-v, dualpipe-v or by-costs;
/// with `chunks` stages on each rank (0: the default of the schedule). `by-costs` uses the costs that `costs_of`
/// returns and `in_flight` micro-batches, and assigns stages to ranks in turn. Throws `std::invalid_argument` for
/// an unknown name, for a number of chunks that the schedule does not allow, and as the generator does.
PipelineSchedule pipeline_schedule(
    std::string_view name, int ranks, int chunks, int micro_batches,
    const std::function<Costs(const std::vector<int>& rank_of_stage)>& costs_of = nullptr, int in_flight = 0);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE PipelineSchedule pipeline_schedule(
    std::string_view name, int ranks, int chunks, int micro_batches,
    const std::function<Costs(const std::vector<int>& rank_of_stage)>& costs_of, int in_flight) {
  std::string names;
  for (const detail::NamedSchedule& each : detail::named_schedules) {
    names += (names.empty() ? "" : ", ") + std::string(each.name);
    if (each.name != name) continue;
    if (chunks == 0) chunks = each.chunks > 0 ? each.chunks : 2;
    if (each.chunks > 0 && chunks != each.chunks) {
      detail::fail({"schedule ", name, ": it has ", each.chunks, each.chunks == 1 ? " chunk" : " chunks",
                    " on each rank, not ", chunks});
    }
    if (each.make) return each.make(ranks, chunks, micro_batches);
    const std::vector<int> in_turn =
        detail::empty_schedule("by_costs", ranks, chunks, micro_batches).rank_of_stage;
    return by_costs(in_turn, micro_batches, costs_of ? costs_of(in_turn) : Costs(), in_flight);
  }
  detail::fail({"there is no pipeline schedule \"", name, "\"; expected one of ", names});
}

#endif

}  // namespace shardwise
