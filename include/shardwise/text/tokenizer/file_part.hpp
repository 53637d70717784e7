// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parts of a `tokenizer.json`, and errors that name the place in it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shardwise/io/json_file.hpp>
#include <shardwise/text/tokenizer/text_pattern.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise::detail {

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
    fail("the " + kind + " \"" + excerpt(type()) + "\" is not supported");
  }

  bool null() const { return json_->is_null(); }
  const nlohmann::json& json() const { return *json_; }
  std::string type() const { return get<std::string>("type"); }

  /// Null if there is none.
  FilePart operator[](const std::string& key) const {
    static const nlohmann::json none;
    if (!json_->is_object()) fail("expected an object");
    const auto found = json_->find(key);
    return FilePart(found == json_->end() ? none : *found,
                    (place_.empty() ? "" : place_ + ".") + excerpt(key));
  }
  /// Calls f(element) for the elements of a list.
  template <class F>
  void for_each(F f) const {
    if (!json_->is_array()) fail("expected a list");
    std::size_t number = 0;
    for (const auto& element : *json_) f(FilePart(element, place_ + "[" + std::to_string(number++) + "]"));
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
        fail("the key \"" + excerpt(key) + "\" is not supported");
    }
  }
  /// Fails unless the key is absent, null, or one of these.
  void must_be(const std::string& key, std::initializer_list<nlohmann::json> values) const {
    const FilePart part = (*this)[key];
    if (!part.null() && std::find(values.begin(), values.end(), part.json()) == values.end()) {
      part.fail(excerpt(part.json()) + " is not supported");
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
    part["prepend_scheme"].fail("\"" + excerpt(scheme) + "\" is not supported");
  }
  if (!part["add_prefix_space"].null() && prefix == (scheme == "never")) {
    part.fail("add_prefix_space and prepend_scheme contradict each other");
  }
  return scheme;
}

/// A file's steps may make at most so many bytes of so many: a few that each double a text would fill any memory.
constexpr std::size_t longest_made_of(std::size_t bytes) { return 16 * bytes + (std::size_t{1} << 16); }
/// Throws `std::length_error` if that is exceeded.
inline void check_length(std::size_t bytes, std::size_t longest) {
  if (bytes <= longest) return;
  throw std::length_error("the tokenizer's steps would make more than " + std::to_string(longest) +
                          " bytes of the text: more than 16 times as many, and 65536, is refused");
}

/// How many steps there are in a list of steps, which may be lists of steps themselves.
inline std::size_t count_steps(const nlohmann::json& json) {
  std::size_t count = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const auto& part : json) count += count_steps(part);
  }
  return count;
}

/// The steps of a list, which `read` reads, one after the other. Fails if there are more than any tokenizer has: the
/// expression of a step may need a hundred times the memory of its text.
template <class Step, class Read>
Step read_sequence(const FilePart& list, Read read) {
  constexpr std::size_t most = 64;
  if (const std::size_t count = count_steps(list.json()); count > most) {
    list.fail(std::to_string(count) + " steps, expected " + std::to_string(most) + " at most");
  }
  std::vector<Step> steps;
  list.for_each([&](const FilePart& part) { steps.push_back(read(part)); });
  return [steps](auto& text, auto... longest) {
    for (const Step& step : steps) step(text, longest...);
  };
}

}  // namespace shardwise::detail
