// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Mesh axes are tag types. A program may define its own:
///
/// ```
/// struct rows { static constexpr const char* name = "rows"; };
/// struct replica { static constexpr const char* name = "replica"; static constexpr bool data = true; };
/// ```

#include <shardwise/layout/layout.hpp>

namespace shardwise {

/// Data parallelism: ranks along it work on different samples.
struct dp {
  static constexpr const char* name = "dp";
  static constexpr bool data = true;
};
/// Tensor parallelism: ranks along it share the work on each sample.
struct tp {
  static constexpr const char* name = "tp";
  static constexpr bool data = false;
};
/// Replicas of key and value heads: ranks along it share the work as along `tp`, but hold the same key and
/// value heads. For more tensor-parallel ranks than a model has key/value heads.
struct kvr {
  static constexpr const char* name = "kvr";
  static constexpr bool data = false;
};
/// Context parallelism: ranks along it have other positions of the same sequences (see parallel/context_parallel.hpp).
struct cp {
  static constexpr const char* name = "cp";
  static constexpr bool data = true;
  static constexpr bool sequence = true;
};
/// Expert parallelism: ranks along it have other samples, and other experts (see nn/mixture_of_experts.hpp).
struct ep {
  static constexpr const char* name = "ep";
  static constexpr bool data = true;
};
/// Pipeline parallelism: ranks along it hold different layers.
struct pp {
  static constexpr const char* name = "pp";
  static constexpr bool data = false;
};

/// `name` is printed. Along an axis with `data = true`, ranks work on different samples, so modules store their
/// parameters `Reduced` there. With `sequence = true` as well, they work on different positions of the same samples.
template <class A>
concept MeshAxis = requires {
  { A::name } -> std::convertible_to<const char*>;
};

namespace detail {

template <class Axis>
inline constexpr bool along_samples = false;
template <class Axis>
  requires requires { Axis::data; }
inline constexpr bool along_samples<Axis> = Axis::data;
template <class Axis>
inline constexpr bool along_sequences = false;
template <class Axis>
  requires requires { Axis::sequence; }
inline constexpr bool along_sequences<Axis> = Axis::sequence;

template <class Axis, class... All>
inline constexpr int times_among = (int{std::same_as<Axis, All>} + ...);

}  // namespace detail

/// An ordered list of mesh axes, outermost first.
template <MeshAxis... Axes>
struct AxisList {
  static constexpr int count = static_cast<int>(sizeof...(Axes));
  static_assert(count >= 1 && count <= max_axes, "a mesh has one to six axes");
  static_assert(((detail::times_among<Axes, Axes...> == 1) && ...), "an axis is named twice");
  static constexpr Array<const char*, count> names{Axes::name...};
  static constexpr Array<bool, count> data{detail::along_samples<Axes>...};
  static constexpr Array<bool, count> sequence{detail::along_sequences<Axes>...};

  /// The position of an axis, or -1.
  template <class A>
  static constexpr int index = [] {
    int position = -1, i = 0;
    ((std::same_as<A, Axes> ? void(position = i++) : void(i++)), ...);
    return position;
  }();

  template <class A>
  static constexpr bool has = index<A> >= 0;

  /// The names of the axes in `set`, joined by `between`: "dp+tp".
  static std::string text(AxisSet set, const char* between) {
    std::string text;
    for (int axis = 0; axis < count; ++axis) {
      if (set >> axis & 1u) text += (text.empty() ? "" : between) + std::string(names[axis]);
    }
    return text;
  }

  template <int Position>
  using at = std::tuple_element_t<static_cast<std::size_t>(Position), std::tuple<Axes...>>;
};

}  // namespace shardwise
