// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes GGUF files, whole or damaged, independently of the reader.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace gguf {

/// The numbers of types in files.
enum Type : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q8_0 = 8, bf16 = 30 };

/// The bytes of a number, little-endian.
template <class T>
std::string bytes_of(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}
inline std::string text(std::string_view words) {
  return bytes_of(std::uint64_t{words.size()}).append(words);
}

class Writer {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;

  /// A value of any type, from its bytes.
  Writer& value(std::string_view key, std::uint32_t type, const std::string& bytes) {
    values_ += text(key) + bytes_of(type) + bytes;
    ++value_count_;
    return *this;
  }
  Writer& number(std::string_view key, std::uint32_t number) { return value(key, 4, bytes_of(number)); }
  Writer& real(std::string_view key, float number) { return value(key, 6, bytes_of(number)); }
  Writer& words(std::string_view key, std::string_view words) { return value(key, 8, text(words)); }
  Writer& list(std::string_view key, const std::vector<std::string>& words) {
    std::string bytes = bytes_of(std::uint32_t{8}) + bytes_of(std::uint64_t{words.size()});
    for (const std::string& each : words) bytes += text(each);
    return value(key, 9, bytes);
  }
  Writer& list(std::string_view key, const std::vector<std::int32_t>& numbers) {
    std::string bytes = bytes_of(std::uint32_t{5}) + bytes_of(std::uint64_t{numbers.size()});
    for (const std::int32_t each : numbers) bytes += bytes_of(each);
    return value(key, 9, bytes);
  }

  /// `shape` in the order of memory, the last dimension last.
  Writer& tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                 const std::string& data) {
    return tensor_at(name, shape, type, data_.size(), data);
  }
  Writer& tensor_at(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                    std::uint64_t offset, const std::string& data) {
    tensors_ += text(name) + bytes_of(static_cast<std::uint32_t>(shape.size()));
    for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) tensors_ += bytes_of(*extent);
    tensors_ += bytes_of(type) + bytes_of(offset);
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    ++tensor_count_;
    return *this;
  }

  std::string header() const {
    return "GGUF" + bytes_of(version) + bytes_of(tensor_count_) + bytes_of(value_count_) + values_ + tensors_;
  }
  std::string bytes() const {
    std::string all = header();
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data_;
  }

 private:
  std::uint64_t tensor_count_ = 0, value_count_ = 0;
  std::string values_, tensors_, data_;
};

}  // namespace gguf
