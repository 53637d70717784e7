// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files with one document per line, in JSON:
///
///     {"text": "All of it is trained on."}
///     {"prompt": "2 + 2 =", "completion": " 4"}                               only the completion is trained on
///     {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
///                                                                             only assistants' messages are
///     {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]}        the same
///     {"instruction": "Add.", "input": "2 and 2", "output": "4"}                                      the same
///
/// A message with "weight": 0 or "train": false is not trained on. Other keys of a line are ignored, and empty
/// lines are skipped.
///
/// ```
/// auto documents = read_json_lines(mesh, {"train.jsonl"}, tokenizer, {.chat = ChatTemplate::from_folder("llama/")});
/// auto held_out = hold_out(documents, 0.1, seed);
/// ```

#include <fstream>

#include <shardwise/llm/data/dialogues.hpp>
#include <shardwise/llm/data/document_rows.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

struct JsonLinesOptions {
  std::optional<ChatTemplate> chat = {};  ///< for dialogues
  /// The token before texts and prompts, unless the tokenizer adds one; and the token after texts and completions,
  /// instead of the tokenizer's end token.
  std::optional<std::int32_t> begin = {}, end = {};
  /// "<s>" in a text, prompt or completion becomes that token. In a dialogue, only the template can produce such
  /// tokens.
  bool match_special_tokens = false;
  /// The file in which the documents are kept for this run and later ones, as for `open_token_corpus`; empty: memory.
  std::filesystem::path cache = {};
};

namespace detail {

/// The tokens of a text with the given parts as answers. A token that crosses the beginning of a part does not
/// belong to it, one that crosses its end does. encode(begin, end) returns the tokens of a range of the text. To
/// locate a border, the text before it is encoded separately and compared; if all tokens agree, the next search
/// starts there, unless only spaces, which an encoder may add before a text, follow.
template <class Encode>
TrainingDocument encoded(std::string_view text, const ByteRanges& parts, Encode encode) {
  TrainingDocument document{encode(0, text.size()), {}};
  std::size_t border = 0, work = 0;  // bytes of the text before the known tokens; bytes encoded so far
  Index known = 0;
  auto tokens_before = [&](std::size_t bytes) -> Index {
    if (bytes == border) return known;
    if (bytes == text.size()) return static_cast<Index>(document.tokens.size());
    for (;; border = 0, known = 0) {
      work += bytes - border;
      if (work > 64 * text.size() + (std::size_t{1} << 20))
        throw std::runtime_error("too many answers begin or end within a token: the work would be quadratic");
      const std::vector<std::int32_t> before = encode(border, bytes);
      const std::span rest = std::span(document.tokens).subspan(static_cast<std::size_t>(known));
      const Index agree = std::ranges::mismatch(before, rest).in1 - before.begin();
      const bool all = agree == std::ssize(before);
      const bool blank = text.substr(0, bytes).find_first_not_of(' ', border) == text.npos;
      if (border > 0 && (blank || !all)) continue;
      if (all) border = bytes, known += agree;
      return all ? known : agree;
    }
  };
  for (const auto& [begin, end] : parts) {
    const Index first = tokens_before(begin), last = tokens_before(end);
    if (first < last) document.answers.push_back({first, last - first});
  }
  return document;
}

template <TextEncoder Encoder>
TrainingDocument document_of_line(std::string_view given, const Encoder& tokenizer,
                                  const JsonLinesOptions& options) {
  const Json json = json_of(given);
  const JsonPart line(json);
  auto has = [&](const char* key) { return !line[key].null(); };
  constexpr bool of_file = requires {
    tokenizer.special_tokens_in(given);
  };  // otherwise no text has special tokens
  if (has("messages") || has("conversations") || has("instruction")) {
    const JsonPart place = line[has("messages")        ? "messages"
                                : has("conversations") ? "conversations"
                                                       : "instruction"];
    if (!options.chat) place.fail("a dialogue needs a chat template, and there is none");
    check_members(json);
    auto ordered = OrderedJson::parse(given);
    OrderedJson variables = OrderedJson::object();  // of the template
    if (has("chat_template_kwargs")) variables = ordered["chat_template_kwargs"];
    if (!variables.is_object()) line["chat_template_kwargs"].expected("an object");
    if (!line["tools"].json().empty()) variables["tools"] = ordered["tools"];
    std::vector<bool> learned;
    OrderedJson messages = messages_of(line, std::move(ordered), learned);
    if constexpr (of_file) {
      for (OrderedJson* said : {&messages, &variables})
        mark_special_tokens(*said,
                            [&](const std::string& text) { return tokenizer.special_tokens_in(text); });
    }
    ByteRanges answers;
    const std::string marked = rendered(*options.chat, place, messages, learned, variables, answers);
    std::string text;
    std::vector<std::size_t> ordinary, marks;  // offsets of special tokens that are text; of their marks
    for (std::string_view rest = marked;;) {
      const std::size_t at = rest.find(special_mark);
      text += rest.substr(0, at);
      if (at == rest.npos) break;
      ordinary.push_back(text.size());
      marks.push_back(text.size() + special_mark.size() * marks.size());
      rest.remove_prefix(at + special_mark.size());
    }
    for (auto& [begin, end] : answers) {
      for (std::size_t* at : {&begin, &end})
        *at -= special_mark.size() *
               static_cast<std::size_t>(std::ranges::lower_bound(marks, *at) - marks.begin());
    }
    if constexpr (of_file) {
      const auto encode = [&](std::size_t begin, std::size_t end) {
        std::vector<std::size_t> own;
        for (const std::size_t at : ordinary)
          if (at >= begin) own.push_back(at - begin);
        return tokenizer.encode(std::string_view(text).substr(begin, end - begin),
                                {.add_special_tokens = false, .ordinary = own});
      };
      TrainingDocument document = encoded(text, answers, encode);
      document.has_special_text = !ordinary.empty();
      return document;
    } else {
      return encoded(text, answers, [&](std::size_t begin, std::size_t end) {
        return tokenizer.encode(std::string_view(text).substr(begin, end - begin));
      });
    }
  }
  const bool prompted = has("prompt") || has("completion");
  if (!prompted && !has("text"))
    line.expected(
        "an object with \"text\", with \"prompt\" and \"completion\", with \"messages\", with "
        "\"conversations\", or with "
        "\"instruction\" and \"output\"");
  const std::string prompt = prompted ? line.get<std::string>("prompt") : "";
  const std::string text = prompt + line.get<std::string>(prompted ? "completion" : "text");
  TrainingDocument document =
      encoded(text, {{prompt.size(), text.size()}}, [&](std::size_t begin, std::size_t end) {
        const std::string_view part = std::string_view(text).substr(begin, end - begin);
        std::vector<std::int32_t> tokens;
        if constexpr (of_file) {
          tokens = tokenizer.encode(part, {.match_special_tokens = options.match_special_tokens});
        } else {
          tokens = tokenizer.encode(part);
        }
        if (options.begin && (tokens.empty() || tokens.front() != *options.begin))
          tokens.insert(tokens.begin(), *options.begin);
        return tokens;
      });
  if constexpr (of_file)
    document.has_special_text = !options.match_special_tokens && !tokenizer.special_tokens_in(text).empty();
  const std::optional<std::int32_t> end = options.end ? options.end : tokenizer.end_token();
  auto& tokens = document.tokens;
  if (end && (tokens.empty() || tokens.back() != *end)) {
    tokens.push_back(*end);
    const auto last = static_cast<Index>(tokens.size()) - 1;
    if (document.answers.empty()) document.answers.push_back({last, 0});
    document.answers.back().size += 1;
  }
  return document;
}

/// Files of JSON lines as a source of tokens, see `TextSource`.
template <TextEncoder Encoder>
struct LinesSource {
  const Paths& paths;
  const Encoder& tokenizer;
  const JsonLinesOptions& options;

