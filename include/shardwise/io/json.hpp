// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// JSON from files: configurations, indices of checkpoints. What is not JSON, or says one thing twice, is an
/// error that names the file and the position. `JsonPart` reads what must be of one kind.
///
/// The headers of `io/` are not in `shardwise.hpp`: those that read JSON are expensive to compile.
///
/// ```
/// const Json file = read_json("tokenizer.json");
/// const auto start = JsonPart(file)["decoder"]["decoders"][1].get<std::int32_t>("start");
/// ```

#ifdef SHARDWISE_WITHOUT_FILES
#error "Files need nlohmann-json and xxHash, of which CMake found not both: see its messages"
#endif

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include <shardwise/base/bodies.hpp>
#include <shardwise/io/file.hpp>

namespace shardwise {

/// A JSON value, from nlohmann-json.
using Json = nlohmann::json;

namespace detail {

/// The most lists and objects within each other: deeper JSON is refused, because JSON is copied and written by
/// functions that call themselves.
inline constexpr std::size_t json_depth = 100;

/// The part of a value that an error quotes.
std::string excerpt(const Json& json);

/// Puts together what nlohmann's parser reads. (Its own callback would see the same, but takes a time that grows
/// with the square of a list's length.)
class JsonBuilder {
 public:
  /// Of the outermost object each member goes to `take_member`, if that is given, and is forgotten.
  using TakeMember = std::function<void(const std::string& name, const Json& value)>;
  explicit JsonBuilder(std::size_t text_bytes, TakeMember take_member = {})
      : longest_list_((text_bytes + (std::size_t{16} << 20)) / (2 * sizeof(Json))),
        take_member_(std::move(take_member)) {}
  Json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // is in no text
  bool start_object(std::size_t) { return begin(Json::object()); }
  bool start_array(std::size_t) { return begin(Json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    const auto [member, fresh] = open_.back()->get_ref<Json::object_t&>().emplace(std::move(name), nullptr);
    if (!fresh) fail("the key \"" + excerpt(member->first) + "\" is there twice in one object");
    member_ = &member->second;
    if (open_.size() == 1) outermost_ = member;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
    const std::string message = error.what();  // "[json.exception.parse_error.101] parse error at line …"
    const auto prefix = message.find("] ");
    fail("not JSON: " + excerpt(prefix == message.npos ? message : message.substr(prefix + 2)));
  }

 private:
  [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error(why); }

  bool begin(Json value) {
    if (open_.size() == json_depth) {
      fail("lists and objects nest deeper than " + std::to_string(json_depth));
    }
    put(std::move(value));
    open_.push_back(added_);
    return true;
  }
  bool end() {
    open_.pop_back();
    return complete();
  }
  bool add(Json value) {
    put(std::move(value));
    return complete();
  }
  bool complete() {
    if (!take_member_ || open_.size() != 1 || !root_.is_object()) return true;
    take_member_(outermost_->first, outermost_->second);
    outermost_->second = nullptr;
    return true;
  }
  void put(Json value) {
    if (open_.empty()) {
      added_ = &root_;
    } else if (open_.back()->is_object()) {
      added_ = member_;
    } else {
      auto& list = open_.back()->get_ref<Json::array_t&>();
      if (list.size() == longest_list_) {
        fail("a list of more than " + std::to_string(longest_list_) + " values in a text of this size");
      }
      added_ = &list.emplace_back();
    }
    *added_ = std::move(value);
  }

  /// Which never takes more than the text and 16 MiB, also while it grows to twice its size.
  std::size_t longest_list_;
  TakeMember take_member_;
  Json::object_t::iterator outermost_{};  // member
  Json root_;
  std::vector<Json*> open_;  // lists and objects around the place that is read: none of them moves meanwhile
  Json *member_ = nullptr, *added_ = nullptr;
};

/// Python's json writes NaN, Infinity and -Infinity, which JSON lacks: each becomes the object {"not a number": null},
/// which nothing that reads a number, a text or a list takes for one.
inline std::string without_python_numbers(std::string_view text) {
  std::string result;
  for (bool quoted = false; !text.empty();) {
    std::string_view word = text.substr(0, quoted && text[0] == '\\' ? 2 : 1);
    if (word == "\"") quoted = !quoted;
    for (const std::string_view number : {"NaN", "Infinity", "-Infinity"}) {
      if (!quoted && text.starts_with(number)) word = number;
    }
    result += word.size() > 2 ? " {\"not a number\":null} " : word;
    text.remove_prefix(word.size());
  }
  return result;
}

Json json_of(std::string_view text, JsonBuilder::TakeMember take_member = {});

}  // namespace detail

/// A value within a `Json`, which must outlive it, and its place there, which errors name: "decoder.decoders[1]: it is
/// null, expected a string". What is of another kind is a `std::runtime_error`.
class JsonPart {
 public:
  /// Errors begin with `place`, such as "FILE: ".
  explicit JsonPart(const Json& json, std::string place = "") : json_(&json), place_(std::move(place)) {}

  /// Throws "PLACE: WHAT".
  [[noreturn]] void fail(const std::string& what) const {
    detail::fail<std::runtime_error>({place_, at_beginning() ? "" : ": ", what});
  }
  /// Throws "PLACE: it is VALUE, expected WHAT".
  [[noreturn]] void expected(const std::string& what) const {
    fail("it is " + (null() ? "missing" : detail::excerpt(*json_)) + ", expected " + what);
  }

