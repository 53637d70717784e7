// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parameters that are whole, on their way from where they were updated.

#include <shardwise/tensor/buckets.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise::detail {

/// All of an optimizer. Whatever waits for one waits for its bucket; who drops them waits for all.
struct Gathers : Counted {
  constexpr explicit Gathers(const ReduceOptions& options)
      : buckets(options.bucket_bytes, options.in_background) {}
  constexpr ~Gathers() {
    try {
      buckets.finish();
    } catch (...) {  // what failed is told where the ranks communicate next
    }
  }
  Buckets buckets;
};

}  // namespace shardwise::detail
