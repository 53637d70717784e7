// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A folder of files that appears when all of them are on the device, or not at all. One process makes it.

#include <shardwise/io/file.hpp>

namespace shardwise::detail {

/// An empty folder under a temporary name beside the target. `commit` gives it the target's name, and mode and owner of
/// what it replaces.
class NewFolder : public Temporary {
 public:
  /// Throws `std::runtime_error` if the target is there and is not a folder. If it is one that is not empty, calls
  /// `may_replace(target)`, which throws if that must stay.
  template <class MayReplace>
  NewFolder(const Path& target, std::uint32_t token, MayReplace may_replace) : NewFolder(whole_path(target)) {
    namespace fs = std::filesystem;
    if (replaced_) {
      if (!fs::is_directory(target_)) {
        fail<std::runtime_error>({target.string(), ": there already, and no folder"});
      }
      replaces_ = !fs::is_empty(target_);
    }
    if (replaces_) may_replace(target);
    std::vector<Path> missing;
    for (Path parent = target_.parent_path(); !fs::exists(parent); parent = parent.parent_path()) {
      missing.push_back(parent);
    }
    for (; !missing.empty(); missing.pop_back()) {
      if (make(missing.back(), 0777)) parents_.push_back(missing.back());
    }
    const Path path = temporary_path(target_, token);
    if (!make(path, replaced_ ? 0700 : 0777)) throw_file_error(path, "cannot be created");
    open(path, O_RDONLY | O_DIRECTORY);
  }
  /// The folders above that were made for this one, and hold nothing else, go too.
  ~NewFolder() {
    discard();
    std::error_code ignored;  // an error before this one is what the caller reports
    for (; !parents_.empty(); parents_.pop_back()) std::filesystem::remove(parents_.back(), ignored);
  }

  /// A folder that is there changes places with the new one in one step, and is removed. The caller has flushed the
  /// files.
  void commit() {
    if (replaced_) keep_all_access(*replaced_);
    sync_folder(path());
    rename(replaces_ ? RENAME_EXCHANGE : 0);
    parents_.clear();
    sync_folder(folder_of(target_));
  }

 private:
  /// From here on the destructor is called, also if the other constructor throws.
  explicit NewFolder(Path target) : Temporary(std::move(target)) {}

  /// Returns whether it was not there before.
  static bool make(const Path& folder, ::mode_t mode) {
    const bool made = ::mkdir(folder.c_str(), mode) == 0;
    if (!made && errno != EEXIST) throw_file_error(folder, "cannot be created");
    return made;
  }
  /// A file of a name that is new may be used as far as all old files may.
  void keep_all_access(const struct ::stat& old_folder) const {
    std::optional<struct ::stat> all;
    for (const auto& old : std::filesystem::directory_iterator(target_)) {
      const auto status = status_of(old.path());
      if (!status || !S_ISREG(status->st_mode)) continue;
      if (!all) all = status;
      all->st_mode &= status->st_mode;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      const auto old = status_of(target_ / entry.path().filename());
      if (all && !entry.is_symlink()) keep_access(File(entry.path(), O_RDONLY), old.value_or(*all));
    }
    keep_access(file(), old_folder);
  }

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
  if (failure != 0 && !is_unsupported(failure)) {
    throw_file_error(path, "cannot have " + std::to_string(bytes) + " bytes", failure);
  }
  return file;
}

/// A small new file, on the device.
inline void write_new_file(const Path& path, std::string_view text) {
  const File file = new_file(path, 0);
  file.write(text, 0);
  file.sync();
}

}  // namespace shardwise::detail
