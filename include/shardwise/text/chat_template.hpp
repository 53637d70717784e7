// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dialogues as text, as a model was taught to read them: the `chat_template` of a tokenizer_config.json. Templates are
/// programs in Jinja; this knows what those of ChatML, Zephyr and Llama 3 are made of, and no more:
///
///     {{ TEXT }}   {% for NAME in messages %} … {% endfor %}   {% set NAME = TEXT %}   {# … #}
///     {% if CONDITION %} … {% elif CONDITION %} … {% else %} … {% endif %}
///     TEXT: 'text', NAME, NAME['key'], NAME.key, bos_token, eos_token; with `| trim` or `.strip()`; joined by +
///     CONDITION: TEXT, TEXT == TEXT, TEXT != TEXT, add_generation_prompt, loop.first, loop.last, loop.index0 == 0; after `not`;
///     joined by `and`, or by `or`
///
/// Anything else is an error that quotes it, when the template is read. Blocks are trimmed as transformers trims them.
///
/// ```
/// const auto chat = ChatTemplate::from_folder("llama/");
/// chat->render(messages, true);   // "<|user|>\nHello</s>\n<|assistant|>\n"
/// ```

#include <shardwise/text/template_run.hpp>

namespace shardwise {

class ChatTemplate {
 public:
  /// Throws `std::runtime_error`, which begins with `source`, for what is not supported.
  explicit ChatTemplate(std::string_view text, std::string bos_token = {}, std::string eos_token = {},
                        std::string source = "chat template")
      : bos_token_(std::move(bos_token)), eos_token_(std::move(eos_token)), source_(std::move(source)) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    detail::naming(source_, [&] {
      pieces_ = detail::template_pieces(text);
      detail::TemplateRun(pieces_, names(false)).check();
      return 0;
    });
  }

  /// The template that is a file, or without one that of a folder: chat_template.jinja, or "chat_template" in
  /// tokenizer_config.json; nothing if it has none. The special tokens are those of the folder's tokenizer_config.json.
  static std::optional<ChatTemplate> from_folder(const std::filesystem::path& folder,
                                                 std::filesystem::path file = {}) {
    const auto config_file = folder / "tokenizer_config.json";
    const Json json =
        !folder.empty() && std::filesystem::exists(config_file) ? read_json(config_file) : Json::object();
    const detail::JsonPart config(json, config_file.string() + ": ");
    auto special = [&](const char* name) {  // "<s>", or {"content": "<s>", …}
      const detail::JsonPart token = config[name];
      return token.json().is_object() ? token.get<std::string>("content") : config.get<std::string>(name, "");
    };
    if (file.empty() && std::filesystem::exists(folder / "chat_template.jinja"))
      file = folder / "chat_template.jinja";
    if (file.empty() && config["chat_template"].null()) return std::nullopt;
    return ChatTemplate(file.empty() ? config.get<std::string>("chat_template") : detail::read_text(file),
                        special("bos_token"), special("eos_token"),
                        file.empty() ? config_file.string() + ": chat_template" : file.string());
  }

  /// The text of messages, a list of {"role": …, "content": …}.
  std::string render(const Json& messages, bool add_generation_prompt) const {
    std::vector<std::size_t> begins;
    return render(messages, add_generation_prompt, 0, messages.size(), begins);
  }
  /// The same of messages `first` to `end`, as the last of a dialogue; `begins` gets where in the text each of them begins, once
  /// for each loop through them.
  std::string render(const Json& messages, bool add_generation_prompt, std::size_t first, std::size_t end,
                     std::vector<std::size_t>& begins) const {
    return detail::naming(source_, [&] {
      detail::TemplateRun run(pieces_, names(add_generation_prompt));
      std::string text = run.run(messages, first, end);
      begins = run.begins();
      return text;
    });
  }

 private:
  detail::TemplateRun::Names names(bool add_generation_prompt) const {
    return {{"bos_token", bos_token_},
            {"eos_token", eos_token_},
            {"add_generation_prompt", add_generation_prompt ? "1" : ""}};
  }

  std::string bos_token_, eos_token_, source_;
  std::vector<detail::TemplatePiece> pieces_;
};

}  // namespace shardwise
