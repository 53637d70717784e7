// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The manifest of a checkpoint (see manifest_file.hpp), and how it is read. Tensors lie in pieces, each a box of
/// indices, row-major, in one of the files; every group of rows of a piece has a checksum (XXH64). Groups of rows begin
/// at multiples of `group_rows` of the whole tensor, whatever piece they are in.

#include <charconv>
#include <set>

#include <shardwise/layout/block.hpp>
#include <shardwise/weights/safetensors_header.hpp>

namespace shardwise {

/// A checkpoint whose manifest, sizes of files or checksums are wrong. A newer format or a failed read is not damage.
struct DamagedCheckpoint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A box of a tensor's indices, in a file.
struct CheckpointPiece {
  std::size_t file = 0;
  Index offset = 0;  ///< bytes
  std::vector<Index> begin, size;
  std::vector<std::uint64_t> checksums;  ///< of its groups of rows

  /// The number of elements in the box.
  Index elements() const { return std::accumulate(size.begin(), size.end(), Index{1}, std::multiplies<>()); }
};

struct CheckpointTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<Index> shape;
  std::string layout;  ///< when it was written: a placement for each axis
  Index group_rows = 1;
  std::vector<CheckpointPiece> pieces;

  Index rows() const { return shape.empty() ? 1 : shape[0]; }
  Index elements() const {
    return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>());
  }
  Index row_elements() const { return elements() / std::max<Index>(1, rows()); }
  Index row_bytes() const { return row_elements() * size_of(type); }
  Index bytes() const { return elements() * size_of(type); }
};

/// A file of a checkpoint, and its size in bytes.
struct CheckpointFile {
  std::string name;
  Index bytes = 0;
};

struct CheckpointManifest {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::vector<std::pair<std::string, int>> mesh;  ///< axes and their sizes
  std::map<std::string, std::int64_t> numbers;
  Json notes;  ///< whatever the program says of the run
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  std::uint64_t checksum = 0;  ///< of the text that it was read from

  /// The bytes of all tensors.
  Index bytes() const {
    Index sum = 0;
    for (const CheckpointTensor& tensor : tensors) sum += tensor.bytes();
    return sum;
  }
};

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
/// Nothing unless it is a list of numbers of 16 digits.
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

inline constexpr std::string_view checkpoint_format = "shardwise checkpoint";
inline constexpr int checkpoint_version = 1;

/// Throws `std::runtime_error` for a format that this version does not read.
inline void check_format(const JsonPart& json) {
  const auto format = json.get<std::string>("format");
  if (format != checkpoint_format) json["format"].expected(std::string(checkpoint_format));
  const Index version = json["version"].integer(1, std::numeric_limits<Index>::max());
  if (version <= checkpoint_version) return;
  json.fail("the version of the format is " + std::to_string(version) + ", newer than the " +
            std::to_string(checkpoint_version) + " that is known here");
}

/// Reads one manifest of the known format, and checks that its tensors are whole: every element of every tensor lies in
/// one piece, and every byte of every file too. Errors are `std::runtime_error`s, which name the place in the JSON, or
/// the tensor.
class ManifestParser {  // NOLINT(bugprone-exception-escape)
 public:
  CheckpointManifest parse(const JsonPart& json) {
    json["mesh"].for_each([&](const JsonPart& axis) {
      axis.must_have(2);
      manifest_.mesh.emplace_back(axis[0].get<std::string>(), static_cast<int>(axis[1].integer(1, 1 << 30)));
    });
    json["numbers"].for_each_member([&](const std::string& name, const JsonPart& number) {
      using Limits = std::numeric_limits<std::int64_t>;
      manifest_.numbers[name] = number.integer(Limits::min(), Limits::max());
    });
    manifest_.notes = json["notes"].json();
    std::set<std::string> names;
    Index bytes = 0;
    json["files"].for_each([&](const JsonPart& file) {
      file.must_have(2);
      const auto name = file[0].get<std::string>();
      if (!is_plain_name(name))
        file.fail("the file " + excerpt(file[0].json()) + " does not lie in the folder");
      if (!names.insert(name).second) json.fail("the file \"" + excerpt(name) + "\" is there twice");
      manifest_.files.push_back({name, file[1].integer(0, most_bytes - bytes)});
      bytes += manifest_.files.back().bytes;
    });
    names.clear();
    json["tensors"].for_each([&](const JsonPart& part) {
      CheckpointTensor tensor = parse_tensor(part);
      if (!names.insert(tensor.name).second)
        json.fail("tensor \"" + excerpt(tensor.name) + "\" is there twice");
      manifest_.tensors.push_back(std::move(tensor));
    });
    check_files();  // bytes that belong to no piece would have no checksum
    return std::move(manifest_);
  }

 private:
  /// For what is wrong with a tensor as a whole, whose name tells more than its place.
  [[noreturn]] static void fail(const CheckpointTensor& tensor, std::initializer_list<TextPart> problem) {
    detail::fail<std::runtime_error>({"tensor \"", excerpt(tensor.name), "\": ", text(problem)});
  }

