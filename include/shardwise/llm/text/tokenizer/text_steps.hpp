// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a `tokenizer.json` normalises text before tokenisation, and turns tokens into text afterwards.

#include <utf8proc.h>

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/bpe_tokenizer.hpp>
#include <shardwise/llm/text/tokenizer/component.hpp>

namespace shardwise::llm::detail {

/// Changes a text, which may grow to `longest` bytes.
using Normalizer = std::function<void(std::string&, std::size_t longest)>;

inline void replace(std::string& text, TextPattern::Scanner& scan, const std::string& content,
                    std::size_t longest) {
  std::string result;
  std::size_t done = 0;
  scan(text, [&](std::size_t begin, std::size_t end) {
    check_length(result.size() + (begin - done) + content.size(), longest);
    result.append(text, done, begin - done).append(content);
    done = end;
  });
  text = result.append(text, done);
  check_length(text.size(), longest);
}

/// Normal form C. utf8proc decomposes and composes characters; its own sorting of marks by exchanging neighbours is
/// quadratic, so they are sorted here.
inline void compose(std::string& text, std::size_t longest) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xcc; }))
    return;  // all < U+0300
  std::vector<utf8proc_int32_t> all;
  const auto mark = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, length] = character_at(text, i);
    std::array<utf8proc_int32_t, 32> parts{};
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), parts.data(),
                                               std::ssize(parts), UTF8PROC_DECOMPOSE, &boundary);
    all.insert(all.end(), parts.begin(), parts.begin() + count);
    i += length;
  }
  for (auto begin = all.begin(); begin != all.end(); ++begin) {
    const auto end = std::find_if(begin, all.end(), [&](utf8proc_int32_t c) { return mark(c) == 0; });
    std::ranges::stable_sort(begin, end, {}, mark);
    if ((begin = end) == all.end()) break;
  }
  const auto count = utf8proc_normalize_utf32(all.data(), std::ssize(all),
                                              utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  text.clear();
  for (auto c = all.begin(); c != all.begin() + count; ++c) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto size = utf8proc_encode_char(*c, bytes.data());
    text.append(bytes.begin(), bytes.begin() + size);
  }
  check_length(text.size(), longest);
}

inline Normalizer read_normalizer(const JsonPart& part) {
  if (part.null()) return [](std::string&, std::size_t) {};
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") return read_sequence<Normalizer>(part, "normalizers", read_normalizer);
  if (type == "Prepend") {
    part.only({"type", "prepend"});
    return [prefix = part.get<std::string>("prepend")](std::string& text, std::size_t longest) {
      if (text.empty()) return;
      check_length(text.size() + prefix.size(), longest);
      text.insert(0, prefix);
    };
  }
  if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    return [pattern = read_pattern(part["pattern"]), content = part.get<std::string>("content")](
               std::string& text, std::size_t longest) {
      TextPattern::Scanner scan(pattern);
      replace(text, scan, content, longest);
    };
  }
  if (type == "NFC") {
    part.only({"type"});
    return compose;
  }
  refuse(part, "normalizer");
}

/// Changes the texts of tokens, which may grow to `longest` bytes in total; they are joined at the end.
using Decoder = std::function<void(std::vector<std::string>&, std::size_t longest)>;

inline void fuse(std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.clear();
  tokens.push_back(std::move(all));
}

/// Replaces matches in every token; `content` returns the new text for a token's position.
template <class Content>
void replace(std::vector<std::string>& tokens, const TextPattern& pattern, std::size_t longest,
             Content content) {
  TextPattern::Scanner scan(pattern);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    replace(tokens[i], scan, content(i), longest);
    longest -= tokens[i].size();
  }
}

/// A token with characters that do not represent bytes stays unchanged.
inline std::string bytes_of(const std::string& token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const auto [value, length] = character_at(token, i);
    const int byte = byte_alphabet.byte(value);
    if (byte < 0) return token;
    bytes += static_cast<char>(byte);
    i += length;
  }
  return bytes;
}

/// Removes up to `start` copies of `content` from the beginning of the token, and `stop` from its end.
inline void strip(std::string& token, std::string_view content, std::int32_t start, std::int32_t stop) {
  std::string_view rest = token;
  for (; start > 0 && rest.starts_with(content); --start) rest.remove_prefix(content.size());
  for (; stop > 0 && rest.ends_with(content); --stop) rest.remove_suffix(content.size());
  token = std::string(rest);
}

/// The bytes that tokens such as <0x0A> represent.
inline const std::unordered_map<std::string, char>& byte_tokens() {
  static const auto all = [] {
    std::unordered_map<std::string, char> byte_of;
    for (int byte = 0; byte < 256; ++byte)
      byte_of[BytePairEncoding::byte_token(byte)] = static_cast<char>(byte);
    return byte_of;
  }();
  return all;
}

/// Tokens may be parts of characters, so patterns must accept invalid UTF-8.
inline Decoder read_decoder(const JsonPart& part) {
  using Tokens = std::vector<std::string>;
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") return read_sequence<Decoder>(part, "decoders", read_decoder);
  if (type == "ByteLevel") {
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return [](Tokens& tokens, std::size_t) {
      for (std::string& token : tokens) token = bytes_of(token);
      fuse(tokens);
    };
  }
  if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    return [pattern = read_pattern(part["pattern"], PCRE2_MATCH_INVALID_UTF),
            content = part.get<std::string>("content")](Tokens& tokens, std::size_t longest) {
      replace(tokens, pattern, longest, [&](std::size_t) -> const std::string& { return content; });
    };
  }
  if (type == "ByteFallback") {
    part.only({"type"});
    return [](Tokens& tokens, std::size_t) {
      for (std::string& token : tokens) {
        if (const auto found = byte_tokens().find(token); found != byte_tokens().end()) token = found->second;
      }
    };
  }
  if (type == "Fuse") {
    part.only({"type"});
    return [](Tokens& tokens, std::size_t) { fuse(tokens); };
  }
  if (type == "Strip") {
    part.only({"type", "content", "start", "stop"});
    return [content = read_character(part["content"]), start = part.get<std::int32_t>("start"),
            stop = part.get<std::int32_t>("stop")](Tokens& tokens, std::size_t) {
      for (std::string& token : tokens) strip(token, content, start, stop);
    };
  }
  if (type == "Metaspace") {
    part.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    return [mark = TextPattern::literal(read_character(part["replacement"]), PCRE2_MATCH_INVALID_UTF),
            prefix = read_prepend_scheme(part) != "never"](Tokens& tokens, std::size_t longest) {
      replace(tokens, mark, longest, [&](std::size_t i) { return std::string(i == 0 && prefix ? "" : " "); });
    };
  }
  refuse(part, "decoder");
}

/// A null decoder puts spaces between tokens.
inline Decoder read_decoder_or_spaces(const JsonPart& part) {
  if (!part.null()) return read_decoder(part);
  return [](std::vector<std::string>& tokens, std::size_t) {
    for (std::size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  };
}

}  // namespace shardwise::llm::detail
