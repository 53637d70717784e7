// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What messages carry, where that is not what tensors are stored as.
///
/// ```
/// auto y = redistribute<tp, Replicate>(x, communicate_as<Eigen::bfloat16>());          // and its gradient too
/// auto z = redistribute<tp, Replicate>(x, communicate_as<Eigen::bfloat16, float>());   // the gradient in float
/// Linear<Mesh, RowwiseParallel<tp, communicate_as<Eigen::bfloat16>>> down(mesh, 4096, 1024);   // and for its input
/// set_communication(model, communicate_as<Eigen::bfloat16, float>());   // parameters gathered, gradients reduced
/// ```

#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

namespace detail {

/// The types that travel where a value goes, and its gradient back; or as they are stored.
struct Communication {
  bool converts = false;
  DataType forward{}, backward{};

  constexpr DataType forward_of(DataType stored) const { return converts ? forward : stored; }
  constexpr DataType backward_of(DataType stored) const { return converts ? backward : stored; }
  friend constexpr bool operator==(const Communication&, const Communication&) = default;
};

constexpr bool can_convert(DataType type) {
  return type == DataType::f32 || type == DataType::f64 || type == DataType::bf16;
}
template <class T>
concept Convertible = Communicable<T> && can_convert(data_type_of<T>());

}  // namespace detail

/// Elements of `float`, `double` or `Eigen::bfloat16` travel as `Forward`, those of the gradient as `Backward`, and are
/// afterwards what they were. Blocks that go from rank to rank are rounded once, also the part that stays. Of a sum each
/// rank's term is rounded, and the result; terms in bfloat16 are added up in float, in an order that is always the same,
/// and where several hosts each have several ranks, a host's sum is rounded too. All ranks hold the same bits. What needs
/// no communication is not rounded.
template <class Forward, class Backward = Forward>
struct communicate_as {
  static constexpr bool is_possible = detail::Convertible<Forward> && detail::Convertible<Backward>;
  static constexpr detail::Communication types() {
    if constexpr (is_possible) return {true, data_type_of<Forward>(), data_type_of<Backward>()};
    return {};
  }
};

namespace detail {

struct CommunicateAsStored {
  static constexpr bool is_possible = true;
  static constexpr Communication types() { return {}; }
};

/// Says what messages carry.
template <class As>
concept Carries = requires {
  As::is_possible;
  As::types();
};

/// `Y`, a tensor type or a `LayoutError`, if it can be made by messages that carry `As`; else why not.
template <class Y, Carries As>
struct Communicated {
  static constexpr auto type_of() {
    if constexpr (IllFormed<Y>) {
      return TypeIs<Y>{};
    } else if constexpr (!As::is_possible) {
      return Refused<Reason::only_floating_point_numbers_are_communicated_as_another_type,
                     Expected<float, double, Eigen::bfloat16>, Got<As>>{};
    } else if constexpr (As::types().converts && !Y::is_float) {
      return Refused<Reason::only_floating_point_numbers_are_communicated_as_another_type,
                     Expected<float, double, Eigen::bfloat16>, Got<typename Y::Element>>{};
    } else {
      return TypeIs<Y>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

}  // namespace detail

}  // namespace shardwise
