// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A backtrace for error reports: return addresses, resolved only when the report is printed.

#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::detail {

/// The calls that lead here. With debug information (-g) and binutils' addr2line, `text` is the file and line of
/// the innermost caller outside the library; otherwise the name of that function, or empty.
class PlaceInProgram {
 public:
  static PlaceInProgram here() {
    PlaceInProgram place;
    place.count_ = ::backtrace(place.calls_.data(), static_cast<int>(place.calls_.size()));
    return place;
  }

  std::string text() const {
    std::string own = __FILE__, function;  // the library's folder; the name, if no line is known
    own.resize(own.rfind("comm/place_in_program"));
    for (const auto& [name, line] : frames()) {
      const std::string called = name.substr(0, name.find('(', 1));
      if (line.find(own) != line.npos || line.find("/c++/") != line.npos) continue;
      if (line.find('?') == line.npos) return line;
      const bool ours = called.find("shardwise::") != called.npos || called.find("std::") != called.npos;
      if (function.empty() && name != "??" && !ours) function = name;
    }
    return function;
  }

 private:
  struct Frame {
    std::string function, line;
  };
  /// From the innermost outwards; for one address, inlined functions come before the function that contains them.
  std::vector<Frame> frames() const {
    std::vector<Frame> all;
    Dl_info module{}, next{};
    std::string addresses;
    for (int i = 1; i < count_; ++i) {
      const void* call = calls_[static_cast<std::size_t>(i)];
      if (::dladdr(call, &next) == 0 || !next.dli_fname) continue;
      const std::string_view file = next.dli_fname;  // skip system libraries
      if (file.find("/libc.so") != file.npos || file.find("/libstdc++.so") != file.npos) continue;
      if (next.dli_fbase != module.dli_fbase) read(module, std::exchange(addresses, {}), all);
      module = next;
      // The call instruction is before the return address. Subtracting the load address gives the address within
      // the file.
      const auto offset =
          reinterpret_cast<std::uintptr_t>(call) - 1 - reinterpret_cast<std::uintptr_t>(module.dli_fbase);
      char text[32];
      std::snprintf(text, sizeof(text), " 0x%zx", static_cast<std::size_t>(offset));
      addresses += text;
    }
    read(module, addresses, all);
    return all;
  }
  static void read(const Dl_info& module, const std::string& addresses, std::vector<Frame>& frames) {
    if (addresses.empty() || std::string_view(module.dli_fname).find('\'') != std::string_view::npos) return;
    const std::string command =
        std::string("addr2line -f -C -i -e '") + module.dli_fname + "'" + addresses + " 2>/dev/null";
    static auto& known = *new std::map<std::string, std::vector<Frame>>;  // ranks often wait at one place
    const auto [answer, asks] = known.try_emplace(command);
    if (asks) ask(command, answer->second);
    frames.insert(frames.end(), answer->second.begin(), answer->second.end());
  }
  static void ask(const std::string& command, std::vector<Frame>& frames) {
    std::FILE* output = ::popen(command.c_str(), "r");
    if (!output) return;
    char line[4096];
    for (bool function = true; std::fgets(line, sizeof(line), output); function = !function) {
      std::string text = line;
      text.resize(std::min(text.find('\n'), text.size()));
      text.resize(std::min(text.find(" (discriminator"), text.size()));
      if (function) frames.push_back({text, ""});
      if (!function) frames.back().line = text;
    }
    ::pclose(output);
  }

  std::array<void*, 40> calls_;
  int count_ = 0;
};

}  // namespace shardwise::detail
