// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a `tokenizer.json` changes the text before all else, and makes text of tokens in the end.

#include <shardwise/text/bpe_tokenizer.hpp>
#include <shardwise/text/tokenizer/component.hpp>

namespace shardwise::detail {

/// Changes a text, which may become so many bytes long.
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

/// Throws unless the text is certainly in normal form C: all its characters are in ranges of characters that
/// are their own normal form and never combine with others.
inline void check_nfc(std::string_view text) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0, 0x300},       {0x388, 0x483},   {0x48a, 0x530},   {0x1e00, 0x1f00}, {0x2002, 0x20d0},
      {0x2190, 0x2329}, {0x232b, 0x2adc}, {0x3000, 0x302a}, {0x3041, 0x3099}, {0x309b, 0x3100},
      {0x3400, 0xa000}, {0xac00, 0xd7a4}, {0xfe00, 0xfe10}, {0xff00, 0xfff0}, {0x1f300, 0x1fb00}};
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, length] = character_at(text, i);
    auto holds = [c = value](const auto& range) { return c >= range.first && c < range.second; };
    if (std::ranges::none_of(ranges, holds)) {
      fail({"the character \"", text.substr(i, length), "\" at offset ", i,
            " may change in normal form C (NFC), which is not supported"});
    }
    i += length;
  }
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
    return [](std::string& text, std::size_t) { check_nfc(text); };
  }
  refuse(part, "normalizer");
}

/// Changes the texts of tokens, which may become so many bytes long; in the end they are put together.
using Decoder = std::function<void(std::vector<std::string>&, std::size_t longest)>;

inline void fuse(std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.clear();
  tokens.push_back(std::move(all));
}

/// Replaces what matches, in every token; `content` gives the new text for the token of a number.
template <class Content>
void replace(std::vector<std::string>& tokens, const TextPattern& pattern, std::size_t longest,
             Content content) {
  TextPattern::Scanner scan(pattern);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    replace(tokens[i], scan, content(i), longest);
    longest -= tokens[i].size();
  }
}

/// A token whose characters do not all stand for bytes stays as it is.
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

/// Takes up to `start` copies of `content` off the beginning of the token, and `stop` off its end.
inline void strip(std::string& token, std::string_view content, std::int32_t start, std::int32_t stop) {
  std::string_view rest = token;
  for (; start > 0 && rest.starts_with(content); --start) rest.remove_prefix(content.size());
  for (; stop > 0 && rest.ends_with(content); --stop) rest.remove_suffix(content.size());
  token = std::string(rest);
}

/// The bytes that tokens such as <0x0A> write.
inline const std::unordered_map<std::string, char>& byte_tokens() {
  static const auto all = [] {
    std::unordered_map<std::string, char> byte_of;
    for (int byte = 0; byte < 256; ++byte)
      byte_of[BytePairEncoding::byte_token(byte)] = static_cast<char>(byte);
    return byte_of;
  }();
  return all;
}

/// Tokens may be parts of characters, so patterns must bear what is not UTF-8.
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

}  // namespace shardwise::detail
