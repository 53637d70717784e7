// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How gradients are added whose element type is a value.

#include <shardwise/kernel/arithmetic.hpp>

namespace shardwise::detail {

/// How elements of one type are added; and, if they are narrower than what is computed with, how many are: in that type.
struct ElementSum {
  Index bytes;  ///< of an element
  void (*add)(Index count, const void* a, const void* b, void* sum);
  Index wide_bytes;                                                  ///< of an element that is computed with
  void (*add_wide)(Index count, const void* more, void* wide_sum);   ///< null if that is the same type
  void (*narrow)(Index count, const void* wide_sum, void* rounded);  ///< null if that is the same type
};
template <class T>
constexpr ElementSum sum_of_elements() {
  using C = kernel::compute_t<T>;
  ElementSum functions{sizeof(T),
                       [](Index count, const void* a, const void* b, void* sum) {
                         kernel::add(count, static_cast<const T*>(a), static_cast<const T*>(b),
                                     static_cast<T*>(sum));
                       },
                       sizeof(C), nullptr, nullptr};
  if constexpr (!std::is_same_v<T, C>) {
    functions.add_wide = [](Index count, const void* more, void* wide_sum) {
      kernel::accumulate_wide(count, static_cast<const T*>(more), static_cast<C*>(wide_sum));
    };
    functions.narrow = [](Index count, const void* wide_sum, void* rounded) {
      kernel::narrow(count, static_cast<const C*>(wide_sum), static_cast<T*>(rounded));
    };
  }
  return functions;
}
template <class T>
inline constexpr ElementSum element_sum = sum_of_elements<T>();

}  // namespace shardwise::detail