  /// Whether it is null, or absent.
  bool null() const { return json_->is_null(); }
  const Json& json() const { return *json_; }

  /// A member of an object: null if it is absent.
  JsonPart operator[](const std::string& key) const {
    static const Json none;
    if (!json_->is_object()) expected("an object");
    const auto found = json_->find(key);
    return JsonPart(found == json_->end() ? none : *found,
                    place_ + (at_beginning() ? "" : ".") + detail::excerpt(key));
  }
  /// An element of a list, which has so many.
  JsonPart operator[](std::size_t index) const {
    return JsonPart((*json_)[index], place_ + "[" + std::to_string(index) + "]");
  }
  /// Calls f(element) for the elements of a list.
  template <class F>
  void for_each(F f) const {
    if (!json_->is_array()) expected("a list");
    for (std::size_t i = 0; i < json_->size(); ++i) f((*this)[i]);
  }
  /// Calls f(key, value) for the members of an object.
  template <class F>
  void for_each_member(F f) const {
    if (!json_->is_object()) expected("an object");
    for (const auto& [key, value] : json_->items()) {
      f(key, JsonPart(value, place_ + (at_beginning() ? "\"" : ", \"") + detail::excerpt(key) + "\""));
    }
  }
  /// Fails unless it is a list of `count` elements.
  void must_have(std::size_t count) const {
    if (!json_->is_array() || json_->size() != count) expected("a list of " + std::to_string(count));
  }

  /// A `std::string`, a `bool`, or a `std::int32_t` in [0, 2^31 - 1).
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, std::int32_t>) {
      return static_cast<T>(integer(0, std::numeric_limits<T>::max() - 1));
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json_->is_boolean()) expected("true or false");
    } else if (!json_->is_string()) {
      expected("a string");
    }
    return json_->get<T>();
  }
  /// The same of a member; `otherwise` if it is null or absent.
  template <class T>
  T get(const std::string& key) const {
    return (*this)[key].get<T>();
  }
  template <class T>
  T get(const std::string& key, T otherwise) const {
    const JsonPart part = (*this)[key];
    return part.null() ? otherwise : part.get<T>();
  }
  /// An integer in [least, most].
  Index integer(Index least, Index most) const {
    if (is_integer(*json_, least, most)) return json_->get<Index>();
    const bool endless = most == std::numeric_limits<Index>::max();
    expected("an integer" + (endless ? ", " + std::to_string(least) + " or more"
                                     : " from " + std::to_string(least) + " to " + std::to_string(most)));
  }
  /// A list of integers in [0, most].
  std::vector<Index> integers(Index most) const {
    if (!json_->is_array()) expected("a list of integers");
    std::vector<Index> values;
    for (const Json& value : *json_) {
      // Only an error needs the place.
      values.push_back(is_integer(value, 0, most) ? value.get<Index>()
                                                  : (*this)[values.size()].integer(0, most));
    }
    return values;
  }
  /// A number that is neither 0 nor infinite in float, in which models compute.
  double positive_number() const {
    const double number = json_->is_number() ? json_->get<double>() : 0;
    if (!(number > 0)) expected("a positive number");
    if (number < 1.2e-38 || number > 3.4e38) expected("a number from 1.2e-38 to 3.4e38");
    return number;
  }

  /// Fails if there are other keys: nothing in the text is ignored.
  void only(std::initializer_list<std::string_view> keys) const {
    for_each_member([&](const std::string& key, const JsonPart&) {
      if (std::ranges::find(keys, key) == keys.end())
        fail("the key \"" + detail::excerpt(key) + "\" is not supported");
    });
  }
  /// Fails unless the key is absent, null, or has this value.
  void must_be(const std::string& key, const Json& value) const {
    const JsonPart part = (*this)[key];
    if (!part.null() && part.json() != value) part.expected(value.dump());
  }

 private:
  static bool is_integer(const Json& json, Index least, Index most) {
    const bool huge = json.is_number_unsigned() && !std::in_range<Index>(json.get<std::uint64_t>());
    return json.is_number_integer() && !huge && json.get<Index>() >= least && json.get<Index>() <= most;
  }

  bool at_beginning() const { return place_.empty() || place_.ends_with(": "); }

  const Json* json_;
  std::string place_;
};

/// `text` as JSON. Throws `std::runtime_error`, whose message begins with `source`, if it is not, if an object
/// has one key twice (of which one would be lost), if it nests deeper than a hundred lists and objects, or if a list
/// would take more memory than the text and 16 MiB.
inline Json parse_json(std::string_view text, const std::string& source) {
  return prefix_errors(source, [&] { return detail::json_of(text); });
}

/// The file's JSON. Throws `std::runtime_error`, naming the file, if it cannot be read, and as `parse_json`.
inline Json read_json(const std::filesystem::path& path) {
  return parse_json(read_text(path), path.string());
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

SHARDWISE_INLINE std::string excerpt(const Json& json) {
  return excerpt(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

SHARDWISE_INLINE Json json_of(std::string_view text, JsonBuilder::TakeMember take_member) {
  if (const auto at = text.find('\0'); at != text.npos) {  // which would end it, whatever comes after
    fail<std::runtime_error>({"not JSON: byte ", static_cast<Index>(at), " is a null character"});
  }
  std::string changed;
  if (text.find("NaN") != text.npos || text.find("Infinity") != text.npos)
    text = changed = without_python_numbers(text);
  JsonBuilder builder(text.size(), std::move(take_member));
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace detail
}  // namespace shardwise
#endif
