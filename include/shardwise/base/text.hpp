// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Errors with a text: `fail<std::out_of_range>({"token ", token, " at ", position})`. The text is built out of
/// line, so a check stays small where it is inlined.

#include <array>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/index.hpp>

namespace shardwise::detail {

/// Words, a number, or the extents of a tensor: [2 x 3].
class TextPart {
 public:
  TextPart(std::string_view words) : words_(words) {}
  TextPart(const char* words) : words_(words) {}
  TextPart(const std::string& words) : words_(words) {}
  TextPart(bool) = delete;
  TextPart(char32_t) = delete;
  TextPart(const char& letter) : words_(&letter, 1) {}
  TextPart(std::signed_integral auto number) : kind_(Kind::integer), integer_(number) {}
  TextPart(std::unsigned_integral auto number) : kind_(Kind::natural), natural_(number) {}
  TextPart(double number) : kind_(Kind::real), real_(number) {}
  TextPart(std::span<const Index> extents) : kind_(Kind::extents), extents_(extents) {}
  TextPart(const std::vector<Index>& extents) : TextPart(std::span<const Index>(extents)) {}
  template <int Rank>
  TextPart(const Shape<Rank>& extents) : TextPart(std::span<const Index>(extents.values, Rank)) {}

  void append_to(std::string& all) const;

 private:
  enum class Kind { words, integer, natural, real, extents } kind_ = Kind::words;
  std::string_view words_;
  long long integer_ = 0;
  unsigned long long natural_ = 0;
  double real_ = 0;
  std::span<const Index> extents_;
};

[[gnu::cold]] std::string text(std::initializer_list<TextPart> parts);

/// `number` with `digits` digits after the decimal point, in every locale.
std::string fixed_text(double number, int digits);

/// The beginning of a long text: whole UTF-8 characters, at most `longest` bytes.
std::string excerpt(std::string text, std::size_t longest = 200);

/// Returns the text up to the next `end`, and removes both from `text`.
constexpr std::string_view take_part(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(part.size() == text.size() ? part.size() : part.size() + 1);
  return part;
}

/// A text from a file as one line: line feeds and tabs become spaces, other control characters (also U+0080 to
/// U+009F) question marks.
[[gnu::cold]] std::string without_controls(std::string text);

/// The global index, such as "[3, 17]", of the element at `offset` in a block with extents `size` that starts at
/// `begin` (by default 0).
[[gnu::cold]] std::string position(std::span<const Index> size, Index offset,
                                   std::span<const Index> begin = {});

/// Throws an `Error` with this text.
template <class Error = std::invalid_argument>
[[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<TextPart> parts) {
  throw Error(text(parts));
}

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
#include <charconv>

namespace shardwise::detail {

SHARDWISE_INLINE void TextPart::append_to(std::string& all) const {
  if (kind_ == Kind::words) all += words_;
  if (kind_ == Kind::integer) all += std::to_string(integer_);
  if (kind_ == Kind::natural) all += std::to_string(natural_);
  if (kind_ == Kind::real) {
    std::array<char, 32> digits{};  // of the shortest text that reads back as the same number
    all.append(digits.data(), std::to_chars(digits.begin(), digits.end(), real_).ptr);
  }
  if (kind_ != Kind::extents) return;
  const char* before = "[";
  for (Index extent : extents_) all += std::exchange(before, " x ") + std::to_string(extent);
  all += extents_.empty() ? "[]" : "]";
}

SHARDWISE_INLINE std::string fixed_text(double number, int digits) {
  char text[352];  // the largest double has 309 digits before the point
  return {text, std::to_chars(text, std::end(text), number, std::chars_format::fixed, digits).ptr};
}

SHARDWISE_INLINE std::string excerpt(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.replace(end, text.npos, " …");
}

SHARDWISE_INLINE std::string text(std::initializer_list<TextPart> parts) {
  std::string all;
  for (const TextPart& part : parts) part.append_to(all);
  return all;
}

SHARDWISE_INLINE std::string without_controls(std::string text) {
  unsigned char before = 0;
  for (char& letter : text) {
    const auto c = static_cast<unsigned char>(letter);
    if (c < 0x20 || c == 0x7f || (before == 0xc2 && c < 0xa0)) letter = c == '\n' || c == '\t' ? ' ' : '?';
    before = c;
  }
  return text;
}

SHARDWISE_INLINE std::string position(std::span<const Index> size, Index offset,
                                      std::span<const Index> begin) {
  std::string at;
  for (std::size_t dim = size.size(); dim-- > 0;) {
    at = text({offset % size[dim] + (begin.empty() ? 0 : begin[dim]), at.empty() ? "" : ", ", at});
    offset /= size[dim];
  }
  return "[" + at + "]";
}

}  // namespace shardwise::detail
#endif
