// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parts of a `tokenizer.json`, and errors that name the place in it.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shardwise/data/byte_tokenizer.hpp>
#include <shardwise/data/tokenizer/text_pattern.hpp>

namespace shardwise::detail {

/// The file's text as JSON. Throws `std::runtime_error` if it is not, or if an object has one key twice: of two
/// ids of a token one would be lost.
inline nlohmann::json parse_tokenizer_json(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects around the place that is read, by their depth
  auto examine = [&](int depth, Event event, nlohmann::json& value) {
    const auto level = static_cast<std::size_t>(depth);
    if (event == Event::object_start) {
      keys.resize(level + 1);
      keys.emplace_back();  // nlohmann counts the keys of an object one deeper than its beginning
    } else if (event == Event::key && !keys.at(level).insert(value.get<std::string>()).second) {
      throw std::runtime_error("the key \"" + value.get<std::string>() + "\" is there twice in one object");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, examine);
  } catch (const nlohmann::json::exception& error) {  // "[json.exception.parse_error.101] parse error at …"
    const std::string message = error.what();
    throw std::runtime_error("not JSON: " + message.substr(message.find("] ") + 2));
  }
}

/// A part of the file, and the place that errors name, such as `decoder.decoders[1]`.
class FilePart {
 public:
  explicit FilePart(const nlohmann::json& json, std::string place = "")
      : json_(&json), place_(std::move(place)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error((place_.empty() ? "" : place_ + ": ") + what);
  }
  /// For what it asks for and this library does not have.
  [[noreturn]] void refuse(const std::string& kind) const {
    fail("the " + kind + " \"" + type() + "\" is not supported");
  }

  bool null() const { return json_->is_null(); }
  const nlohmann::json& json() const { return *json_; }
  std::string type() const { return get<std::string>("type"); }

  /// Null if there is none.
  FilePart operator[](const std::string& key) const {
    static const nlohmann::json none;
    if (!json_->is_object()) fail("expected an object");
    const auto found = json_->find(key);
    return FilePart(found == json_->end() ? none : *found, place_.empty() ? key : place_ + "." + key);
  }
  std::vector<FilePart> elements() const {
    if (!json_->is_array()) fail("expected a list");
    std::vector<FilePart> result;
    for (const auto& element : *json_) {
      result.emplace_back(element, place_ + "[" + std::to_string(result.size()) + "]");
    }
    return result;
  }

  template <class T>
  T get() const {
    bool fits = false;
    if constexpr (std::is_same_v<T, bool>) fits = json_->is_boolean();
    if constexpr (std::is_same_v<T, std::string>) fits = json_->is_string();
    if constexpr (std::is_same_v<T, std::int32_t>) {
      fits = json_->is_number_unsigned() && json_->get<std::uint64_t>() < std::numeric_limits<T>::max();
    }
    if (!fits) {
      const char* expected = std::is_same_v<T, bool> ? "true or false" : "a number in [0, 2^31 - 1)";
      fail(std::string("expected ") + (std::is_same_v<T, std::string> ? "a string" : expected));
    }
    return json_->get<T>();
  }
  template <class T>
  T get(const std::string& key) const {
    return (*this)[key].get<T>();
  }
  template <class T>
  T get(const std::string& key, T otherwise) const {
    const FilePart part = (*this)[key];
    return part.null() ? otherwise : part.get<T>();
  }

  /// Fails if there are other keys: nothing in the file is ignored.
  void only(std::initializer_list<std::string_view> keys) const {
    if (!json_->is_object()) fail("expected an object");
    for (const auto& [key, value] : json_->items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail("the key \"" + key + "\" is not supported");
    }
  }
  /// Fails unless the key is absent, null, or one of these.
  void must_be(const std::string& key, std::initializer_list<nlohmann::json> values) const {
    const FilePart part = (*this)[key];
    if (!part.null() && std::find(values.begin(), values.end(), part.json()) == values.end()) {
      part.fail(part.json().dump().substr(0, 60) + " is not supported");
    }
  }

 private:
  const nlohmann::json* json_;
  std::string place_;
};

inline TextPattern read_pattern(const FilePart& part, std::uint32_t options = 0) {
  part.only({"String", "Regex"});
  if (!part["String"].null()) return TextPattern::literal(part.get<std::string>("String"), options);
  return TextPattern::expression(part.get<std::string>("Regex"), options);
}

/// The content of a field that must be one character.
inline std::string read_character(const FilePart& part) {
  auto text = part.get<std::string>();
  if (text.empty() || character_at(text, 0).length != text.size()) part.fail("expected one character");
  return text;
}

/// Metaspace: which words get a mark where a space would be: `always`, only the `first`, `never`.
inline std::string read_prepend_scheme(const FilePart& part) {
  const bool prefix = part.get<bool>("add_prefix_space", true);
  const auto scheme = part.get<std::string>("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    part["prepend_scheme"].fail("\"" + scheme + "\" is not supported");
  }
  if (!part["add_prefix_space"].null() && prefix == (scheme == "never")) {
    part.fail("add_prefix_space and prepend_scheme contradict each other");
  }
  return scheme;
}

/// The steps of a list, which `read` reads, one after the other.
template <class Step, class Read>
Step read_sequence(const FilePart& list, Read read) {
  std::vector<Step> steps;
  for (const FilePart& part : list.elements()) steps.push_back(read(part));
  return [steps](auto& text) {
    for (const Step& step : steps) step(text);
  };
}

}  // namespace shardwise::detail
