// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A tensor on its way, whatever brings it.

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::detail {

class UnderWay : public Pooled<UnderWay>, public Counted {
 public:
  /// Waits for it, and returns it.
  constexpr virtual AnyTensor finish() = 0;

 protected:
  constexpr ~UnderWay() = default;
};

}  // namespace shardwise::detail
