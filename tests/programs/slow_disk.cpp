// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// To be loaded before the C library. Of the rank SLOW_RANK, files whose names contain SLOW_NAME are on a disk that
/// takes SLOW_SECONDS to flush one. On each rank, files whose names contain REFUSED_NAME are on a file system that
/// answers the calls of REFUSED with an error: fsync (of folders), fchmod and mmap always, pread once. It names calls
/// and the numbers of errors, "fsync:22,mmap:19". Each refusal is a line on the standard error.

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/// The path of an open file.
std::string path_of(int descriptor) {
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 ? path : "";
}

/// Whether the call is refused; then errno says why.
bool refused(const char* call, int descriptor) {
  const char *name = std::getenv("REFUSED_NAME"), *calls = std::getenv("REFUSED");
  if (!name || !calls || descriptor < 0) return false;
  const std::string wanted = std::string(call) + ":";
  const char* found = std::strstr(calls, wanted.c_str());
  if (!found) return false;
  const std::string path = path_of(descriptor);
  if (path.find(name) == path.npos) return false;
  std::fprintf(stderr, "refused %s %s\n", call, path.c_str());
  errno = std::atoi(found + wanted.size());
  return true;
}

bool is_folder(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode);
}

}  // namespace

extern "C" {

int fsync(int descriptor) {
  if (is_folder(descriptor) && refused("fsync", descriptor)) return -1;
  const char *rank = std::getenv("OMPI_COMM_WORLD_RANK"), *slow = std::getenv("SLOW_RANK"),
             *name = std::getenv("SLOW_NAME"), *seconds = std::getenv("SLOW_SECONDS");
  if (!rank || !slow || !name || !seconds || std::strcmp(rank, slow) != 0) return 0;
  const std::string path = path_of(descriptor);
  if (path.find(name) != path.npos) ::sleep(static_cast<unsigned>(std::atoi(seconds)));
  return 0;
}

int fchmod(int descriptor, mode_t mode) {
  return refused("fchmod", descriptor) ? -1 : static_cast<int>(::syscall(SYS_fchmod, descriptor, mode));
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  if (refused("mmap", descriptor)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset));
}

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  static std::atomic<bool> done = false;
  if (!done && refused("pread", descriptor) && !done.exchange(true)) return -1;
  return ::syscall(SYS_pread64, descriptor, to, bytes, offset);
}

}  // extern "C"
