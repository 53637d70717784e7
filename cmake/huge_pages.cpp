// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Preloaded into compilers: what they map of 1 MiB and more, and write to, is in huge pages, if there are some; a file is read into
/// them. See cmake/huge_pages.cmake.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace {

void* map(void* where, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, where, bytes, protection, flags, file, offset));
}

bool read_into(void* where, std::size_t bytes, int file, off_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count =
        pread(file, static_cast<char*>(where) + done, bytes - done, offset + static_cast<off_t>(done));
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

extern "C" void* mmap(void* where, std::size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  const bool is_own = (flags & MAP_PRIVATE) != 0 && (protection & PROT_WRITE) != 0;
  const bool is_file = (flags & MAP_ANONYMOUS) == 0;
  if (!is_own || bytes < (std::size_t{1} << 20) || (flags & MAP_FIXED) != 0)
    return map(where, bytes, protection, flags, file, offset);
  void* block = map(where, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return block;
  madvise(block, bytes, MADV_HUGEPAGE);
  if (is_file && !read_into(block, bytes, file, offset)) {
    munmap(block, bytes);
    return map(where, bytes, protection, flags, file, offset);
  }
  return block;
}
