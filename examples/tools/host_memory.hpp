// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How much memory this process may have: that of the host, or less where a control group (of a container, or of a batch system's
/// job) limits it.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tools {

struct MemoryLimit {
  double bytes = 0;
  std::string control_group = {};  ///< which sets the limit, as a folder; empty: the host
};

/// The smallest of the limits of the process's groups, of version 1 and 2, of the groups around them, and of the host.
inline MemoryLimit memory_limit(const std::filesystem::path& groups_of_process = "/proc/self/cgroup",
                                const std::filesystem::path& root = "/sys/fs/cgroup") {
  MemoryLimit limit{static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<double>(::sysconf(_SC_PAGESIZE))};
  const auto look = [&](const std::filesystem::path& tree, std::string group, const char* file) {
    for (;; group.resize(group.rfind('/'))) {  // a container may see its group as the root alone
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
