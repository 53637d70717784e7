// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// JSON from files: configurations, indices of checkpoints. What is not JSON, or says one thing twice, is an
/// error that names the file and the position.
///
/// The headers of `io/` are not in `shardwise.hpp`: those that read JSON are dear to compile.
///
/// ```
/// const Json config = read_json("model/config.json");
/// const auto layers = config.at("num_hidden_layers").get<Index>();
/// ```

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/io/file.hpp>

namespace shardwise {

using Json = nlohmann::json;

/// `text` as JSON. Throws `std::runtime_error`, whose message begins with `source`, if it is not, or if an
/// object has one key twice (of which one would be lost).
inline Json parse_json(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;  // of the objects around the place that is read, by their depth
  auto examine = [&](int depth, Json::parse_event_t event, Json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      keys.resize(level + 1);
      keys.emplace_back();  // nlohmann counts the keys of an object one deeper than its beginning
    } else if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.at(level).insert(key).second) {
        throw std::runtime_error(source + ": the key \"" + key + "\" is there twice in one object");
      }
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), examine);
  } catch (const Json::exception& error) {
    const std::string_view message =
        error.what();  // "[json.exception.parse_error.101] parse error at line …"
    const auto prefix = message.find("] ");
    throw std::runtime_error(
        source + ": not JSON: " +
        std::string(prefix == std::string_view::npos ? message : message.substr(prefix + 2)));
  }
}

/// The file's JSON. Throws `std::runtime_error`, naming the file, if it cannot be read, and as `parse_json`.
inline Json read_json(const std::filesystem::path& path) {
  return parse_json(detail::read_text(path), path.string());
}

}  // namespace shardwise
