// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// safetensors files, and the index of several.

#include <algorithm>
#include <bit>
#include <memory>

#include <shardwise/weights/weights.hpp>

#include "target.hpp"

namespace fuzz {

inline std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{header.size()});
  return std::string(length.begin(), length.end()).append(header).append(data_bytes, '\1');
}

/// Reads a tensor whole, as a type in memory.
template <class T>
void read_whole(const shardwise::Weights& weights, const shardwise::StoredTensor& tensor) {
  const shardwise::Index count = tensor.bytes / size_of(tensor.type);
  std::vector<T> elements(static_cast<std::size_t>(count));
  taken(weights.path().string(), [&] {
    weights.read_block(tensor.name, shardwise::View<T, 1>{elements.data(), {count}, {0}, {count}});
  });
}

/// An input is a file; or the header of one with 64 bytes of data.
inline Target safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]},)"
      R"("b":{"dtype":"BF16","shape":[3,0],"data_offsets":[32,32]},"c":{"dtype":"I64","shape":[2],"data_offsets":)"
      R"([32,48]},"d":{"dtype":"U8","shape":[16],"data_offsets":[48,64]}})";
  const std::string halves = R"({"x":{"dtype":"F16","shape":[32],"data_offsets":[0,64]}})";
  const std::string wide = R"({"x":{"dtype":"F64","shape":[1,8,1],"data_offsets":[0,64]}})";
  const std::string least =
      R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[0],)"
      R"("data_offsets":[4,4]},"z":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  const auto read = [memory = std::make_shared<MemoryFile>()](std::string_view bytes) {
    memory->write(bytes);
    const std::string path = memory->path().string();
    taken(path, [&] {
      const shardwise::Weights file(path);
      for (const shardwise::StoredTensor& tensor : file.files()[0].tensors()) {
        require(
            tensor.offset >= 8 && tensor.offset + tensor.bytes <= static_cast<shardwise::Index>(bytes.size()),
            "a tensor lies in the file");
        read_whole<float>(file, tensor);
        read_whole<Eigen::bfloat16>(file, tensor);
        read_whole<std::int32_t>(file, tensor);
      }
    });
  };
  return {"safetensors",
          {header, halves, wide, "{}", safetensors_bytes(least, 8), safetensors_bytes(header, 64),
           safetensors_bytes("{}", 0)},
          [read](std::string_view input) {
            read(input);
            read(safetensors_bytes(input, 64));
          }};
}

/// An input is the text of model.safetensors.index.json, beside two files and things that are no files.
inline Target index() {
  struct Place {
    Folder folder;
    MemoryFile memory;
  };
  const auto place = std::make_shared<Place>();
  const auto one = [](const std::string& name) {
    return safetensors_bytes("{\"" + name + R"(":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16);
  };
  place->folder.file("a.safetensors", one("a"));
  place->folder.file("b.safetensors", one("b"));
  place->folder.file("model.safetensors.index.json", place->memory);
  std::filesystem::create_directory(place->folder.path() / "folder");
  std::filesystem::create_symlink("loop", place->folder.path() / "loop");
  require(::mkfifo((place->folder.path() / "pipe").c_str(), 0600) == 0, "mkfifo");
  return {"index",
          {R"({"metadata":{"total_size":32},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})",
           R"({"weight_map":{"a":"a.safetensors"}})", R"({"weight_map":{"a":"pipe"}})",
           R"({"weight_map":{}})", R"({"weight_map":{"a":"folder","b":"loop"}})"},
          [place](std::string_view input) {
            const std::filesystem::path& path = place->folder.path();
            place->memory.write(input);
            taken(path.string(), [&] {
              const shardwise::Weights weights(path);
              for (const auto& file : weights.files()) {
                require(file.path().parent_path() == path &&
                            file.path().filename().string().ends_with(".safetensors"),
                        "a file that an index names lies beside it");
                for (const auto& tensor : file.tensors()) read_whole<float>(weights, tensor);
              }
            });
          }};
}

}  // namespace fuzz
