// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// To be loaded before the C library: of the rank SLOW_RANK, files whose names contain SLOW_NAME are on a disk that takes
/// SLOW_SECONDS to flush one.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern "C" int fsync(int descriptor) {
  const char *rank = std::getenv("OMPI_COMM_WORLD_RANK"), *slow = std::getenv("SLOW_RANK"),
             *name = std::getenv("SLOW_NAME"), *seconds = std::getenv("SLOW_SECONDS");
  if (!rank || !slow || !name || !seconds || std::strcmp(rank, slow) != 0) return 0;
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strstr(path, name))
    ::sleep(static_cast<unsigned>(std::atoi(seconds)));
  return 0;
}