  void check_files() const {
    std::vector<std::vector<FilePart>> parts(manifest_.files.size());
    for (const CheckpointTensor& tensor : manifest_.tensors) {
      for (const CheckpointPiece& piece : tensor.pieces)
        parts[piece.file].push_back({piece.offset, piece.elements() * size_of(tensor.type), tensor.name});
    }
    for (std::size_t i = 0; i < parts.size(); ++i)
      check_parts(parts[i], manifest_.files[i].name, manifest_.files[i].bytes);
  }

  CheckpointTensor parse_tensor(const JsonPart& json) {
    CheckpointTensor tensor;
    tensor.name = json.get<std::string>("name");
    const auto type = json.get<std::string>("type");
    const auto known = stored_type_named(type);
    if (!known) fail(tensor, {"the type \"", excerpt(type), "\" is unknown"});
    tensor.type = *known;
    tensor.shape = json["shape"].integers(most_bytes);
    if (tensor.shape.size() > static_cast<std::size_t>(max_rank)) {
      fail(tensor, {"it has ", tensor.shape.size(), " dimensions, expected ", max_rank, " at most"});
    }
    if (stored_bytes(size_of(tensor.type), tensor.shape).value_or(most_bytes + 1) > most_bytes)
      fail(tensor, {"the shape is too large"});
    const Index elements = tensor.elements();
    tensor.layout = json.get<std::string>("layout");
    // More rows than there are make the same one group.
    tensor.group_rows =
        std::min(json["group_rows"].integer(1, most_bytes), std::max<Index>(1, tensor.rows()));
    Index held = 0;
    json["pieces"].for_each([&](const JsonPart& piece) {
      if (held > elements) return;
      tensor.pieces.push_back(parse_piece(piece, tensor));
      held += tensor.pieces.back().elements();
    });
    if (held != elements) {
      fail(tensor, {"a piece is missing, or there twice: the pieces have ", held,
                    held > elements ? " elements or more, expected " : " elements, expected ", elements});
    }
    if (!is_covered(tensor)) fail(tensor, {"a piece is missing, and another there twice"});
    return tensor;
  }

  /// Whether every element is in just one piece. Indices of each dimension have random weights, an element their
  /// product; so the pieces weigh together what the tensor does, and other pieces by chance only (Schwartz, "Fast
  /// probabilistic algorithms for verification of polynomial identities", 1980): less often than once in 2^54.
  bool is_covered(const CheckpointTensor& tensor) const {
    for (const std::uint64_t secret : secrets_) {
      auto weight_below = [&](std::size_t dim, Index end) -> std::uint64_t {  // SplitMix64
        std::uint64_t hash =
            secret + (static_cast<std::uint64_t>(end) * max_rank + dim) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
        hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
        return end == 0 ? 0 : (hash ^ (hash >> 31)) % prime;
      };
      auto weight = [&](const std::vector<Index>& begin, const std::vector<Index>& size) {
        std::uint64_t product = 1;
        for (std::size_t dim = 0; dim < size.size(); ++dim) {
          const std::uint64_t end = weight_below(dim, begin[dim] + size[dim]);
          product = product * (end + prime - weight_below(dim, begin[dim])) % prime;
        }
        return product;
      };
      std::uint64_t sum = 0;
      for (const CheckpointPiece& piece : tensor.pieces)
        sum = (sum + weight(piece.begin, piece.size)) % prime;
      const bool empty = tensor.pieces.empty();  // has no elements
      if (!empty && sum != weight(std::vector<Index>(tensor.shape.size()), tensor.shape)) return false;
    }
    return true;
  }

  CheckpointPiece parse_piece(const JsonPart& json, const CheckpointTensor& tensor) {
    json.must_have(5);
    CheckpointPiece piece;
    piece.file = static_cast<std::size_t>(json[0].integer(0, std::ssize(manifest_.files) - 1));
    piece.offset = json[1].integer(0, most_bytes);
    json[2].must_have(tensor.shape.size());
    json[3].must_have(tensor.shape.size());
    piece.begin = json[2].integers(most_bytes);
    piece.size = json[3].integers(most_bytes);
    for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
      if (piece.begin[dim] + piece.size[dim] > tensor.shape[dim])
        fail(tensor, {"a piece reaches out of the tensor in dimension ", dim});
    }
    if (piece.elements() == 0) fail(tensor, {"a piece has no elements"});
    const auto checksums = numbers_of_hex(json[4].get<std::string>());
    const Index groups = groups_of(rows_of(piece), tensor.group_rows).size;
    if (!checksums || std::ssize(*checksums) != groups)
      fail(tensor, {"a piece has other checksums than one for each of ", groups, " groups of rows"});
    piece.checksums = *checksums;
    return piece;
  }

  static constexpr Index most_bytes = Index{1} << 61;  // of all files: sums of two do not overflow
  static constexpr std::uint64_t prime = 0x7fffffff;
  const std::array<std::uint64_t, 2> secrets_{std::random_device{}(), std::random_device{}()};
  CheckpointManifest manifest_;
};

}  // namespace detail
}  // namespace shardwise
