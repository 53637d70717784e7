// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which extents and layouts no tensor can have, and which uses of its block are compile errors.

#include <Eigen/Core>

#include <shardwise/base/text.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/layout/other_names.hpp>
#include <shardwise/tensor/buffer.hpp>

namespace shardwise::detail {

/// Throws because a tensor cannot have these extents.
[[noreturn, gnu::cold]] void fail_extents(std::span<const Index> shape, const char* of);

template <int Rank>
constexpr void check_extents(const Shape<Rank>& shape, const char* of = "Tensor") {
  double count = 1;
  for (int dim = 0; dim < Rank; ++dim) {
    const Index extent = shape.values[dim];
    if (extent < 0) fail_extents({shape.values, Rank}, of);
    if (extent > 0) count *= static_cast<double>(extent);  // without 0: other products are computed
  }
  if (count > 0x1p58) fail_extents({shape.values, Rank}, of);
}

/// `void` if a tensor can have this layout on the mesh, else a `LayoutError`.
template <int Rank, class MeshType, class... Placements>
struct LayoutProblem {
  static constexpr auto problem() {
    constexpr Layout layout = layout_of<Placements...>;
    if constexpr (sizeof...(Placements) == 0 && MeshType::axes > 0) {
      return TypeIs<
          LayoutError<Reason::one_placement_per_mesh_axis_is_needed, Expected<typename MeshType::AxesOf>,
                      Cure<Hint::write_placements_in_angle_brackets>>>{};
    } else if constexpr (sizeof...(Placements) != MeshType::axes) {
      return Refused<Reason::one_placement_per_mesh_axis_is_needed, Expected<typename MeshType::AxesOf>,
                     Got<Placements...>>{};
    } else if constexpr (axis_without_dimension(layout, Rank) >= 0) {
      constexpr int axis = axis_without_dimension(layout, Rank);
      return Refused<Reason::tensor_has_no_such_dimension, On<typename MeshType::AxesOf::template at<axis>>,
                     Expected<placement_type<Rank - 1>>, Got<placement_type<layout[axis].code>>>{};
    } else if constexpr (!well_formed(layout, Rank)) {
      return Refused<Reason::pending_reductions_of_different_kinds, Got<Placements...>>{};
    } else {
      return TypeIs<void>{};
    }
  }
  using type = typename decltype(problem())::type;
};
template <int Rank, class MeshType, class... Placements>
  requires(Communicable<Placements> || ...)
struct LayoutProblem<Rank, MeshType, Placements...>
    : TypeIs<WrittenOtherwise<Hint::remove_the_element_type>> {};

/// The error for a tensor whose value is still pending, or `void`.
template <class X>
using term_problem = std::conditional_t<has_partial(X::layout),
                                        layout_error<Reason::value_is_pending_on_every_rank, Got<X>>, void>;

/// A block as an Eigen map. Read-only, because handles share it.
template <class Matrix>
struct ReadOnlyBlock : Eigen::Map<const Matrix> {
  using Eigen::Map<const Matrix>::Map;
  using Why = WrittenOtherwise<Hint::it_is_read_only_so_make_another_with_from_local>;
  Why operator=(const auto&) const;  // NOLINT(misc-unconventional-assign-operator)
  Why operator+=(const auto&) const;
  Why operator-=(const auto&) const;
  Why operator*=(const auto&) const;
  Why operator/=(const auto&) const;
  static Why setZero(const auto&...);      // NOLINT(readability-identifier-naming)
  static Why setConstant(const auto&...);  // NOLINT(readability-identifier-naming)
  static Why fill(const auto&);
  static Why setOnes(const auto&...);    // NOLINT(readability-identifier-naming)
  static Why setRandom(const auto&...);  // NOLINT(readability-identifier-naming)
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void fail_extents(std::span<const Index> shape, const char* of) {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](Index extent) { return extent < 0; });
  if (negative) fail({of, ": an extent is negative in ", shape});
  fail({of, ": ", shape, " are more than 2^58 elements"});
}

#endif

}  // namespace shardwise::detail
