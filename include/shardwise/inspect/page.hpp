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
/// communication, by collectives or by modules. `trace`: the text of a trace, see inspect/trace_file.hpp. `blocks`:
/// also shows these tables, see `block_tables` (inspect/print.hpp).
inline std::string page(std::string_view trace, std::string_view blocks = {}) {
  constexpr std::string_view places[] = {R"({"traceEvents": []})", R"(<!-- blocks -->)"};
  static_assert(detail::page_html.find(places[0]) < detail::page_html.find(places[1]) &&
                detail::page_html.find(places[1]) != std::string_view::npos);
  std::string all;
  std::string_view rest = detail::page_html;
  for (const std::string_view place : places) {
    all += rest.substr(0, rest.find(place));
    rest.remove_prefix(rest.find(place) + place.size());
    for (const char letter : place == places[0] ? trace : blocks) {
      if (letter == '<') {
        all += "\\u003c";  // it occurs only within JSON's strings; so no name ends the element
      } else {
        all += letter;
      }
    }
  }
  return all.append(rest);
}

}  // namespace shardwise
