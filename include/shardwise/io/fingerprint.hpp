// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A number that tells whether bytes have changed: XXH64 with seed 0 (Yann Collet, "xxHash fast digest algorithm",
/// specification 0.1.1). It finds accidents and edits, not forgeries.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace shardwise::detail {

/// The fingerprint of all bytes added so far, however they were cut into pieces.
class Fingerprint {
 public:
  constexpr Fingerprint& add(std::string_view bytes) {
    length_ += bytes.size();
    if (filled_ > 0) {
      const std::size_t count = std::min(bytes.size(), stripe - filled_);
      std::copy_n(bytes.data(), count, rest_ + filled_);
      filled_ += count;
      bytes.remove_prefix(count);
      if (filled_ < stripe) return *this;
      consume(rest_, 1);
      filled_ = 0;
    }
    consume(bytes.data(), bytes.size() / stripe);
    bytes.remove_prefix(bytes.size() / stripe * stripe);
    filled_ = bytes.size();
    std::copy_n(bytes.data(), filled_, rest_);
    return *this;
  }
  /// A number as eight bytes, the lowest first.
  constexpr Fingerprint& add(std::uint64_t number) {
    char bytes[8]{};
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * i) & 0xff);
    return add(std::string_view(bytes, 8));
  }

  constexpr std::uint64_t value() const {
    std::uint64_t hash = prime5;
    if (length_ >= stripe) {
      hash =
          std::rotl(lane_[0], 1) + std::rotl(lane_[1], 7) + std::rotl(lane_[2], 12) + std::rotl(lane_[3], 18);
      for (const std::uint64_t lane : lane_) hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
    hash += length_;
    std::size_t at = 0;
    for (; at + 8 <= filled_; at += 8) {
      hash = std::rotl(hash ^ round(0, word(rest_ + at, 8)), 27) * prime1 + prime4;
    }
    for (; at + 4 <= filled_; at += 4) {
      hash = std::rotl(hash ^ word(rest_ + at, 4) * prime1, 23) * prime2 + prime3;
    }
    for (; at < filled_; ++at) hash = std::rotl(hash ^ word(rest_ + at, 1) * prime5, 11) * prime1;
    hash = (hash ^ hash >> 33) * prime2;
    hash = (hash ^ hash >> 29) * prime3;
    return hash ^ hash >> 32;
  }

 private:
  static constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u, prime2 = 0xC2B2AE3D27D4EB4Fu,
                                 prime3 = 0x165667B19E3779F9u, prime4 = 0x85EBCA77C2B2AE63u,
                                 prime5 = 0x27D4EB2F165667C5u;
  static constexpr std::size_t stripe = 32;

  static constexpr std::uint64_t word(const char* bytes, int count) {
    if (!std::is_constant_evaluated() && std::endian::native == std::endian::little && count == 8) {
      std::uint64_t value;
      std::memcpy(&value, bytes, 8);
      return value;
    }
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  static constexpr std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
    return std::rotl(lane + input * prime2, 31) * prime1;
  }
  constexpr void consume(const char* bytes, std::size_t stripes) {
    std::uint64_t a = lane_[0], b = lane_[1], c = lane_[2], d = lane_[3];
    for (; stripes > 0; --stripes, bytes += stripe) {
      a = round(a, word(bytes, 8));
      b = round(b, word(bytes + 8, 8));
      c = round(c, word(bytes + 16, 8));
      d = round(d, word(bytes + 24, 8));
    }
    lane_[0] = a, lane_[1] = b, lane_[2] = c, lane_[3] = d;
  }

  std::uint64_t lane_[4]{prime1 + prime2, prime2, 0, 0 - prime1};
  std::uint64_t length_ = 0;
  char rest_[stripe]{};
  std::size_t filled_ = 0;
};

constexpr std::uint64_t fingerprint_of(std::string_view bytes) { return Fingerprint{}.add(bytes).value(); }

static_assert(fingerprint_of("") == 0xEF46DB3751D8E999u && fingerprint_of("abc") == 0x44BC2CF5AD770999u);

}  // namespace shardwise::detail
