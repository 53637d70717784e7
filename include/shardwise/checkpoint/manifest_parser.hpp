// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From the JSON of a manifest to what it says, all of it checked: a checkpoint comes from anywhere.

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/checkpoint/manifest.hpp>
#include <shardwise/io/file.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

inline constexpr std::string_view checkpoint_format = "shardwise checkpoint";
inline constexpr int checkpoint_version = 1;

/// Reads the parts of a manifest, with what they must be.
class ManifestParser {
 public:
  explicit ManifestParser(std::string source) : source_(std::move(source)) {}

  CheckpointManifest parse(const Json& json) {
    CheckpointManifest manifest;
    const std::string format = text(member(json, "format", "the manifest"), "format");
    if (format != checkpoint_format)
      fail("the format is \"" + format + "\", expected \"" + std::string(checkpoint_format) + "\"");
    const Index version = number(member(json, "version", "the manifest"), "version", 1);
    if (version > checkpoint_version) {
      fail("the version of the format is " + std::to_string(version) + ", newer than the " +
           std::to_string(checkpoint_version) + " that is known here");
    }
    for (const Json& axis : list(member(json, "mesh", "the manifest"), "mesh")) {
      const auto& pair = list(axis, "an axis of the mesh", 2);
      manifest.mesh.emplace_back(text(pair[0], "an axis' name"),
                                 static_cast<int>(number(pair[1], "an axis' size", 1, 1 << 30)));
    }
    const Json& numbers = member(json, "numbers", "the manifest");
    if (!numbers.is_object()) fail("\"numbers\" is no object");
    for (const auto& [name, value] : numbers.items()) {
      constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      const bool fits =
          value.is_number_unsigned() ? value.get<std::uint64_t>() <= most : value.is_number_integer();
      if (!fits) fail("the number \"" + name + "\" is no integer of 64 bits");
      manifest.numbers[name] = value.get<std::int64_t>();
    }
    if (json.contains("notes")) manifest.notes = json["notes"];
    std::set<std::string> names;
    Index bytes = 0;
    for (const Json& file : list(member(json, "files", "the manifest"), "files")) {
      const auto& pair = list(file, "a file", 2);
      const std::string name = text(pair[0], "a file's name");
      if (!is_plain_name(name)) fail("the file " + excerpt(pair[0]) + " does not lie in the folder");
      if (!names.insert(name).second) fail("the file \"" + excerpt(name) + "\" is there twice");
      manifest.files.push_back(
          {name, number(pair[1], "the size of " + excerpt(name), 0, most_bytes - bytes)});
      bytes += manifest.files.back().bytes;
    }
    unused_.clear();
    for (const CheckpointFile& file : manifest.files) unused_.push_back(file.bytes);
    names.clear();
    for (const Json& tensor : list(member(json, "tensors", "the manifest"), "tensors")) {
      manifest.tensors.push_back(parse_tensor(tensor, manifest.files));
      if (!names.insert(manifest.tensors.back().name).second) {
        fail("tensor \"" + excerpt(manifest.tensors.back().name) + "\" is there twice");
      }
    }
    for (std::size_t i = 0; i < unused_.size(); ++i) {  // what is in no piece has no checksum
      if (unused_[i] == 0) continue;
      fail(std::to_string(unused_[i]) + " bytes of " + excerpt(manifest.files[i].name) +
           " belong to no tensor");
    }
    return manifest;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw std::runtime_error(source_ + ": " + problem);
  }

