// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The files of a checkpoint, opened when they are needed. There may be more of them than a process may have open.

#include <optional>
#include <vector>

#include <shardwise/checkpoint/manifest.hpp>
#include <shardwise/io/file.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

class CheckpointFiles {
 public:
  /// The manifest must stay where it is.
  CheckpointFiles(Path folder, const CheckpointManifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest), files_(manifest.files.size()) {}

  const Path& folder() const { return folder_; }
  Path path_of(std::size_t index) const { return folder_ / manifest_.files[index].name; }

  /// Until the next call.
  const File& opened(std::size_t index) {
    auto& file = files_[index];
    if (file) return *file;
    if (open_.size() == most_open) {
      for (std::size_t each : open_) files_[each].reset();
      open_.clear();
    }
    file.emplace(path_of(index), O_RDONLY);
    open_.push_back(index);
    return *file;
  }

 private:
  static constexpr std::size_t most_open = 32;

  Path folder_;
  const CheckpointManifest& manifest_;
  std::vector<std::optional<File>> files_;
  std::vector<std::size_t> open_;
};

}  // namespace shardwise::detail
