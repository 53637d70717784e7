// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Styles for axes whose ranks work on different samples: what of a parameter, its gradient and its optimizer
/// state is sharded there (Rajbhandari et al., "ZeRO", 2020; Zhao et al., "PyTorch FSDP", 2023).
///
/// | style             | parameters          | gradients           | optimizer state |
/// |-------------------|---------------------|---------------------|-----------------|
/// | `Zero<0, Axes>`   | whole               | whole               | whole           |
/// | `Zero<1, Axes>`   | whole               | whole until reduced | sharded         |
/// | `Zero<2, Axes>`   | whole               | sharded             | sharded         |
/// | `FullyShard<Axes>`| sharded, gathered for use | sharded       | sharded         |
///
/// They go beside a style for other axes; a data axis that no style names is `Zero<0>`, data parallel:
/// ```
/// Linear<Mesh<dp, tp>, Styles<ColwiseParallel<tp>, FullyShard<dp>>> up(mesh, 1024, 4096);
/// using MyPlan = PlanWith<LlamaTensorParallel<>, FullyShard<dp>>;   // for all modules of a plan
/// ```
/// Where one axis cuts a dimension of a parameter, these cut another, so that nothing is reordered; a parameter
/// that has no other is not sharded. Hybrid sharding is a mesh with two data axes of which one is named here.

#include <shardwise/module/parameter.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <int Level, StyleAxes Axes>
struct Zero {
  static_assert(Level >= 0 && Level <= 3, "ZeRO has the levels 0 to 3");
  static constexpr int level = Level;
  using NamedAxes = typename detail::AxesNamed<Axes>::type;
  static constexpr bool suits(ModuleKind kind) { return kind != ModuleKind::composite; }
  static constexpr Placement input(Placement found, int) { return found == replicate ? reduced : found; }
  static constexpr Placement weight(int, int) { return reduced; }
  static constexpr Placement bias() { return reduced; }
  static constexpr Placement output_of(Placement natural) { return natural; }
};

/// The parameters themselves are sharded: FSDP, ZeRO-3.
template <StyleAxes Axes>
using FullyShard = Zero<3, Axes>;

namespace detail {

/// A group of dimensions of a parameter: input or output features.
struct Features {
  int first = 0, count = 1;
};

/// The dimension that is cut on data axes: the first of a group that no axis of `layout` cuts; of one dimension if
/// possible, because that is the longer; or -1.
constexpr int dimension_to_cut(const Layout& layout, Features a, Features b) {
  auto cut = [&](Features group) {
    for (int axis = 0; axis < layout.axes; ++axis) {
      if (!layout[axis].is_shard()) continue;
      const int dim = layout[axis].dim();
      if (dim >= group.first && dim < group.first + group.count) return true;
    }
    return false;
  };
  if (cut(a)) return cut(b) ? -1 : b.first;
  if (cut(b)) return a.first;
  if (a.count != b.count) return a.count < b.count ? a.first : b.first;
  return a.first < b.first ? a.first : b.first;
}

template <class Style, class X, class Axes>
struct ShardingFor;
template <class Style, class X, int... Axes>
struct ShardingFor<Style, X, std::integer_sequence<int, Axes...>> {
  template <int Dim>
  static constexpr auto type_of() {
    if constexpr (Dim < 0 || ((zero_level<Style, typename X::MeshOf>(Axes) == 0) && ...) ||
                  !style_levels_nest<Style, typename X::MeshOf>()) {  // which no constructor accepts
      return TypeIs<Unsharded>{};
    } else {
      return TypeIs<Sharding<Dim, zero_level<Style, typename X::MeshOf>(Axes)...>>{};
    }
  }
};

/// What a module of this style cuts of a parameter that it uses as an `X`, whose dimensions form two groups.
template <class Style, class X, int First, int Count, int OtherFirst, int OtherCount>
using sharding_for =
    typename decltype(ShardingFor<Style, X, std::make_integer_sequence<int, X::MeshOf::axes>>::
                          template type_of<dimension_to_cut(X::layout, {First, Count},
                                                            {OtherFirst, OtherCount})>())::type;

/// A parameter of a module with this style.
template <class Style, class Weight, int First, int Count, int OtherFirst, int OtherCount>
using StyledParameter = Parameter<Weight, sharding_for<Style, Weight, First, Count, OtherFirst, OtherCount>>;
/// The same for one with a single dimension, such as a bias.
template <class Style, class Bias>
using StyledVector = StyledParameter<Style, Bias, 0, 1, 0, 1>;

}  // namespace detail

}  // namespace shardwise
