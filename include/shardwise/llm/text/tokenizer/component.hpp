// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Shared by the components of a `tokenizer.json`: regular expressions, and helpers to read them.

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cctype>
#include <memory>

#include <shardwise/io/json.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/utf8.hpp>

namespace shardwise::llm::detail {

/// A regular expression of a tokenizer, in Oniguruma's syntax, matched by PCRE2. Patterns that the two interpret
/// differently are rejected.
class TextPattern {
 public:
  /// The texts to match are UTF-8, unless `options` has PCRE2_MATCH_INVALID_UTF.
  static TextPattern literal(std::string_view text, std::uint32_t options = 0) {
    return {text, std::string(text), options | PCRE2_LITERAL};
  }
  static TextPattern expression(std::string_view pattern, std::uint32_t options = 0) {
    constexpr std::uint32_t every_line = PCRE2_MULTILINE;  // Oniguruma's ^ and $ match at line ends
    return {pattern, translated(pattern), options | PCRE2_UCP | every_line};
  }

  /// Calls f(begin, end) for all matches in a text, and can be reused for further texts. Not thread-safe.
  class Scanner {
   public:
    explicit Scanner(const TextPattern& pattern)
        : code_(pattern.code_),
          literal_(pattern.literal_),
          match_(pcre2_match_data_create_8(1, nullptr), pcre2_match_data_free_8),
          stack_(pcre2_jit_stack_create_8(1 << 15, 1 << 24, nullptr), pcre2_jit_stack_free_8),
          context_(pcre2_match_context_create_8(nullptr), pcre2_match_context_free_8) {
      if (!match_ || !stack_ || !context_) throw std::bad_alloc();
      pcre2_jit_stack_assign_8(context_.get(), nullptr, stack_.get());
      pcre2_set_heap_limit_8(context_.get(), 1 << 14);  // KiB: as much as the stack, if there is no JIT
    }
    template <class F>
    void operator()(std::string_view text, F f) {
      const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
      // Patterns of tokenizers look a little ahead, and backtrack over a run of characters a few times. So a match
      // first sees a window of the text, with a limit of steps. Both are raised on demand, within a budget for the
      // whole text: a pattern that backtracks excessively, "(a+)+b", or looks to the end for each character,
      // "a(?=.*a)", fails instead of taking years.
      constexpr std::size_t window = 1024, steps = 1000;
      const std::size_t most = 10'000 + 32 * text.size();
      std::size_t sees = window, limit = steps, work = 0;
      bool anchored = false;  // the match must begin at `from`
      const auto spend = [&](std::size_t more) {
        work += more;
        if (work > (std::size_t{64} << 20) + 64 * text.size())
          throw std::runtime_error("a regular expression takes too many steps for the whole text");
      };
      for (std::size_t from = 0; from < text.size();) {
        std::size_t end = sees < text.size() - from && !literal_ ? from + sees : text.size();
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
        const bool part = end < text.size();
        pcre2_set_match_limit_8(context_.get(),
                                static_cast<std::uint32_t>(std::min(limit, std::size_t{1} << 31)));
        const int found = pcre2_match_8(
            code_.get(), subject, end, from,
            PCRE2_NO_UTF_CHECK | (part ? PCRE2_PARTIAL_HARD : 0u) | (anchored ? PCRE2_ANCHORED : 0u),
            match_.get(), context_.get());
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer_8(match_.get());
        if (found == PCRE2_ERROR_PARTIAL) {
          from = ends[0];
          anchored = true;
          spend(sees *= 2);
          continue;
        }
        if (found == PCRE2_ERROR_MATCHLIMIT && limit < most) {
          spend(limit = std::min(8 * limit, most));
          continue;
        }
        if (found < 0 && found != PCRE2_ERROR_NOMATCH)
          fail<std::runtime_error>({"a regular expression failed: ", message(found)});
        if (found >= 0) f(ends[0], ends[1]);
        from = found >= 0 ? ends[1]
               : anchored ? from + std::max<std::size_t>(1, character_at(text, from).length)
                          : end;
        sees = window, limit = steps, anchored = false;
      }
    }

   private:
    std::shared_ptr<const pcre2_code_8> code_;
    bool literal_;  // takes one step per character
    std::unique_ptr<pcre2_match_data_8, decltype(&pcre2_match_data_free_8)> match_;
    std::unique_ptr<pcre2_jit_stack_8, decltype(&pcre2_jit_stack_free_8)> stack_;
    std::unique_ptr<pcre2_match_context_8, decltype(&pcre2_match_context_free_8)> context_;
  };