  bool is_in(const TokenFileHeader& header) const {
    return header.tokenizer == tokenizer.fingerprint() && header.vocabulary == document_number_range &&
           header.corpus == for_each_line([](auto...) {});
  }
  template <class Take>
  TokenFileHeader tokenise(Take take) const {
    TokenPacker packer(document_number_range, tokenizer.fingerprint());
    const std::uint64_t text = for_each_line([&](std::string_view line, Index file, Index number) {
      const Path& path = paths[static_cast<std::size_t>(file)];
      take(packer.pack(prefix_errors(detail::text({path.string(), ":", number}), [&] {
        const FileWork here("tokenizes", path.native());  // other ranks may wait for it
        return numbers_of(document_of_line(line, tokenizer, options), file, number);
      })));
    });
    const TokenFileHeader header = packer.header(text);
    if (header.count > 0) return header;
    throw std::runtime_error((paths.empty() ? "" : paths.front().string() + ": ") +
                             "there are no documents in the files");
  }
  TrainingDocuments documents(TokenCorpus numbers) const {
    std::vector<std::string> names;
    for (const Path& path : paths) names.push_back(path.string());
    return {std::move(numbers), std::move(names)};
  }

 private:
  /// Calls take(line, file, number) for each line that is not blank. Returns the fingerprint of files and options.
  template <class Take>
  std::uint64_t for_each_line(Take take) const {
    Fingerprint all;
    for (const std::uint64_t each :
         {options.chat ? options.chat->fingerprint() : 0,
          static_cast<std::uint64_t>(options.begin.value_or(-1)),
          static_cast<std::uint64_t>(options.end.value_or(-1)), std::uint64_t{options.match_special_tokens}})
      all.add(each);
    for (Index file = 0; file < std::ssize(paths); ++file) {
      const Path& path = paths[static_cast<std::size_t>(file)];
      all.add(static_cast<std::uint64_t>(File(path, O_RDONLY).size()));
      std::ifstream lines(path, std::ios::binary);
      std::string line;
      for (Index number = 1; std::getline(lines, line); ++number) {
        all.add(line).add("\n");
        if (line.find_first_not_of(" \t\r") != line.npos) take(line, file, number);
      }
      if (lines.bad()) throw_file_error(path, "cannot be read");
    }
    return all.value();
  }
};

}  // namespace detail

/// The documents of files, in order, in memory or in the cache. Throws `std::runtime_error`, beginning with
/// "FILE:LINE: ", for a line that is not JSON or has none of these forms; if there are no documents; and as
/// `open_token_corpus` does for a cache.
template <TextEncoder Encoder>
TrainingDocuments read_json_lines(const std::vector<std::filesystem::path>& paths, const Encoder& tokenizer,
                                  const JsonLinesOptions& options = {}) {
  const detail::LinesSource<Encoder> source{paths, tokenizer, options};
  return source.documents(detail::open_tokens(source, options.cache));
}

/// The same on many ranks. Without a cache, all read all files; with one, the first reads them and writes it, and all
/// map it. Collective; if one rank fails, or gets other tokens than the first, all throw the same
/// `std::runtime_error`.
template <MeshAxis... Axes, TextEncoder Encoder>
TrainingDocuments read_json_lines(const Mesh<Axes...>& mesh, const std::vector<std::filesystem::path>& paths,
                                  const Encoder& tokenizer, const JsonLinesOptions& options = {}) {
  const detail::LinesSource<Encoder> source{paths, tokenizer, options};
  return source.documents(detail::open_tokens(mesh.communicator(), "read_json_lines", source, options.cache));
}

}  // namespace shardwise::llm
