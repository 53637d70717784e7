// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Renders dialogues in the format that a model was trained on: the `chat_template` of a tokenizer_config.json.
/// Templates are programs in Jinja. The subset supported here suffices for those of Llama 2 and 3, Mistral, Qwen,
/// DeepSeek, Gemma, Phi and SmolLM, with the same output as transformers; docs/learn/data.md lists it. Anything
/// else is an error, with its text and line, when the template is read.
///
/// ```
/// const auto chat = ChatTemplate::from_folder("llama/");
/// chat->render(messages, true);   // "<|user|>\nHello</s>\n<|assistant|>\n"
/// ```

#include <shardwise/io/fingerprint.hpp>
#include <shardwise/llm/text/chat_template/run.hpp>
#include <shardwise/llm/text/special_token.hpp>

namespace shardwise::llm {

class ChatTemplate {
 public:
  /// Throws `std::runtime_error`, beginning with `source` and the line, for unsupported templates.
  explicit ChatTemplate(std::string_view text, std::string bos_token = {}, std::string eos_token = {},
                        std::string source = "chat template")
      : bos_token_(std::move(bos_token)), eos_token_(std::move(eos_token)), source_(std::move(source)) {
    std::string lines;  // with \n as line ends, as in Jinja
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!text.substr(i).starts_with("\r\n")) lines += text[i] == '\r' ? '\n' : text[i];
    }
    if (lines.ends_with('\n')) lines.pop_back();
    for (const std::string* each : {&lines, &bos_token_, &eos_token_})
      fingerprint_.add(std::uint64_t{each->size()}).add(*each);
    prefix_errors(source_, [&] {
      if (first_non_text(lines) < lines.size()) throw std::runtime_error("it is not UTF-8 text");
      pieces_ = detail::template_pieces(lines);
      detail::TemplateRun(pieces_, {}).run(false);
    });
  }

  /// The template in `file`, or by default that of a folder: chat_template.jinja, or "chat_template" in
  /// tokenizer_config.json (of several, the one named "default"); nothing if there is none. Special tokens come
  /// from the folder's tokenizer_config.json or special_tokens_map.json.
  static std::optional<ChatTemplate> from_folder(const std::filesystem::path& folder,
                                                 std::filesystem::path file = {}) {
    const auto config_file = folder / "tokenizer_config.json";
    const Json json =
        !folder.empty() && std::filesystem::exists(config_file) ? read_json(config_file) : Json::object();
    const JsonPart given = JsonPart(json, config_file.string() + ": ")["chat_template"];
    if (file.empty() && std::filesystem::exists(folder / "chat_template.jinja"))
      file = folder / "chat_template.jinja";
    if (file.empty() && given.null()) return std::nullopt;
    std::string text = file.empty() ? "" : read_text(file);
    if (file.empty() && given.json().is_array()) {
      std::size_t i = 0;
      while (i < given.json().size() && given[i].get<std::string>("name") != "default") ++i;
      if (i == given.json().size()) given.expected("one that is named \"default\"");
      text = given[i].get<std::string>("template");
    } else if (file.empty()) {
      text = given.get<std::string>();
    }
    return ChatTemplate(text, detail::special_token(folder, "bos_token").value_or(""),
                        detail::special_token(folder, "eos_token").value_or(""),
                        file.empty() ? config_file.string() + ": chat_template" : file.string());
  }

  /// A hash of everything that determines the texts.
  std::uint64_t fingerprint() const { return fingerprint_.value(); }

  /// The text of messages, a list of {"role": …, "content": …}. Throws `std::runtime_error` if the template does.
  std::string render(const Json& messages, bool add_generation_prompt) const {
    return rendered(detail::OrderedJson(messages), add_generation_prompt).text;
  }
  /// `variables` are further ones of the template, such as {"tools": […], "enable_thinking": false}.
  RenderedChat rendered(nlohmann::ordered_json messages, bool add_generation_prompt,
                        const nlohmann::ordered_json& variables = {}) const {
    return prefix_errors(source_, [&] {
      detail::TemplateRun::Names names{{"messages", detail::value_of(std::move(messages))},
                                       {"bos_token", detail::value_of(bos_token_)},
                                       {"eos_token", detail::value_of(eos_token_)},
                                       {"add_generation_prompt", detail::value_of(add_generation_prompt)},
                                       {"raise_exception", detail::value_of(true)},  // is defined
                                       {"strftime_now", detail::value_of(true)}};
      if (!variables.is_null() && !variables.is_object())
        throw std::runtime_error("expected an object of variables, such as {\"tools\": [...]}");
      for (const auto& [name, value] : variables.items()) {
        if (!names.try_emplace(name, detail::value_of(value)).second)
          throw std::runtime_error("the variable \"" + name + "\" cannot be given: it has another value");
      }
      names.try_emplace("tools", detail::value_of(nullptr));
      return detail::TemplateRun(pieces_, std::move(names)).run(true);
    });
  }

 private:
  std::string bos_token_, eos_token_, source_;
  Fingerprint fingerprint_;
  std::vector<detail::TemplatePiece> pieces_;
};

}  // namespace shardwise::llm
