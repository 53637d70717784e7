// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pages for the tests in a browser, and for the pictures of the documentation.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <shardwise/inspect/page.hpp>

namespace shardwise::testing {

/// The trace that a page has.
inline nlohmann::json trace_in(const std::string& page) {
  const std::string before = R"(<script id="trace" type="application/json">)";
  const std::size_t begin = page.find(before) + before.size();
  REQUIRE(begin > before.size());
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

/// Writes NAME.html, and checks that it has the trace.
inline void write_page(const std::string& name, const std::string& trace, const std::string& blocks = {}) {
  const std::string text = page(trace, blocks);
  CHECK(trace_in(text) == nlohmann::json::parse(trace));
  std::filesystem::create_directories(SHARDWISE_PAGES);
  std::ofstream file(std::filesystem::path(SHARDWISE_PAGES) / (name + ".html"), std::ios::binary);
  file << text;
  CHECK(file.flush().good());
}

}  // namespace shardwise::testing
