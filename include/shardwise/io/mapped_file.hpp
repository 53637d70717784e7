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
/// (SIGBUS): a file must not shrink while it is mapped, and its device must not fail.
class MappedFile {
 public:
  explicit MappedFile(const Path& path) : file_(path, O_RDONLY), size_(file_.size()) {
    if (size_ == 0) return;  // no memory to map
    void* memory =
        ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, file_.descriptor(), 0);
    if (memory == MAP_FAILED) throw_file_error(path, "cannot be mapped");
    data_ = static_cast<const char*>(memory);
    ::madvise(memory, static_cast<std::size_t>(size_), MADV_RANDOM);  // advice: a refusal does no harm
  }
  MappedFile(MappedFile&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<std::size_t>(size_));
  }

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
    constexpr Index piece = 128 << 10;  // of one request Linux reads no more than a device's readahead
    const Index end = offset + bytes;
    for (Index begin = offset / page() * page(); begin < end; begin += piece) {
      ::madvise(const_cast<char*>(data_) + begin, static_cast<std::size_t>(std::min(piece, end - begin)),
                MADV_WILLNEED);
    }
  }

  /// These bytes no longer count as memory of this process; they are read again if they are touched.
  void release(Index offset, Index bytes) const {
    const Index begin = offset / page() * page();
    ::madvise(const_cast<char*>(data_) + begin, static_cast<std::size_t>(offset + bytes - begin),
              MADV_DONTNEED);
  }

 private:
  File file_;
  const char* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace shardwise::detail
