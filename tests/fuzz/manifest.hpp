// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The manifest of a checkpoint, and the pieces that it names.

#include <memory>

#include <shardwise/checkpoint/reader.hpp>

#include "target.hpp"

namespace fuzz {

inline std::string framed(std::string_view text) {
  const std::uint64_t checksum = shardwise::detail::fingerprint_of(text);
  return "{\"checksum\":\"" + shardwise::detail::hex_of({&checksum, 1}) +
         "\",\"manifest\":" + std::string(text) + "}\n";
}

/// Of a tensor of 4 x 2 floats and others of 5, 1 and no bytes, all zeros, in two files of 19 and 19 bytes.
inline std::string manifest_seed() {
  const auto sums = [](std::size_t groups, std::size_t bytes) {
    return std::vector<std::uint64_t>(groups, shardwise::detail::fingerprint_of(std::string(bytes, '\0')));
  };
  shardwise::CheckpointManifest manifest;
  manifest.mesh = {{"dp", 1}, {"tp", 2}};
  manifest.numbers = {{"step", 100}};
  manifest.notes = {{"run", {1, "a"}}};
  manifest.files = {{"rank-00000.bin", 19}, {"rank-00001.bin", 19}};
  manifest.tensors = {
      {.name = "w",
       .type = shardwise::StoredType::f32,
       .shape = {4, 2},
       .layout = "Replicate, Shard<1>",
       .group_rows = 2,
       .pieces = {{.file = 0, .offset = 0, .begin = {0, 0}, .size = {4, 1}, .checksums = sums(2, 8)},
                  {.file = 1, .offset = 0, .begin = {0, 1}, .size = {4, 1}, .checksums = sums(2, 8)}}},
      {.name = "b",
       .type = shardwise::StoredType::u8,
       .shape = {5},
       .layout = "Replicate, Shard<0>",
       .group_rows = 100,
       .pieces = {{.file = 0, .offset = 16, .begin = {0}, .size = {3}, .checksums = sums(1, 3)},
                  {.file = 1, .offset = 16, .begin = {3}, .size = {2}, .checksums = sums(1, 2)}}},
      {.name = "one",
       .type = shardwise::StoredType::u8,
       .shape = {},
       .layout = "Replicate",
       .group_rows = 1,
       .pieces = {{.file = 1, .offset = 18, .begin = {}, .size = {}, .checksums = sums(1, 1)}}},
      {.name = "none",
       .type = shardwise::StoredType::f32,
       .shape = {0, 2},
       .layout = "Replicate",
       .group_rows = 1}};
  const std::string text = shardwise::detail::manifest_text(manifest);
  const std::size_t begin = text.find("\"manifest\":") + 11;
  return text.substr(begin, text.size() - 2 - begin);
}

/// Reads all tensors of a checkpoint, whole.
inline void read_tensors(const std::filesystem::path& folder, const shardwise::CheckpointManifest& manifest) {
  using namespace shardwise;
  detail::CheckpointReader reader(folder, manifest);
  for (const CheckpointTensor& tensor : manifest.tensors) {
    require(tensor.bytes() <= manifest.files[0].bytes + manifest.files[1].bytes, "tensors lie in the files");
    std::vector<char> elements(static_cast<std::size_t>(tensor.bytes()));
    taken(folder.string(), [&] {
      reader.read(tensor, {0, tensor.rows()}, elements.data());
      require(std::count(elements.begin(), elements.end(), 0) == tensor.bytes(),
              "what is read is what is there");
    });
  }
}

/// An input is a manifest whose checksum is put right; it is read as it is, too.
inline Target manifest() {
  struct Place {
    Folder folder;
    MemoryFile memory;
  };
  const auto place = std::make_shared<Place>();
  place->folder.file("rank-00000.bin", std::string(19, '\0'));
  place->folder.file("rank-00001.bin", std::string(19, '\0'));
  place->folder.file("manifest.json", place->memory);
  return {"manifest",
          {manifest_seed(), framed(manifest_seed()),
           shardwise::detail::json_of(shardwise::CheckpointManifest{}).dump()},
          [place](std::string_view input) {
            using namespace shardwise;
            taken("m.json", [&] { detail::parse_manifest(input, "m.json"); });
            const std::string text = framed(input);
            taken("m.json", [&] {
              const std::string once = detail::manifest_text(detail::parse_manifest(text, "m.json"));
              require(detail::manifest_text(detail::parse_manifest(once, "m.json")) == once,
                      "a manifest comes back as it was");
            });
            place->memory.write(text);
            taken(place->folder.path().string(), [&] {
              const CheckpointManifest found = read_manifest(place->folder.path());
              if (found.files.size() == 2) read_tensors(place->folder.path(), found);
            });
          }};
}

}  // namespace fuzz
