// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A reader that is fed with anything. It may refuse what it gets, with one of the errors that it documents; all
/// else ends the process: other exceptions, and what the sanitizers find.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

struct Target {
  std::string name;
  std::vector<std::string> seeds;                ///< inputs to begin with, which the reader takes
  std::function<void(std::string_view)> read{};  ///< one input
};

/// For what must hold of that which a reader has let pass.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// Runs f(), which may throw `std::runtime_error` with a message that names the source. True if it did not.
template <class F>
bool taken(std::string_view source, F f) {
  try {
    f();
    return true;
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).find(source) != std::string_view::npos,
            "the error names the file");
    return false;
  }
}

/// A file without a device.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create");
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  void write(std::string_view bytes) const {
    require(::ftruncate(descriptor_, 0) == 0, "ftruncate");
    require(::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "pwrite");
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// A folder that is removed in the end. In it may be files of given bytes, and memory under a name.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "shardwise-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  void file(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  void file(const std::string& name, const MemoryFile& memory) const {
    std::filesystem::create_symlink(memory.path(), path_ / name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace fuzz
