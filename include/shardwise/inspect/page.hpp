// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A trace as a page for browsers: one HTML file that needs no network.
///
/// ```
/// std::ofstream("step.html") << page(trace_file(with_times(log.events(), speeds), names, "rank 0"));
/// ```

#include <string>

#include <shardwise/inspect/page_html.hpp>  // CMake makes it of cmake/page.html

namespace shardwise {

/// The page shows time by rank and lane, memory by use, details of what is under the pointer, and a table of the
/// communication. `trace`: the text of a trace, see inspect/trace_file.hpp.
inline std::string page(std::string_view trace) {
  constexpr std::string_view place = R"({"traceEvents": []})";
  constexpr std::size_t at = detail::page_html.find(place);
  static_assert(at != std::string_view::npos);
  std::string all(detail::page_html.substr(0, at));
  for (const char letter : trace) {
    if (letter == '<') {
      all += "\\u003c";  // it occurs only within JSON's strings; so no name ends the element
    } else {
      all += letter;
    }
  }
  return all.append(detail::page_html.substr(at + place.size()));
}

}  // namespace shardwise
