// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A folder of files that appears when all of them are on the device, or not at all. One process writes it.

#include <cstdio>
#include <optional>
#include <vector>

#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/io/file.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// Whether a folder holds a model or a checkpoint, and may be replaced as such.
inline bool has_model_or_checkpoint(const Path& folder) {
  return std::filesystem::is_regular_file(folder / "model.safetensors") ||
         std::filesystem::is_regular_file(folder / "model.safetensors.index.json") ||
         holds_checkpoint(folder);
}

/// Creates an empty folder under a temporary name beside the target. `commit` gives it the target's name; else the
/// destructor removes it.
class NewFolder {
 public:
  /// `source` is what the new folder is made from. Throws `std::runtime_error` if the target is there and not an empty
  /// folder; with `replace`, if it is no folder with a model or a checkpoint, or if the source lies in it.
  NewFolder(const Path& target, const Path& source, bool replace) : target_(whole_path(target)) {
    namespace fs = std::filesystem;
    const std::string name = target.string();
    if (fs::exists(target_)) {
      if (!fs::is_directory(target_)) throw std::runtime_error(name + ": there already, and no folder");
      replaces_ = !fs::is_empty(target_);
    }
    if (replaces_ && !replace) throw std::runtime_error(name + ": there already, and not empty");
    if (replaces_ && contains(target_, whole_path(source))) {
      throw std::runtime_error(name + ": cannot be replaced, for " + source.string() + " lies in it");
    }
    if (replaces_ && !has_model_or_checkpoint(target_)) {
      throw std::runtime_error(name + ": is not replaced, for it holds neither a model nor a checkpoint");
    }
    make_parents();
    path_ = temporary_path(target_, temporary_token());
    std::error_code failure;
    if (!fs::create_directory(path_, failure)) {
      remove_all();
      throw_file_error(path_, "cannot be created", failure ? failure.value() : EEXIST);
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() { remove_all(); }

  /// Where its files are to be written until `commit`.
  const Path& path() const noexcept { return path_; }

  /// A folder that is there changes places with the new one in one step, and is removed. The caller has flushed the
  /// files.
  void commit() {
    sync_folder(path_);
    if (replaces_) {
      exchange_folders(path_, target_);
      std::filesystem::remove_all(path_);
    } else if (::rename(path_.c_str(), target_.c_str()) != 0) {
      throw_file_error(target_, "cannot be renamed from " + path_.filename().string());
    }
    path_.clear();
    parents_.clear();
    sync_folder(folder_of(target_));
  }

 private:
  /// Absolute, without symbolic links, and with a name at its end.
  static Path whole_path(const Path& path) {
    return without_slash(std::filesystem::weakly_canonical(std::filesystem::absolute(path)));
  }
  static bool contains(const Path& outer, const Path& inner) {
    auto part = inner.begin();
    for (const Path& each : outer) {
      if (part == inner.end() || *part++ != each) return false;
    }
    return true;
  }

  void make_parents() {
    std::vector<Path> missing;
    for (Path parent = target_.parent_path(); !std::filesystem::exists(parent);
         parent = parent.parent_path()) {
      missing.push_back(parent);
    }
    for (; !missing.empty(); missing.pop_back()) {
      std::error_code failure;
      const bool made = std::filesystem::create_directory(missing.back(), failure);
      if (failure) {
        remove_all();
        throw_file_error(missing.back(), "cannot be created", failure.value());
      }
      if (made) parents_.push_back(missing.back());
    }
  }

  /// Of the folders above, those that were made for this one, and hold nothing else.
  void remove_all() noexcept {
    std::error_code ignored;  // this is after an error, which is told
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    for (; !parents_.empty(); parents_.pop_back()) std::filesystem::remove(parents_.back(), ignored);
  }

  Path target_, path_;
  std::vector<Path> parents_;
  bool replaces_ = false;
};

/// A new file, whose place on the device is taken at once: a full disk is an error before anything is copied. Where the
/// file system cannot do that, it is one later.
inline File new_file(const Path& path, Index bytes) {
  File file(path, O_RDWR | O_CREAT | O_EXCL);
  int failure = 0;
  do {
    failure = bytes > 0 && ::fallocate(file.descriptor(), 0, 0, bytes) != 0 ? errno : 0;
  } while (failure == EINTR);
  if (failure != 0 && failure != EOPNOTSUPP && failure != ENOSYS) {
    throw_file_error(path, "cannot have " + std::to_string(bytes) + " bytes", failure);
  }
  return file;
}

/// A small new file, on the device.
inline void write_new_file(const Path& path, std::string_view text) {
  const File file = new_file(path, 0);
  file.write(text.data(), static_cast<Index>(text.size()), 0);
  file.sync();
}

}  // namespace shardwise::detail
