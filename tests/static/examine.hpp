// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Examines all routes between all layouts of a mesh: each is possible exactly where it should be, does what
/// it says when it is simulated on several shapes, and no detour is cheaper. The same functions serve the
/// compiler (few axes) and the run-time tests (many).

#include "simulate.hpp"

namespace shardwise::testing {

/// A list of at most `Capacity` layouts.
template <std::size_t Capacity>
struct Layouts {
  std::array<Layout, Capacity> list{};
  std::size_t count = 0;
  constexpr const Layout& operator[](std::size_t i) const { return list[i]; }
  constexpr const Layout* begin() const { return list.data(); }
  constexpr const Layout* end() const { return list.data() + count; }
};

/// All well-formed layouts of a tensor of `rank` dimensions over these placements besides the shards.
template <std::size_t Capacity>
constexpr Layouts<Capacity> all_layouts(int axes, int rank, std::initializer_list<Placement> others) {
  Layouts<Capacity> layouts;
  const int choices = rank + static_cast<int>(others.size());
  int combinations = 1;
  for (int axis = 0; axis < axes; ++axis) combinations *= choices;
  for (int index = 0; index < combinations; ++index) {
    Layout layout;
    layout.axes = axes;
    for (int axis = 0, rest = index; axis < axes; ++axis, rest /= choices) {
      int choice = rest % choices;
      layout[axis] = choice < rank ? shard(choice) : others.begin()[choice - rank];
    }
    if (well_formed(layout, rank)) layouts.list[layouts.count++] = layout;
  }
  return layouts;
}

/// May `from` become `to`? Written anew, so as not to believe `convertible`.
constexpr bool should_be_possible(const Layout& from, const Layout& to) {
  for (int axis = 0; axis < from.axes; ++axis) {
    bool into_extremum = to[axis] == partial_max || to[axis] == partial_min;
    if (into_extremum && from[axis] != to[axis]) return false;
    if (to[axis] == partial_sum && (from[axis] == partial_max || from[axis] == partial_min)) return false;
  }
  return true;
}

/// Is the route what it claims, apart from what it does: ends in `to`, passes through well-formed layouts,
/// costs what its steps cost, and never communicates along axes of one rank?
constexpr bool consistent(const Layout& from, const Layout& to, const Route& route, int rank,
                          const MeshSizes& sizes) {
  Cost sum;
  Layout at = from;
  for (const Step& step : route) {
    if (!step.possible || !well_formed(step.to, rank)) return false;
    if ((step.kind == Collective::none) != (step.axes == 0)) return false;
    for (int axis = 0; axis < max_axes; ++axis) {
      if (!(step.axes >> axis & 1u)) continue;
      if (axis >= from.axes || sizes[static_cast<std::size_t>(axis)] == 1) return false;
    }
    Cost price = cost(at, step, sizes);
    if (price.calls != (step.kind != Collective::none) || price.bytes < 0) return false;
    if (step.kind != Collective::none && price.bytes == 0) return false;
    sum = sum + price;
    at = step.to;
  }
  return route.count > 0 && at == to && sum == route.cost;
}

/// What an examination found: the first pair of layouts whose route is wrong, or -1, and all costs.
template <std::size_t Capacity>
struct Findings {
  std::size_t count = 0;
  int wrong_from = -1, wrong_to = -1;
  std::array<std::array<Cost, Capacity>, Capacity> costs{};  ///< calls = -1 where there is no route

  constexpr bool all_right() const { return count > 0 && wrong_from < 0; }
};

/// Every route between these layouts, simulated on every scene (scenes differ in shape only).
template <std::size_t Capacity, class FirstScene, class... Scenes>
constexpr Findings<Capacity> examine(const Layouts<Capacity>& layouts, int rank, const FirstScene& scene,
                                     const Scenes&... scenes) {
  Findings<Capacity> found;
  found.count = layouts.count;
  for (std::size_t i = 0; i < layouts.count; ++i) {
    const Layout& from = layouts[i];
    auto simulated = [&](const auto& in) {
      return
          [&in, &from, start = in.distributed(from)](const Route& way) { return in.right(from, start, way); };
    };
    auto all_simulated = [&](const auto&... simulations) {
      for (std::size_t j = 0; j < layouts.count; ++j) {
        const Layout& to = layouts[j];
        Route way = route(from, to, rank, scene.sizes());
        bool right = way.possible == should_be_possible(from, to);
        if (way.possible) {
          right = right && consistent(from, to, way, rank, scene.sizes()) && (... && simulations(way));
        }
        found.costs[i][j] = way.possible ? way.cost : Cost{0, -1};
        if (right || found.wrong_from >= 0) continue;
        found.wrong_from = static_cast<int>(i);
        found.wrong_to = static_cast<int>(j);
      }
    };
    all_simulated(simulated(scene), simulated(scenes)...);
  }
  return found;
}

/// No detour is cheaper: cost(A to C) <= cost(A to B) + cost(B to C) for all A, B, C. As every single step
/// between two layouts is itself a route, this also says that every route is the cheapest of all sequences.
/// (A pending maximum must not become a pending sum, although it could by way of the finished value.)
template <std::size_t Capacity>
constexpr bool no_cheaper_detour(const Findings<Capacity>& found) {
  for (std::size_t a = 0; a < found.count; ++a) {
    for (std::size_t b = 0; b < found.count; ++b) {
      const Cost& first = found.costs[a][b];
      if (first.calls < 0) continue;
      for (std::size_t c = 0; c < found.count; ++c) {
        const Cost& second = found.costs[b][c];
        if (second.calls < 0) continue;
        const Cost& direct = found.costs[a][c];
        if (direct.calls < 0) continue;
        std::int64_t spare = first.bytes + second.bytes - direct.bytes;
        if (spare < 0 || (spare == 0 && first.calls + second.calls < direct.calls)) return false;
      }
    }
  }
  return true;
}

/// Is `single_step` right that this is, or that this is not, one step, and is there no cheaper one? Tries
/// every collective over every set of axes; a step must be right on all shapes.
template <class FirstScene, class... Scenes>
constexpr bool single_step_is_best(const Layout& from, const Layout& to, const FirstScene& scene,
                                   const Scenes&... scenes) {
  const MeshSizes& sizes = scene.sizes();
  Step chosen = single_step(from, to, sizes);
  Cost price = cost(from, chosen, sizes);
  AxisSet active = 0;
  for (int axis = 0; axis < from.axes; ++axis) {
    if (sizes[static_cast<std::size_t>(axis)] > 1) active |= 1u << axis;
  }
  for (int kind = 0; kind < collective_kinds; ++kind) {
    for (AxisSet axes = 0; axes < 1u << from.axes; ++axes) {
      if ((kind == 0) != (axes == 0) || (axes & ~active) != 0) continue;
      Step other{true, static_cast<Collective>(kind), axes, to};
      if (chosen.possible && !(cost(from, other, sizes) < price)) continue;
      if (scene.right(from, other) && (... && scenes.right(from, other))) return false;
    }
  }
  return !chosen.possible || (scene.right(from, chosen) && (... && scenes.right(from, chosen)));
}

}  // namespace shardwise::testing
