// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Element types for messages that differ from the stored type.
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

/// The element types of messages, forward for values and backward for gradients; by default as stored.
struct Communication {
  bool converts = false;
  DataType forward{}, backward{};

  constexpr DataType forward_of(DataType stored) const { return converts ? forward : stored; }
  constexpr DataType backward_of(DataType stored) const { return converts ? backward : stored; }
  friend constexpr bool operator==(const Communication&, const Communication&) = default;
};

template <class T>
concept Convertible = Communicable<T> && is_floating(data_type_of<T>());

}  // namespace detail

/// Elements of `float`, `double` or `Eigen::bfloat16` are sent as `Forward`, those of gradients as `Backward`, and
/// converted back on arrival. Moved blocks are rounded once, including the part that stays. In a sum, each rank's
/// term is rounded, and so is the result; terms in bfloat16 are added in float, in a fixed order, and if several
/// hosts have several ranks each, the sum of each host is rounded too. All ranks get the same bits. Without
/// communication nothing is rounded.
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

/// Chooses the element types of messages.
template <class As>
concept Carries = requires {
  As::is_possible;
  As::types();
};

/// `Y`, a tensor type or a `LayoutError`, if its messages can be sent as `As`; else an error.
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
