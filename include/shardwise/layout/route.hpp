// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The cheapest legal sequence of steps from one layout to another: a shortest path by (bytes received, discarded
/// or zeroed per rank; number of calls). A single step, where there is one, is the cheapest; only changes that both
/// reduce and move blocks need the search. Adjacent reductions or gathers are merged into one call on the joint
/// group, which moves fewer bytes than two.
///
/// ```
/// constexpr Route way = route({partial_sum, partial_sum}, {replicate, replicate}, 2, {4, 2});
/// static_assert(way.calls() == 1 && way.begin()->axes == 0b11);   // one all-reduce over both axes
/// ```

#include <vector>

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/transition.hpp>

namespace shardwise {

/// Bytes (received, discarded or filled with zeros) are compared before calls. The unit is such that every block of
/// every layout is a whole number.
struct Cost {
  std::int64_t bytes = 0;
  int calls = 0;

  friend constexpr bool operator==(const Cost&, const Cost&) = default;
  friend constexpr bool operator<(const Cost& a, const Cost& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.calls < b.calls;
  }
  friend constexpr Cost operator+(const Cost& a, const Cost& b) {
    return {a.bytes + b.bytes, a.calls + b.calls};
  }
};

struct Route {
  static constexpr int max_steps = 8;
  bool possible = false;
  int count = 0;
  Array<Step, max_steps> steps{};
  Cost cost{};

  constexpr const Step* begin() const { return steps.data(); }
  constexpr const Step* end() const { return steps.data() + count; }
  /// Steps that communicate.
  constexpr int calls() const { return cost.calls; }
};

namespace detail {

/// The size of a block, where the whole tensor has the square of the number of ranks.
constexpr std::int64_t block_units(const Layout& layout, const MeshSizes& sizes) {
  const std::int64_t ranks = group_size(sizes, layout.axes, ~0u);
  const AxisSet cutting = layout.axes_where([](Placement p) { return p.is_shard(); });
  return ranks * ranks / group_size(sizes, layout.axes, cutting);
}

}  // namespace detail

/// The data that a rank receives in one step with bandwidth-optimal algorithms, in units of which the whole tensor has
/// the square of the number of ranks. An all-reduce over g ranks receives 2 (g-1)/g of its block, a reduce-scatter
/// (g-1)/g of its input, a gather the missing part of its result, an all-to-all (g-1)/g of its result.
constexpr std::int64_t received(const Layout& from, const Step& step, const MeshSizes& sizes) {
  const std::int64_t before = detail::block_units(from, sizes), after = detail::block_units(step.to, sizes);
  const std::int64_t g = group_size(sizes, from.axes, step.axes);
  if (step.kind == Collective::none) return 0;
  if (step.kind == Collective::all_reduce) return 2 * (before - before / g);
  if (step.kind == Collective::reduce_scatter) return before - before / g;
  return step.kind == Collective::all_gather ? after - before : after - after / g;
}

/// The cost of one step for a rank: the bytes it receives, and those it discards or fills with zeros locally. If slices
/// and zeros were free, slicing a copy along an axis outside the reduction and gathering it again would pay off;
/// with this charge a single step is always the cheapest.
[[gnu::noinline]] constexpr Cost cost(const Layout& from, const Step& step, const MeshSizes& sizes) {
  const AxisSet sliced =
      axes_where(from.axes, [&](int axis) { return from[axis].is_full() && step.to[axis].is_shard(); });
  const AxisSet masked =
      axes_where(from.axes, [&](int axis) { return !from[axis].is_partial() && step.to[axis].is_partial(); });
  const std::int64_t before = detail::block_units(from, sizes), after = detail::block_units(step.to, sizes);
  const std::int64_t dropped = before - before / group_size(sizes, from.axes, sliced);
  const std::int64_t zeros = after - after / group_size(sizes, from.axes, masked);
  return {dropped + zeros + received(from, step, sizes), step.kind == Collective::none ? 0 : 1};
}

namespace detail {

/// Every layout that a route may pass through: any placement of blocks, a pending sum, or the pending reduction of
/// either end. Axes of one rank already have their final placement, but nothing becomes pending before the end.
/// Dimensions that neither end shards are interchangeable, so only one of them is considered.
class Waypoints {
 public:
  constexpr Waypoints(const Layout& from, const Layout& to, int rank, const MeshSizes& sizes) : goal_(to) {
    for (int dim = 0, spare = 1; dim < rank; ++dim) {
      bool cut = false;
      for (int axis = 0; axis < from.axes; ++axis) cut |= from[axis].is_shard(dim) || to[axis].is_shard(dim);
      if (cut || spare-- > 0) dims_[cuts_++] = dim;
    }
    for (int axis = 0; axis < from.axes; ++axis) {
      pending_[axis] = from[axis].is_partial() ? from[axis] : to[axis].is_partial() ? to[axis] : partial_sum;
      if (sizes[axis] == 1 && to[axis].is_partial() && !from[axis].is_partial()) goal_[axis] = replicate;
      choices_[axis] = sizes[axis] == 1 ? 1 : cuts_ + 2;
      count_ *= choices_[axis];
    }
  }

