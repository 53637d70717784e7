// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files with a document a line, in JSON:
///
///     {"text": "All of it is learned."}
///     {"prompt": "2 + 2 =", "completion": " 4"}                                        the completion is learned
///     {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
///                                                                                      what assistants say is learned
///
/// Other keys are not looked at, and empty lines are none.
///
/// ```
/// auto documents = read_json_lines(mesh, {"train.jsonl"}, tokenizer, {.chat = ChatTemplate::from_folder("llama/")});
/// auto held_out = hold_out(documents, 0.1, seed);
/// ```

#include <shardwise/data/document_rows.hpp>
#include <shardwise/data/documents.hpp>
#include <shardwise/mesh/agreement.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/text/chat_template.hpp>

namespace shardwise {

struct JsonLinesOptions {
  std::optional<ChatTemplate> chat = {};  ///< of dialogues
  /// What texts and prompts begin with, unless the tokenizer puts it there; and what texts and completions end with,
  /// unless the tokenizer has a token for that.
  std::optional<std::int32_t> begin = {}, end = {};
};

namespace detail {

/// The tokens of a text, of which some parts, [begin, end) in bytes, are to be learned. A token that only begins within a part
/// is none of it, one that only ends there is: what is before a part is encoded by itself, to see how far the tokens agree; or
/// what follows a part before it, if all tokens agree and it is more than the spaces that an encoder may put before a text.
template <class Encode>
TrainingDocument encoded(std::string_view text, const std::vector<std::pair<std::size_t, std::size_t>>& parts,
                         Encode encode) {
  TrainingDocument document{encode(text), {}};
  std::size_t border = 0;  // which `known` tokens are before
  Index known = 0;
  auto tokens_before = [&](std::size_t bytes) -> Index {
    if (bytes == border) return known;
    if (bytes == text.size()) return static_cast<Index>(document.tokens.size());
    for (;; border = 0, known = 0) {
      const std::vector<std::int32_t> before = encode(text.substr(border, bytes - border));
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

/// The text of a dialogue, and where in it an assistant speaks.
inline std::string rendered(const ChatTemplate& chat, const JsonPart& messages,
                            std::vector<std::pair<std::size_t, std::size_t>>& answers) {
  messages.for_each([](const JsonPart& message) {
    for (const char* key : {"role", "content"}) message.get<std::string>(key);
  });
  const Json& all = messages.json();
  std::vector<std::size_t> begins, own;
  std::string text = chat.render(all, false, 0, all.size(), begins);
  // Those of the first `count` messages: of the last alone, where one loop has written what is before it. All would be quadratic work.
  auto bytes_of = [&](std::size_t count, bool prompt) {
    const std::size_t first = begins.size() == all.size() ? count - 1 : 0;
    const std::string some = chat.render(all, prompt, first, count, own);
    const std::size_t before = first > 0 && !own.empty() ? own[0] : 0, begin = first > 0 ? begins[first] : 0;
    const std::string_view rest = std::string_view(some).substr(before);
    if (!text.starts_with(some.substr(0, before)) ||
        !std::string_view(text).substr(begin).starts_with(rest)) {
      messages.fail(
          "the chat template writes the beginning of a dialogue otherwise when it goes on, so that "
          "answers cannot be told apart");
    }
    return begin + rest.size();
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]["role"] == "assistant")
      answers.emplace_back(i > 0 ? bytes_of(i, true) : 0, bytes_of(i + 1, false));
  }
  return text;
}

template <TextEncoder Encoder>
TrainingDocument document_of_line(const JsonPart& line, const Encoder& tokenizer,
                                  const JsonLinesOptions& options) {
  auto has = [&](const char* key) { return !line[key].null(); };
  std::vector<std::pair<std::size_t, std::size_t>> answers;
  if (has("messages")) {
    if (!options.chat) line["messages"].fail("a dialogue needs a chat template, and there is none");
    const std::string text = rendered(*options.chat, line["messages"], answers);
    return encoded(text, answers, [&](std::string_view part) {
      if constexpr (requires { tokenizer.encode(part, {.add_special_tokens = false}); }) {
        return tokenizer.encode(part, {.add_special_tokens = false});  // they are in the template
      } else {
        return tokenizer.encode(part);
      }
    });
  }
  const bool prompted = has("prompt") || has("completion");
  if (!prompted && !has("text"))
    line.expected("an object with \"text\", with \"prompt\" and \"completion\", or with \"messages\"");
  const std::string prompt = prompted ? line.get<std::string>("prompt") : "";
  const std::string text = prompt + line.get<std::string>(prompted ? "completion" : "text");
  TrainingDocument document = encoded(text, {{prompt.size(), text.size()}}, [&](std::string_view part) {
    auto tokens = tokenizer.encode(part);
    if (options.begin && (tokens.empty() || tokens.front() != *options.begin))
      tokens.insert(tokens.begin(), *options.begin);
    return tokens;
  });
  const std::optional<std::int32_t> own_end = tokenizer.end_token(), end = own_end ? own_end : options.end;
  auto& tokens = document.tokens;
  if (end && (tokens.empty() || tokens.back() != *end)) {
    tokens.push_back(*end);
    const auto last = static_cast<Index>(tokens.size()) - 1;
    if (document.answers.empty()) document.answers.push_back({last, 0});
    document.answers.back().size += 1;
  }
  return document;
}

}  // namespace detail

/// The documents of files, in their order, which stay in memory. Throws `std::runtime_error`, which begins with
/// "FILE:LINE: ", for a line that is no JSON or not one of the three forms; and if there is none.
template <TextEncoder Encoder>
std::vector<TrainingDocument> read_json_lines(const std::vector<std::filesystem::path>& paths,
                                              const Encoder& tokenizer,
                                              const JsonLinesOptions& options = {}) {
  std::vector<TrainingDocument> documents;
  for (const std::filesystem::path& path : paths) {
    const std::string text = detail::read_text(path);
    std::string_view rest = text;
    for (Index number = 1; !rest.empty(); ++number) {
      const std::string_view line = detail::take_part(rest, '\n');
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      const std::string place = detail::text({path.string(), ":", number});
      documents.push_back(detail::naming(place, [&] {
        const detail::FileWork here("tokenizes", path.native());  // other ranks may wait for it
        const Json json = detail::json_of(line);
        return detail::document_of_line(detail::JsonPart(json), tokenizer, options);
      }));
      documents.back().place = place;
    }
  }
  if (documents.empty()) {
    throw std::runtime_error((paths.empty() ? "" : paths.front().string() + ": ") +
                             "there are no documents in the files");
  }
  return documents;
}

/// The same on many ranks, all of which read all files. Collective; where one rank fails, or has other tokens than the first,
/// all throw the same `std::runtime_error`.
template <MeshAxis... Axes, TextEncoder Encoder>
std::vector<TrainingDocument> read_json_lines(const Mesh<Axes...>& mesh,
                                              const std::vector<std::filesystem::path>& paths,
                                              const Encoder& tokenizer,
                                              const JsonLinesOptions& options = {}) {
  const Communicator ranks = mesh.communicator();
  std::vector<TrainingDocument> documents;
  detail::together(ranks, "read_json_lines", [&] { documents = read_json_lines(paths, tokenizer, options); });
  const Index mine[]{std::bit_cast<Index>(fingerprint_of(documents))};
  const std::vector<Index> all = detail::gather(ranks, mine);
  detail::together(ranks, "read_json_lines", [&] {
    if (mine[0] != all[0]) throw std::runtime_error("other documents than on rank 0: the files differ");
  });
  return documents;
}

}  // namespace shardwise
