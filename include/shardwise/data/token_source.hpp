// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What batches can be loaded from.

#include <concepts>
#include <cstdint>
#include <span>

#include <shardwise/layout/index.hpp>

namespace shardwise {

/// A row of tokens: `TokenCorpus`, or a type of the caller's. `copy` fills `to` with the tokens from `begin` on.
template <class T>
concept TokenSource = requires(const T& tokens, Index begin, std::span<std::int32_t> to) {
  { tokens.size() } -> std::convertible_to<Index>;
  tokens.copy(begin, to);
};

}  // namespace shardwise