  constexpr int count() const { return count_; }
  /// The waypoint with the same data as the destination.
  constexpr const Layout& goal() const { return goal_; }

  constexpr Layout layout(int index) const {
    Layout result = goal_;
    for (int axis = 0; axis < goal_.axes; ++axis) {
      int choice = index % choices_[axis];
      index /= choices_[axis];
      if (choices_[axis] == 1) continue;
      bool cut = choice < cuts_;
      result[axis] = cut ? shard(dims_[choice]) : choice == cuts_ ? replicate : pending_[axis];
    }
    return result;
  }

 private:
  Layout goal_;
  int count_ = 1;
  int cuts_ = 0;  // number of dimensions that may be sharded: the first of dims_
  Array<int, 2 * max_axes + 1> dims_{};
  Array<int, max_axes> choices_{};
  Array<Placement, max_axes> pending_{};
};

[[gnu::cold]] constexpr Route shortest_path(const Layout& from, const Layout& to, int rank,
                                            const MeshSizes& sizes) {
  struct Node {
    Layout layout{};
    Cost cost{};
    Step step{};  // valid if the node was reached
    int previous = -1;
    bool done = false;
  };
  Waypoints waypoints(from, to, rank, sizes);
  const int count = waypoints.count();
  std::vector<Node> nodes(static_cast<std::size_t>(count));
  auto node = [&](int i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
  auto relax = [&](int previous, int next, const Layout& at, Cost so_far) {
    Step step = single_step(at, node(next).layout, sizes);
    if (!step.possible) return;
    Cost total = so_far + cost(at, step, sizes);
    if (node(next).step.possible && !(total < node(next).cost)) return;
    node(next) = {node(next).layout, total, step, previous, false};
  };
  for (int i = 0; i < count; ++i) {
    node(i).layout = waypoints.layout(i);
    node(i).done = !well_formed(node(i).layout, rank);
    if (!node(i).done) relax(-1, i, from, {});
  }
  while (true) {
    int best = -1;
    for (int i = 0; i < count; ++i) {
      if (node(i).step.possible && !node(i).done && (best < 0 || node(i).cost < node(best).cost)) best = i;
    }
    if (best < 0) return {};
    node(best).done = true;
    if (same_data(node(best).layout, waypoints.goal())) {
      Route route{true, 0, {}, node(best).cost};
      for (int i = best; i >= 0; i = node(i).previous) ++route.count;
      if (route.count > Route::max_steps) return {};
      int position = route.count;
      for (int i = best; i >= 0; i = node(i).previous) route.steps[--position] = node(i).step;
      route.steps[route.count - 1].to = to;
      return route;
    }
    for (int i = 0; i < count; ++i) {
      if (!node(i).done) relax(best, i, node(best).layout, node(best).cost);
    }
  }
}

}  // namespace detail

/// The cheapest route of a tensor of rank `rank` between two layouts on a mesh of these sizes. It is impossible
/// only where some axis is not `convertible`.
constexpr Route route(const Layout& from, const Layout& to, int rank, const MeshSizes& sizes) {
  for (int axis = 0; axis < from.axes; ++axis) {
    if (!convertible(from[axis], to[axis])) return {};
  }
  Step direct = single_step(from, to, sizes);
  if (!direct.possible) return detail::shortest_path(from, to, rank, sizes);
  Route result{true, 1, {}, cost(from, direct, sizes)};
  result.steps[0] = direct;
  return result;
}

namespace detail {

/// `route` with a cache.
const Route& cached_route(const Layout& from, const Layout& to, int rank, const MeshSizes& sizes);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE const Route& cached_route(const Layout& from, const Layout& to, int rank,
                                           const MeshSizes& sizes) {
  struct Known {
    Layout from, to;
    int rank = -1;
    MeshSizes sizes{};
    Route route;
  };
  constexpr std::size_t most = 64;
  thread_local std::vector<Known> all(most);
  const std::uint64_t key = (packed(from) * 31 + packed(to)) * 31 + static_cast<unsigned>(rank);
  Known& known = all[key * 0x9e3779b97f4a7c15u >> 58];
  if (known.rank != rank || !(known.from == from) || !(known.to == to) || known.sizes != sizes) {
    known = {from, to, rank, sizes, route(from, to, rank, sizes)};
  }
  return known.route;
}

#endif

}  // namespace detail

}  // namespace shardwise
