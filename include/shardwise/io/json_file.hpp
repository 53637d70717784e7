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

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shardwise/io/file.hpp>

namespace shardwise {

using Json = nlohmann::json;

// Implementation details: not part of the interface.
namespace detail {

/// Lists and objects within each other: what nests deeper is refused, because JSON is copied and written by
/// functions that call themselves.
inline constexpr std::size_t json_depth = 100;

/// The beginning of what an error quotes: whole characters, 200 bytes at most.
inline std::string excerpt(std::string text) {
  constexpr std::size_t longest = 200;
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.replace(end, text.npos, " …");
}
inline std::string excerpt(const Json& json) { return excerpt(json.dump()); }

/// Whether it is an integer in [least, most].
inline bool is_integer(const Json& json, Index least, Index most) {
  const bool huge = json.is_number_unsigned() && !std::in_range<Index>(json.get<std::uint64_t>());
  return json.is_number_integer() && !huge && json.get<Index>() >= least && json.get<Index>() <= most;
}

/// Puts together what nlohmann's parser reads. (Its own callback would see the same, but takes a time that grows
/// with the square of a list's length.)
class JsonBuilder {
 public:
  JsonBuilder(const std::string& source, std::size_t text_bytes)
      : source_(source), longest_list_((text_bytes + (std::size_t{16} << 20)) / (2 * sizeof(Json))) {}
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
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) {
    const std::string message = error.what();  // "[json.exception.parse_error.101] parse error at line …"
    const auto prefix = message.find("] ");
    fail("not JSON: " + excerpt(prefix == message.npos ? message : message.substr(prefix + 2)));
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(source_ + ": " + why); }

  bool begin(Json value) {
    if (open_.size() == json_depth) {
      fail("lists and objects nest deeper than " + std::to_string(json_depth));
    }
    add(std::move(value));
    open_.push_back(added_);
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  bool add(Json value) {
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
    return true;
  }

  const std::string& source_;
  /// Which never takes more than the text and 16 MiB, also while it grows to twice its size.
  std::size_t longest_list_;
  Json root_;
  std::vector<Json*>
      open_;  // the lists and objects around the place that is read; none of them moves meanwhile
  Json *member_ = nullptr, *added_ = nullptr;
};

}  // namespace detail

/// `text` as JSON. Throws `std::runtime_error`, whose message begins with `source`, if it is not, if an object
/// has one key twice (of which one would be lost), if it nests deeper than a hundred lists and objects, or if a list
/// would take more memory than the text and 16 MiB.
inline Json parse_json(std::string_view text, const std::string& source) {
  detail::JsonBuilder builder(source, text.size());
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

/// The file's JSON. Throws `std::runtime_error`, naming the file, if it cannot be read, and as `parse_json`.
inline Json read_json(const std::filesystem::path& path) {
  return parse_json(detail::read_text(path), path.string());
}

}  // namespace shardwise
