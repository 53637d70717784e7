// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Large files that are written from their beginning to their end.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <shardwise/io/file.hpp>

namespace shardwise::detail {

/// Memory that devices can read: where pages begin, and whole pages.
class PageBuffer {
 public:
  static constexpr Index page = 4096;

  PageBuffer() = default;
  explicit PageBuffer(Index bytes) { reserve(bytes); }
  /// Its contents are lost if it was smaller.
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
