// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// manifest.json of a checkpoint, which is written last:
///
///     {"checksum":"…","manifest":{"format":"shardwise checkpoint","version":1,"mesh":[["dp",2],["tp",4]],
///      "numbers":{"step":100},"files":[["rank-00000.bin",1048576], …],
///      "tensors":[{"name":"model.norm.weight","type":"F32","shape":[256],"layout":"Replicate, Replicate",
///                  "group_rows":256,"pieces":[[file,offset,[begin],[size],"checksums"], …]}, …]}}
///
/// The first checksum is that of the text of the manifest's object.

#include <shardwise/base/bodies.hpp>
#include <shardwise/checkpoint/manifest.hpp>
#include <shardwise/io/fingerprint.hpp>

namespace shardwise {

/// The file of a checkpoint that is written last: a folder without it holds none.
inline constexpr std::string_view manifest_name = "manifest.json";

namespace detail {

inline bool nests_deeper(const Json& json, std::size_t depth) {
  if (!json.is_structured()) return false;
  return depth == 0 || std::any_of(json.begin(), json.end(),
                                   [&](const Json& part) { return nests_deeper(part, depth - 1); });
}

inline Json json_of(const CheckpointPiece& piece) {
  return {piece.file, piece.offset, piece.begin, piece.size, hex_of(piece.checksums)};
}
/// Throws `std::invalid_argument` for notes that could not be read again.
inline Json json_of(const CheckpointManifest& manifest) {
  if (nests_deeper(manifest.notes, json_depth - 1)) {
    fail({"the notes of a checkpoint nest deeper than ", json_depth - 1, " lists and objects"});
  }
  Json json;
  json["format"] = checkpoint_format;
  json["version"] = checkpoint_version;
  json["mesh"] = manifest.mesh;
  json["numbers"] = manifest.numbers;
  if (!manifest.notes.is_null()) json["notes"] = manifest.notes;
  json["files"] = Json::array();
  for (const CheckpointFile& file : manifest.files) json["files"].push_back({file.name, file.bytes});
  json["tensors"] = Json::array();
  for (const CheckpointTensor& tensor : manifest.tensors) {
    Json pieces = Json::array();
    for (const CheckpointPiece& piece : tensor.pieces) pieces.push_back(json_of(piece));
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", name_of(tensor.type)},
                               {"shape", tensor.shape},
                               {"layout", tensor.layout},
                               {"group_rows", tensor.group_rows},
                               {"pieces", std::move(pieces)}});
  }
  return json;
}
/// The file's text.
inline std::string framed_text(const Json& manifest) {
  const std::string text = manifest.dump();
  const std::uint64_t checksum = fingerprint_of(text);
  return "{\"checksum\":\"" + hex_of({&checksum, 1}) + "\",\"manifest\":" + text + "}\n";
}
inline std::string manifest_text(const CheckpointManifest& manifest) {
  return framed_text(json_of(manifest));
}

/// The text of a manifest in its file, and the digits of its checksum.
struct FramedManifest {
  std::string_view checksum, text;
};
/// Nothing if the text is of another kind.
inline std::optional<FramedManifest> framed_manifest(std::string_view file) {
  constexpr std::string_view before = "{\"checksum\":\"", between = "\",\"manifest\":", after = "}\n";
  constexpr std::size_t digits = 16, text = before.size() + digits + between.size();
  const bool framed = file.size() >= text + after.size() && file.starts_with(before) &&
                      file.substr(before.size() + digits).starts_with(between) && file.ends_with(after);
  if (!framed) return std::nullopt;
  return FramedManifest{file.substr(before.size(), digits),
                        file.substr(text, file.size() - text - after.size())};
}

/// Throws `DamagedCheckpoint`, naming the source and what is wrong; for another format, a `std::runtime_error`.
inline CheckpointManifest parse_manifest(std::string_view file, const std::string& source) {
  std::uint64_t checksum = 0;
  const Json json = prefix_errors<DamagedCheckpoint>(source, [&] {
    const auto framed = framed_manifest(file);
    if (!framed) throw std::runtime_error("no manifest of a checkpoint, or it is truncated");
    checksum = fingerprint_of(framed->text);
    if (framed->checksum != hex_of({&checksum, 1})) {
      throw std::runtime_error("its checksum is wrong: it was changed, or damaged");
    }
    return json_of(framed->text);
  });
  prefix_errors(source, [&] { check_format(JsonPart(json)); });
  CheckpointManifest manifest =
      prefix_errors<DamagedCheckpoint>(source, [&] { return ManifestParser().parse(JsonPart(json)); });
  manifest.checksum = checksum;
  return manifest;
}

inline bool holds_checkpoint(const Path& folder) {
  return std::filesystem::is_regular_file(folder / manifest_name) &&
         framed_manifest(read_text(folder / manifest_name));
}

/// Which tensor lacks elements if a file has only these `bytes`: ": tensor "x" is not whole".
inline std::string loss_text(const CheckpointManifest& manifest, std::size_t file, Index bytes) {
  for (const CheckpointTensor& tensor : manifest.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.file == file && piece.offset + piece.elements() * size_of(tensor.type) > bytes) {
        return ": tensor \"" + tensor.name + "\" is not whole";
      }
    }
  }
  return "";
}

/// Throws `std::runtime_error` for a folder of checkpoints, naming the last.
inline void check_one_checkpoint(const Path& folder) {
  Path last;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (entry->path() > last && holds_checkpoint(entry->path())) last = entry->path();
  }
  if (last.empty()) return;
  fail<std::runtime_error>(
      {folder.string(), ": not a checkpoint, but a folder of some: name one, such as ", last.string()});
}

}  // namespace detail

/// The manifest of the checkpoint in `folder`. Throws `DamagedCheckpoint`, naming the file and what is wrong, if it is
/// damaged, or a file that it lists is not there in its size: then also which tensor is not whole. Throws
/// `std::runtime_error` if it is not there, is of another format, or a file cannot be read.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE CheckpointManifest read_manifest(const std::filesystem::path& folder) {
  const detail::Path path = folder / manifest_name;
  if (!std::filesystem::exists(path)) detail::check_one_checkpoint(folder);
  CheckpointManifest manifest = detail::parse_manifest(read_text(path), path.string());
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const CheckpointFile& file = manifest.files[i];
    std::string problem;
    Index there = 0;
    try {
      const File opened(folder / file.name, O_RDONLY);
      there = opened.size();
      if (there == file.bytes) continue;
      problem = detail::text({opened.path().string(), ": it has ", there, " bytes, expected ", file.bytes});
    } catch (const std::runtime_error& missing) {
      if (std::filesystem::exists(folder / file.name)) throw;
      problem = missing.what();
    }
    detail::fail<DamagedCheckpoint>({problem, detail::loss_text(manifest, i, there)});
  }
  return manifest;
}

#endif

}  // namespace shardwise
