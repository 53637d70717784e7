// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a checkpoint says of itself. Tensors lie in pieces, each a box of indices, row-major, in one of the files; every
/// group of rows of a piece has a checksum (XXH64). Groups of rows begin at multiples of `group_rows` of the whole
/// tensor, whatever piece they are in.

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shardwise/io/json.hpp>
#include <shardwise/layout/block.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise {

// Implementation details: not part of the interface.
namespace detail {

constexpr Index product_of(std::span<const Index> extents) {
  Index product = 1;
  for (Index extent : extents) product *= extent;
  return product;
}

}  // namespace detail

/// A box of a tensor's indices, in a file.
struct CheckpointPiece {
  std::size_t file = 0;
  Index offset = 0;  ///< bytes
  std::vector<Index> begin, size;
  std::vector<std::uint64_t> checksums;  ///< of its groups of rows

  Index elements() const { return detail::product_of(size); }
};

struct CheckpointTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<Index> shape;
  std::string layout;  ///< when it was written: a placement for each axis
  Index group_rows = 1;
  std::vector<CheckpointPiece> pieces;

  Index rows() const { return shape.empty() ? 1 : shape[0]; }
  Index elements() const { return detail::product_of(shape); }
  Index row_elements() const { return shape.empty() ? 1 : detail::product_of(std::span(shape).subspan(1)); }
  Index bytes() const { return elements() * size_of(type); }
};

struct CheckpointFile {
  std::string name;
  Index bytes = 0;
};

struct CheckpointManifest {
  std::vector<std::pair<std::string, int>> mesh;  ///< axes and their sizes
  std::map<std::string, std::int64_t> numbers;
  Json notes;  ///< whatever the program says of the run
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  std::uint64_t checksum = 0;  ///< of the text that it was read from

  Index bytes() const {
    Index sum = 0;
    for (const CheckpointTensor& tensor : tensors) sum += tensor.bytes();
    return sum;
  }
};

// Implementation details: not part of the interface.
namespace detail {

inline std::string hex_of(std::span<const std::uint64_t> numbers) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(16 * numbers.size());
  for (const std::uint64_t number : numbers) {
    for (int shift = 60; shift >= 0; shift -= 4) text += digits[number >> shift & 15];
  }
  return text;
}
/// Nothing if it is no list of numbers of 16 digits.
inline std::optional<std::vector<std::uint64_t>> numbers_of_hex(std::string_view text) {
  std::vector<std::uint64_t> numbers(text.size() / 16);
  if (text.size() % 16 != 0) return std::nullopt;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const char* first = text.data() + 16 * i;
    const auto [end, error] = std::from_chars(first, first + 16, numbers[i], 16);
    if (error != std::errc() || end != first + 16) return std::nullopt;
  }
  return numbers;
}

/// The groups of `group_rows` that rows [begin, begin + size) touch.
constexpr Range groups_of(Range rows, Index group_rows) {
  if (rows.size == 0) return {};
  const Index first = rows.begin / group_rows;
  return {first, (rows.end() - 1) / group_rows - first + 1};
}

/// The rows of a piece: those of its first dimension; a scalar has one.
inline Range rows_of(const CheckpointPiece& piece) {
  return piece.begin.empty() ? Range{0, 1} : Range{piece.begin[0], piece.size[0]};
}

}  // namespace detail
}  // namespace shardwise
