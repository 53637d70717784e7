// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A number that tells whether bytes have changed: XXH64 with seed 0, by Yann Collet's xxHash. It finds accidents and
/// edits, not forgeries.

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace shardwise {

/// The fingerprint of all bytes added so far, however they were cut into pieces: the same on every machine.
class Fingerprint {
 public:
  /// Of no bytes yet.
  Fingerprint() { XXH64_reset(&state_, 0); }
  /// Adds bytes; or a number as eight bytes, the lowest first.
  Fingerprint& add(std::string_view bytes) {
    XXH64_update(&state_, bytes.data(), bytes.size());
    return *this;
  }
  Fingerprint& add(std::uint64_t number) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * i) & 0xff);
    return add(std::string_view(bytes, 8));
  }

  /// Of all bytes so far; more may be added afterwards.
  std::uint64_t value() const { return XXH64_digest(&state_); }

 private:
  XXH64_state_t state_;
};

namespace detail {
inline std::uint64_t fingerprint_of(std::string_view bytes) { return XXH64(bytes.data(), bytes.size(), 0); }
}  // namespace detail

}  // namespace shardwise
