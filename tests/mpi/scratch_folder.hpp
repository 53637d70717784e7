// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A folder that all ranks share while a test runs, and files of given bytes.

#include <unistd.h>
#include <shardwise/comm/communicator.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

/// Made and removed together.
class ScratchFolder {
 public:
  ScratchFolder() {
    const shardwise::Communicator world = shardwise::world();
    const std::int32_t mine = world.rank() == 0 ? static_cast<std::int32_t>(::getpid()) : 0;
    std::int32_t process = 0;
    world.all_reduce(&mine, &process, 1, shardwise::DataType::i32, shardwise::ReduceOp::max);
    path_ = std::filesystem::temp_directory_path() / ("shardwise-test-" + std::to_string(process));
    if (world.rank() == 0) {
      std::filesystem::remove_all(path_);
      std::filesystem::create_directories(path_);
    }
    world.barrier();
  }
  ~ScratchFolder() {
    shardwise::world().barrier();
    if (shardwise::world().rank() == 0) std::filesystem::remove_all(path_);
    shardwise::world().barrier();
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  /// Rank 0 writes a file; on return it is there for all.
  std::filesystem::path file(std::string_view name, std::string_view bytes) const {
    if (shardwise::world().rank() == 0) {
      std::ofstream out(path_ / name, std::ios::binary);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    shardwise::world().barrier();
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A safetensors file of a header and data: the length is put before them, byte by byte.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return bytes.append(header).append(data);
}

/// The message of the `std::runtime_error` that f throws.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
