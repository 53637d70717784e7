// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parts of a JSON text, each of which must be what is asked for, and errors that name the place in the text.
///
/// ```
/// const JsonPart file(json);
/// const auto start = file["decoder"]["decoders"][1].get<std::int32_t>("start");
/// ```

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <shardwise/io/json_file.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// A part of a text that stays where it is, and the place that errors name, such as `decoder.decoders[1]`. All errors
/// are `std::runtime_error`s.
class JsonPart {
 public:
  explicit JsonPart(const Json& json, std::string place = "") : json_(&json), place_(std::move(place)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error((place_.empty() ? "" : place_ + ": ") + what);
  }

  bool null() const { return json_->is_null(); }
  const Json& json() const { return *json_; }

  /// Null if there is none.
  JsonPart operator[](const std::string& key) const {
    static const Json none;
    if (!json_->is_object()) fail("expected an object");
    const auto found = json_->find(key);
    return JsonPart(found == json_->end() ? none : *found,
                    (place_.empty() ? "" : place_ + ".") + excerpt(key));
  }
  /// An element of a list, which has so many.
  JsonPart operator[](std::size_t index) const {
    return JsonPart((*json_)[index], place_ + "[" + std::to_string(index) + "]");
  }
  /// Calls f(element) for the elements of a list.
  template <class F>
  void for_each(F f) const {
    if (!json_->is_array()) fail("expected a list");
    for (std::size_t i = 0; i < json_->size(); ++i) f((*this)[i]);
  }
  /// Fails unless it is a list of so many elements.
  void must_have(std::size_t count) const {
    if (!json_->is_array() || json_->size() != count) fail("expected a list of " + std::to_string(count));
  }

  template <class T>
  T get() const {
    bool fits = false;
    if constexpr (std::is_same_v<T, bool>) fits = json_->is_boolean();
    if constexpr (std::is_same_v<T, std::string>) fits = json_->is_string();
    if constexpr (std::is_same_v<T, std::int32_t>) {
      fits = is_integer(*json_, 0, std::numeric_limits<T>::max() - 1);
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
    const JsonPart part = (*this)[key];
    return part.null() ? otherwise : part.get<T>();
  }
  /// In [least, most].
  Index integer(Index least, Index most) const {
    if (is_integer(*json_, least, most)) return json_->get<Index>();
    fail("it is " + excerpt(*json_) + ", expected an integer from " + std::to_string(least) + " to " +
         std::to_string(most));
  }
  /// All in [0, most].
  std::vector<Index> integers(Index most) const {
    if (!json_->is_array()) fail("expected a list");
    std::vector<Index> values;
    for (const Json& value : *json_) {
      // Only an error needs the place.
      values.push_back(is_integer(value, 0, most) ? value.get<Index>()
                                                  : (*this)[values.size()].integer(0, most));
    }
    return values;
  }

  /// Fails if there are other keys: nothing in the text is ignored.
  void only(std::initializer_list<std::string_view> keys) const {
    if (!json_->is_object()) fail("expected an object");
    for (const auto& [key, value] : json_->items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail("the key \"" + excerpt(key) + "\" is not supported");
    }
  }
  /// Fails unless the key is absent, null, or has this value.
  void must_be(const std::string& key, const Json& value) const {
    const JsonPart part = (*this)[key];
    if (!part.null() && part.json() != value) part.fail(excerpt(part.json()) + " is not supported");
  }

 private:
  const Json* json_;
  std::string place_;
};

}  // namespace shardwise::detail
