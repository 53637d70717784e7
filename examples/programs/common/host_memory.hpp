// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The memory available to this process: the host's, or less if a control group (of a container or a batch job)
/// limits it.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tools {

struct MemoryLimit {
  double bytes = 0;
  std::string control_group = {};  ///< the folder of the group that sets the limit; empty: the host
};

/// The least of the limits of the process's control groups (version 1 and 2), of their parent groups, and of the host.
inline MemoryLimit memory_limit(const std::filesystem::path& groups_of_process = "/proc/self/cgroup",
                                const std::filesystem::path& root = "/sys/fs/cgroup") {
  MemoryLimit limit{static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<double>(::sysconf(_SC_PAGESIZE))};
  const auto look = [&](const std::filesystem::path& tree, std::string group, const char* file) {
    for (;; group.resize(group.rfind('/'))) {  // inside a container, only the root may be visible
      const std::filesystem::path folder = group.empty() ? tree : tree / group.substr(1);
      std::ifstream in(folder / file);
      if (std::string text; in >> text && text != "max" && std::strtod(text.c_str(), nullptr) < limit.bytes)
        limit = {std::strtod(text.c_str(), nullptr), folder.string()};
      if (group.empty()) return;
    }
  };
  std::ifstream lines(groups_of_process);
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,memory:/job", or "0::/job" in version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                group = line.substr(second + 1);
    if (!group.starts_with('/') || group == "/") group.clear();
    if (controllers == ",,") {
      look(root, group, "memory.max");
      look(root / "unified", group, "memory.max");
    } else if (controllers.find(",memory,") != controllers.npos) {
      look(root / "memory", group, "memory.limit_in_bytes");
    }
  }
  return limit;
}

}  // namespace tools