  const Json& member(const Json& json, const char* name, const std::string& of) const {
    if (!json.is_object()) fail(of + " is no object");
    const auto found = json.find(name);
    if (found == json.end()) fail(of + " has no \"" + name + "\"");
    return *found;
  }
  std::string text(const Json& json, const std::string& what) const {
    if (!json.is_string()) fail(what + " is no text");
    return json.get<std::string>();
  }
  /// From `least` on, and so small that sums of two do not overflow.
  Index number(const Json& json, const std::string& what, Index least = 0, Index most = most_bytes) const {
    if (!json.is_number_integer()) fail(what + " is no integer");
    const bool huge =
        json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    const Index value = huge ? most : static_cast<Index>(json.get<std::int64_t>());
    if (huge || value < least || value > most) {
      fail(what + " is " + excerpt(json) + ", expected " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return value;
  }
  const Json::array_t& list(const Json& json, const std::string& what, std::size_t length = npos) const {
    if (!json.is_array() || (length != npos && json.size() != length)) {
      fail(what + " is no list" + (length == npos ? "" : " of " + std::to_string(length)));
    }
    return json.get_ref<const Json::array_t&>();
  }
  std::vector<Index> numbers(const Json& json, const std::string& what, std::size_t length = npos) const {
    std::vector<Index> values;
    for (const Json& value : list(json, what, length)) values.push_back(number(value, what));
    return values;
  }

  CheckpointTensor parse_tensor(const Json& json, const std::vector<CheckpointFile>& files) {
    CheckpointTensor tensor;
    tensor.name = text(member(json, "name", "a tensor"), "a tensor's name");
    const std::string where = "tensor \"" + excerpt(tensor.name) + "\"";
    const std::string type = text(member(json, "type", where), where + ": the type");
    const auto known = stored_type_named(type);
    if (!known) fail(where + ": the type \"" + excerpt(type) + "\" is unknown");
    tensor.type = *known;
    tensor.shape = numbers(member(json, "shape", where), where + ": the shape");
    if (tensor.shape.size() > static_cast<std::size_t>(max_rank)) {
      fail(where + ": it has " + std::to_string(tensor.shape.size()) + " dimensions, expected " +
           std::to_string(max_rank) + " at most");
    }
    Index elements = 1;
    for (Index extent : tensor.shape) {
      if (extent > 0 && elements > (Index{1} << 56) / extent) fail(where + ": the shape is too large");
      elements *= extent;
    }
    tensor.layout = text(member(json, "layout", where), where + ": the layout");
    tensor.group_rows = number(member(json, "group_rows", where), where + ": group_rows", 1);
    // More rows than there are make the same one group.
    const Index rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    tensor.group_rows = std::min(tensor.group_rows, std::max<Index>(1, rows));
    Index held = 0;
    for (const Json& piece : list(member(json, "pieces", where), where + ": the pieces")) {
      tensor.pieces.push_back(parse_piece(piece, tensor, files, where));
      held += tensor.pieces.back().elements();
      if (held > elements) break;
    }
    if (held != elements) {
      fail(where + ": a piece is missing, or there twice: the pieces have " + std::to_string(held) +
           (held > elements ? " elements or more, expected " : " elements, expected ") +
           std::to_string(elements));
    }
    refuse_overlap(tensor, where);
    return tensor;
  }

  /// As many elements as the tensor has, and none twice: all are there.
  void refuse_overlap(const CheckpointTensor& tensor, const std::string& where) const {
    if (tensor.shape.empty()) return;
    std::vector<const CheckpointPiece*> pieces;
    for (const CheckpointPiece& piece : tensor.pieces) pieces.push_back(&piece);
    std::sort(pieces.begin(), pieces.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    auto end = [](const CheckpointPiece& piece, std::size_t dim) {
      return piece.begin[dim] + piece.size[dim];
    };
    auto overlap = [&](const CheckpointPiece& a, const CheckpointPiece& b) {
      for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        if (end(a, dim) <= b.begin[dim] || end(b, dim) <= a.begin[dim]) return false;
      }
      return true;
    };
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (std::size_t j = i + 1; j < pieces.size() && pieces[j]->begin[0] < end(*pieces[i], 0); ++j) {
        if (overlap(*pieces[i], *pieces[j])) fail(where + ": a piece is missing, and another there twice");
      }
    }
  }

  CheckpointPiece parse_piece(const Json& json, const CheckpointTensor& tensor,
                              const std::vector<CheckpointFile>& files, const std::string& where) {
    const auto& parts = list(json, where + ": a piece", 5);
    CheckpointPiece piece;
    piece.file = static_cast<std::size_t>(number(parts[0], where + ": the file of a piece"));
    if (piece.file >= files.size())
      fail(where + ": a piece is in file " + std::to_string(piece.file) + " of " +
           std::to_string(files.size()));
    piece.offset = number(parts[1], where + ": the offset of a piece");
    piece.begin = numbers(parts[2], where + ": the begin of a piece", tensor.shape.size());
    piece.size = numbers(parts[3], where + ": the size of a piece", tensor.shape.size());
    for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
      if (piece.begin[dim] + piece.size[dim] > tensor.shape[dim])
        fail(where + ": a piece reaches out of the tensor in dimension " + std::to_string(dim));
    }
    const CheckpointFile& file = files[piece.file];
    const Index bytes = piece.elements() * size_of(tensor.type);
    if (bytes == 0) fail(where + ": a piece has no elements");
    if (piece.offset + bytes > file.bytes) {
      fail(where + ": a piece ends at byte " + std::to_string(piece.offset + bytes) + " of " + file.name +
           ", which has " + std::to_string(file.bytes));
    }
    if (bytes > unused_[piece.file]) fail(where + ": its pieces and those before overlap in " + file.name);
    unused_[piece.file] -= bytes;
    const auto checksums = numbers_of_hex(text(parts[4], where + ": the checksums of a piece"));
    const Index groups = groups_of(rows_of(piece), tensor.group_rows).size;
    if (!checksums || static_cast<Index>(checksums->size()) != groups)
      fail(where + ": a piece has other checksums than one for each of " + std::to_string(groups) +
           " groups of rows");
    piece.checksums = *checksums;
    return piece;
  }

  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  static constexpr Index most_bytes = Index{1} << 61;  // of all files
  std::string source_;
  std::vector<Index> unused_;  // bytes of each file that are in no piece yet
};

}  // namespace shardwise::detail
