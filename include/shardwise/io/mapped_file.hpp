// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Large files that are read as memory.

#include <sys/mman.h>

#include <algorithm>

#include <shardwise/io/file.hpp>

namespace shardwise::detail {

/// A file as read-only memory. Only the pages that are touched are read from the device: the system does not read
/// ahead, because the bytes after a block belong to another rank. Touching a page that cannot be read ends the process
/// (SIGBUS): a file must not shrink while it is mapped, and its device must not fail. Where the file system cannot map
/// files, all of it is read at once, and stays in memory.
class MappedFile {
 public:
  explicit MappedFile(const Path& path) : file_(path, O_RDONLY), size_(file_.size()) {
    if (size_ == 0) return;  // no memory to map
    const auto map = [&](int protection, int flags, int descriptor) {
      void* memory = ::mmap(nullptr, static_cast<std::size_t>(size_), protection, flags, descriptor, 0);
      if (memory != MAP_FAILED) data_ = static_cast<char*>(memory);
      return memory != MAP_FAILED;
    };
    // Some file systems refuse only memory that processes share.
    mapped_ =
        map(PROT_READ, MAP_SHARED, file_.descriptor()) || map(PROT_READ, MAP_PRIVATE, file_.descriptor());
    const bool refused = !mapped_ && (errno == ENODEV || is_unsupported(errno));
    if (!mapped_ && !(refused && map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1)))
      throw_file_error(path, refused ? "cannot be mapped, and does not fit into memory" : "cannot be mapped");
    if (mapped_) {
      ::madvise(data_, static_cast<std::size_t>(size_), MADV_RANDOM);  // advice: a refusal does no harm
      return;
    }
    try {
      file_.read(data_, size_, 0);
    } catch (...) {
      unmap();
      throw;
    }
  }
  MappedFile(MappedFile&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(other.mapped_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() { unmap(); }

  const char* data() const noexcept { return data_; }
  Index size() const noexcept { return size_; }
  std::string_view bytes() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

  /// Throws `std::runtime_error` if the file has shrunk.
  void check_size() const {
    const Index now = file_.size();
    if (now < size_)
      fail<std::runtime_error>(
          {file_.path().string(), ": in use, but cut from ", size_, " to ", now, " bytes"});
  }

  /// Bytes of a page.
  static Index page() {
    static const Index bytes = static_cast<Index>(::sysconf(_SC_PAGESIZE));
    return bytes;
  }

  /// Asks the system to begin to read these bytes, and no page more.
  void will_need(Index offset, Index bytes) const {
    if (!mapped_) return;
    constexpr Index piece = 128 << 10;  // of one request Linux reads no more than a device's readahead
    const Index end = offset + bytes;
    for (Index begin = offset / page() * page(); begin < end; begin += piece) {
      ::madvise(data_ + begin, static_cast<std::size_t>(std::min(piece, end - begin)), MADV_WILLNEED);
    }
  }

  /// These bytes no longer count as memory of this process; they are read again if they are touched.
  void release(Index offset, Index bytes) const {
    if (!mapped_) return;
    const Index begin = offset / page() * page();
    ::madvise(data_ + begin, static_cast<std::size_t>(offset + bytes - begin), MADV_DONTNEED);
  }

 private:
  void unmap() noexcept {
    if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(size_));
  }

  File file_;
  char* data_ = nullptr;
  Index size_ = 0;
  bool mapped_ = false;
};

}  // namespace shardwise::detail