 private:
  TextPattern(std::string_view given, const std::string& pattern, std::uint32_t options) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const std::shared_ptr<pcre2_compile_context_8> context(pcre2_compile_context_create_8(nullptr),
                                                           pcre2_compile_context_free_8);
    if (!context) throw std::bad_alloc();
    pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
    const std::shared_ptr<pcre2_code_8> code(
        pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), options | PCRE2_UTF,
                        &error, &offset, context.get()),
        pcre2_code_free_8);
    if (!code) fail({"the pattern \"", given, "\": ", message(error)});
    // "(?:abc){9999}" compiles to as many copies, and to even longer machine code.
    std::size_t compiled = 0;
    pcre2_pattern_info_8(code.get(), PCRE2_INFO_SIZE, &compiled);
    if (compiled > 4096 + 64 * given.size()) {
      fail({"the pattern \"", given, "\" repeats too long a part"});
    }
    // Without a just-in-time compiler, PCRE2 interprets: slower, with the same matches.
    pcre2_jit_compile_8(code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    std::uint32_t matches_nothing = 0;
    pcre2_pattern_info_8(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_nothing);
    if (matches_nothing != 0) {
      fail({"the pattern \"", given, "\" can match the empty text, which is not supported"});
    }
    code_ = code;
    literal_ = (options & PCRE2_LITERAL) != 0;
  }

  static std::string message(int error) {
    std::array<PCRE2_UCHAR8, 256> text{};
    pcre2_get_error_message_8(error, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
  }

  /// The same pattern in PCRE2's syntax.
  static std::string translated(std::string_view pattern) {
    // Unicode's White_Space; PCRE2's \s also includes U+180E.
    const std::string white_space = "\\t-\\r\\x{85}\\p{Z}";
    std::string result;
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size();) {
      const std::string_view rest = pattern.substr(i);
      auto begins = [&](auto... texts) { return (rest.starts_with(texts) || ...); };
      auto refuse = [&](std::size_t length) {
        fail({"the pattern \"", pattern, "\": \"", rest.substr(0, length), "\" at offset ", i,
              " is not supported"});
      };
      std::size_t length = 1;
      std::string written;  // the translation of the next `length` characters, if PCRE2's differs
      if (begins("\\p{", "\\P{")) {
        length = std::min(rest.find('}'), rest.size() - 1) + 1;
        if (!general_category(rest.substr(3, length - 4))) refuse(length);
      } else if (begins("\\s")) {
        length = 2;
        written = in_class ? white_space : "[" + white_space + "]";
      } else if (begins("\\S") && !in_class) {
        length = 2;
        written = "[^" + white_space + "]";
      } else if (begins("\\")) {
        length = 2;
        const char escaped = rest.size() > 1 ? rest[1] : 'z';
        const bool alphanumeric = std::isalnum(static_cast<unsigned char>(escaped)) != 0;
        if (alphanumeric && std::string_view("dDnrtf").find(escaped) == std::string_view::npos) refuse(2);
      } else if (in_class) {
        if (begins("[", "&&")) refuse(2);
        in_class = !begins("]");
      } else if (begins("[")) {
        length = begins("[^") ? 2 : 1;
        if (rest.substr(length).starts_with(']')) refuse(length + 1);
        in_class = true;
      } else if (begins("(?")) {
        if (!begins("(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>")) refuse(4);
      } else if (begins("(*", "{,", "}+", "}?")) {
        refuse(2);
      }
      result += written.empty() ? std::string(rest.substr(0, length)) : written;
      i += length;
    }
    return result;
  }

  /// Whether this is the name of a general category, such as L or Lu.
  static bool general_category(std::string_view name) {
    return (name.size() == 1 ||
            (name.size() == 2 && std::islower(static_cast<unsigned char>(name[1])) != 0)) &&
           std::string_view("LMNPSZC").find(name[0]) != std::string_view::npos;
  }

  std::shared_ptr<const pcre2_code_8> code_;
  bool literal_ = false;
};

/// Reports a component that this library does not support.
[[noreturn]] inline void refuse(const JsonPart& part, const std::string& kind) {
  part.fail("the " + kind + " \"" + excerpt(part.get<std::string>("type")) + "\" is not supported");
}

inline TextPattern read_pattern(const JsonPart& part, std::uint32_t options = 0) {
  part.only({"String", "Regex"});
  if (!part["String"].null()) return TextPattern::literal(part.get<std::string>("String"), options);
  return TextPattern::expression(part.get<std::string>("Regex"), options);
}

/// The value of a field that must be one character.
inline std::string read_character(const JsonPart& part) {
  auto text = part.get<std::string>();
  if (text.empty() || character_at(text, 0).length != text.size()) part.fail("expected one character");
  return text;
}

/// Metaspace: which words get a mark in place of a space: `always`, only the `first`, `never`.
inline std::string read_prepend_scheme(const JsonPart& part) {
  const bool prefix = part.get<bool>("add_prefix_space", true);
  auto scheme = part.get<std::string>("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    part["prepend_scheme"].fail("\"" + excerpt(scheme) + "\" is not supported");
  }
  if (!part["add_prefix_space"].null() && prefix == (scheme == "never")) {
    part.fail("add_prefix_space and prepend_scheme contradict each other");
  }
  return scheme;
}

/// The most bytes that a file's steps may produce from `bytes` bytes: a few steps that each double a text would
/// exhaust any memory.
constexpr std::size_t longest_made_of(std::size_t bytes) { return 16 * bytes + (std::size_t{1} << 16); }
/// Throws `std::length_error` if the limit is exceeded.
inline void check_length(std::size_t bytes, std::size_t longest) {
  if (bytes <= longest) return;
  fail<std::length_error>({"the tokenizer's steps would make more than ", longest,
                           " bytes of the text: more than 16 times as many, and 65536, is refused"});
}

/// The number of steps in a list, which may contain lists.
inline std::size_t count_steps(const Json& json) {
  std::size_t count = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const auto& part : json) count += count_steps(part);
  }
  return count;
}

/// The steps in the list `key` (the only key besides the type), read by `read`, as one step. Fails if there are
/// more than any tokenizer has, because the expression of a step may need a hundred times the memory of its text.
template <class Step, class Read>
Step read_sequence(const JsonPart& part, const char* key, Read read) {
  part.only({"type", key});
  const JsonPart list = part[key];
  constexpr std::size_t most = 64;
  if (const std::size_t count = count_steps(list.json()); count > most) {
    list.fail(text({count, " steps, expected ", most, " at most"}));
  }
  std::vector<Step> steps;
  list.for_each([&](const JsonPart& step) { steps.push_back(read(step)); });
  return [steps](auto& text, auto... longest) {
    for (const Step& step : steps) step(text, longest...);
  };
}

}  // namespace shardwise::llm::detail
