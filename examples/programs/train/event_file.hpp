// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Event files of TensorBoard: records of a TFRecord file, each with an Event of TensorFlow's protocol buffers.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tools {

namespace event_file {

/// Little-endian bytes of a number.
template <class T>
std::string bytes_of(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// The masked CRC-32C of a TFRecord.
inline std::string checksum(std::string_view text) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      all[i] = i;
      for (int bit = 0; bit < 8; ++bit) all[i] = all[i] >> 1 ^ (all[i] & 1 ? 0x82f63b78u : 0u);
    }
    return all;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : text) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return bytes_of(std::rotr(~crc, 15) + 0xa282ead8u);
}

inline std::string record(std::string_view event) {
  const std::string length = bytes_of(std::uint64_t{event.size()});
  return length + checksum(length) + std::string(event) + checksum(event);
}

// Fields of a message: a number and the type of its encoding, then the value.
inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
inline std::string whole_field(std::uint64_t field, std::int64_t value) {
  return varint(field << 3) + varint(static_cast<std::uint64_t>(value));
}
inline std::string text_field(std::uint64_t field, std::string_view text) {
  return varint(field << 3 | 2) + varint(text.size()) + std::string(text);
}

/// An Event: `seconds` since 1970 as wall_time, `step`, and other fields.
inline std::string event(double seconds, std::int64_t step, std::string_view fields) {
  return record(varint(1 << 3 | 1) + bytes_of(seconds) + whole_field(2, step) + std::string(fields));
}

}  // namespace event_file

/// The first records of a file: the version of its format, and that all earlier events from `step` on are void.
inline std::string begun_events(double seconds, std::int64_t step) {
  using namespace event_file;
  return event(seconds, 0, text_field(3, "brain.Event:2")) +
         event(seconds, step, text_field(7, whole_field(1, 1)));  // SessionLog::START
}

/// A scalar, which TensorBoard shows under the name `tag`.
inline std::string scalar_event(double seconds, std::int64_t step, std::string_view tag, float value) {
  using namespace event_file;
  return event(seconds, step,
               text_field(5, text_field(1, text_field(1, tag) + varint(2 << 3 | 5) + bytes_of(value))));
}

}  // namespace tools
