// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Large files: read as memory, and written from their beginning to their end.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <shardwise/io/file.hpp>

namespace shardwise::detail {

/// A file as read-only memory. Only the pages that are touched are read from the device: the system is told not to read
/// ahead, because the bytes behind a block belong to another rank. Touching a page that cannot be read ends the process
/// (SIGBUS): a file must not shrink while it is mapped, and its device must not fail.
class MappedFile {
 public:
  explicit MappedFile(const Path& path) {
    const File file(path, O_RDONLY);
    size_ = file.size();
    if (size_ == 0) return;  // no memory to map
    void* memory =
        ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (memory == MAP_FAILED) throw_file_error(path, "cannot be mapped");
    data_ = static_cast<const char*>(memory);
    ::madvise(memory, static_cast<std::size_t>(size_), MADV_RANDOM);  // advice: a refusal does no harm
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<std::size_t>(size_));
  }

  const char* data() const noexcept { return data_; }
  Index size() const noexcept { return size_; }
  std::string_view bytes() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

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

 private:
  const char* data_ = nullptr;
  Index size_ = 0;
};

/// Memory that devices can read: where pages begin, and whole pages.
class PageBuffer {
 public:
  static constexpr Index page = 4096;

  PageBuffer() = default;
  explicit PageBuffer(Index bytes) { reserve(bytes); }
  /// What was in it is lost if it was smaller.
  void reserve(Index bytes) {
    if (bytes <= room_) return;
    bytes_.reset();
    room_ = 0;
    const Index whole = (bytes + page - 1) / page * page;
    bytes_.reset(static_cast<char*>(::operator new[](static_cast<std::size_t>(whole), alignment)));
#ifdef MADV_HUGEPAGE
    ::madvise(bytes_.get(), static_cast<std::size_t>(whole), MADV_HUGEPAGE);  // a hint, as in LargeBlocks
#endif
    room_ = whole;
  }
  char* data() const noexcept { return bytes_.get(); }
  Index room() const noexcept { return room_; }

 private:
  static constexpr std::align_val_t alignment{page};
  struct Free {
    void operator()(char* bytes) const noexcept { ::operator delete[](bytes, alignment); }
  };
  std::unique_ptr<char[], Free> bytes_;
  Index room_ = 0;
};

/// Writes past the system's cache of files where the file system can do that: copying into the cache takes processor
/// time, which the run beside may need, and memory, which others use.
class DirectWriter {
 public:
  /// Creates the file, which must not be there.
  explicit DirectWriter(Path path) : file_(std::move(path), O_WRONLY | O_CREAT | O_EXCL) {
    file_.set_direct(true);
  }

  /// From a `PageBuffer`'s beginning, and much at once: without copying.
  void write(const char* bytes, Index count) {
    while (count > 0) {
      Index now = std::min(count, buffer_.room() - filled_);
      if (filled_ == 0 && count >= buffer_.room() && begins_a_page(bytes)) {
        now = std::min(count, most_at_a_time) / PageBuffer::page * PageBuffer::page;
        flush(bytes, now);
      } else {
        std::memcpy(buffer_.data() + filled_, bytes, static_cast<std::size_t>(now));
        filled_ += now;
        if (filled_ == buffer_.room()) flush();
      }
      bytes += now;
      count -= now;
    }
  }

  /// Returns when the device has all of it.
  void finish() {
    file_.set_direct(false);  // the end may be no whole page
    flush();
    file_.sync();
  }

 private:
  static constexpr Index most_at_a_time = 4 << 20;

  static bool begins_a_page(const char* bytes) {
    return reinterpret_cast<std::uintptr_t>(bytes) % PageBuffer::page == 0;
  }
  void flush(const char* bytes, Index count) {
    file_.write({bytes, static_cast<std::size_t>(count)}, written_);
    written_ += count;
  }
  void flush() {
    flush(buffer_.data(), filled_);
    filled_ = 0;
  }

  File file_;
  PageBuffer buffer_{1 << 20};
  Index filled_ = 0, written_ = 0;
};

}  // namespace shardwise::detail
