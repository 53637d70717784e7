// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dialogues in JSON lines: their messages, which of them are trained on, and where those are in the rendered text.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template.hpp>

namespace shardwise::llm::detail {

using ByteRanges = std::vector<std::pair<std::size_t, std::size_t>>;  // [begin, end)

/// Parsing an object with ordered members takes time quadratic in their number.
inline void check_members(const Json& json) {
  if (json.is_object() && json.size() > 1000) throw std::runtime_error("an object of more than 1000 members");
  if (json.is_structured()) std::ranges::for_each(json, [](const Json& part) { check_members(part); });
}

/// Whether a message is trained on: by default only those of assistants.
inline bool is_learned(const JsonPart& message, const std::string& role) {
  bool learned = role == "assistant";
  for (const char* key :
       {"weight", "train", "training", "trainable", "learn", "loss", "loss_weight", "loss_mask"}) {
    const JsonPart part = message[key];
    if (part.null()) continue;
    const bool yes = part.json() == 1 || part.json() == true;
    if (!yes && part.json() != 0 && part.json() != false) part.expected("0 or 1, or true or false");
    if (yes && role != "assistant") part.fail("only what the role \"assistant\" says can be learned");
    learned = learned && yes;
  }
  return learned;
}
/// A text, or a list of {"type": "text", "text": …} whose texts are concatenated.
inline std::string content_of(const JsonPart& content) {
  if (!content.json().is_array()) return content.get<std::string>();
  std::string text;
  content.for_each([&](const JsonPart& part) {
    if (part.get<std::string>("type", "text") != "text") part["type"].expected("\"text\"");
    text += part.get<std::string>("text");
  });
  return text;
}
/// The messages of a line, and which are trained on. `ordered` is the line with its objects' members in order.
inline OrderedJson messages_of(const JsonPart& line, OrderedJson ordered, std::vector<bool>& learned) {
  OrderedJson messages = OrderedJson::array();
  auto add = [&](OrderedJson message, const std::string& role, const std::optional<std::string>& content) {
    message["role"] = role;
    if (content) message["content"] = *content;
    messages.push_back(std::move(message));
  };
  const bool named = !line["messages"].null();
  const std::string system = named ? "" : line.get<std::string>("system", "");
  if (!system.empty()) add({}, "system", system), learned.push_back(false);
  if (!line["instruction"].null()) {
    if (!line["history"].json().empty())
      line["history"].fail("is not supported: write a dialogue of messages");
    const std::string input = line.get<std::string>("input", "");
    add({}, "user", line.get<std::string>("instruction") + (input.empty() ? "" : "\n\n" + input));
    add({}, "assistant", line.get<std::string>("output"));
    learned.insert(learned.end(), {false, true});
    return messages;
  }
  const char* list = named ? "messages" : "conversations";
  std::size_t i = 0;
  line[list].for_each([&](const JsonPart& message) {
    std::string role = message.get<std::string>(named ? "role" : "from");
    for (const auto& [from, to] :
         {std::pair{"human", "user"}, {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}})
      if (!named && role == from) role = to;
    if (!named && role != "user" && role != "assistant" && role != "system")
      message["from"].expected("\"human\", \"gpt\" or \"system\"");
    learned.push_back(is_learned(message, role));
    const JsonPart content = message[named ? "content" : "value"];
    const bool calls = content.null() && !message["tool_calls"].null();
    // Templates test whether it is null or missing.
    add(std::move(ordered[list][i++]), role, calls ? std::nullopt : std::optional(content_of(content)));
  });
  return messages;
}

/// A marker inserted before special tokens in a message: a noncharacter, which does not occur in text.
inline constexpr std::string_view special_mark = "\xef\xb7\x90";  // U+FDD0

/// Marks the special tokens in all texts, also in names of members; positions(text) returns their offsets.
template <class Positions>
void mark_special_tokens(OrderedJson& json, Positions positions) {
  const auto marked = [&](const std::string& text) {
    if (text.find(special_mark) != text.npos)
      throw std::runtime_error("U+FDD0 in a message: it is not a character");
    std::string all;
    std::size_t done = 0;
    for (const std::size_t at : positions(text)) {
      all.append(text, done, at - done).append(special_mark);
      done = at;
    }
    return all.append(text, done);
  };
  if (json.is_structured()) {
    for (OrderedJson& part : json) mark_special_tokens(part, positions);
  } else if (json.is_string()) {
    json = marked(json);
  }
  if (!json.is_object()) return;
  OrderedJson renamed = OrderedJson::object();
  for (auto& [name, member] : json.items()) renamed[marked(name)] = std::move(member);
  json = std::move(renamed);
}

/// The text of a dialogue, and the byte ranges in it that are trained on.
inline std::string rendered(const ChatTemplate& chat, const JsonPart& line, const OrderedJson& messages,
                            const std::vector<bool>& learned, const OrderedJson& variables,
                            ByteRanges& answers) {
  const RenderedChat all = chat.rendered(messages, false, variables);
  const std::string_view text = all.text;
  const auto& begins = all.begins;
  if (!all.generated.empty()) {
    bool leaves_out = false;  // some assistant messages are not trained on
    for (std::size_t i = 0; i < messages.size(); ++i)
      leaves_out = leaves_out || (messages[i].at("role") == "assistant" && !learned[i]);
    for (const auto& [begin, end] : all.generated) {
      const auto of = std::ranges::upper_bound(begins, begin) - begins.begin();
      if (of == 0 && leaves_out)
        line.fail("an answer is left out, but it is not known which the chat template writes where");
      if (of == 0 || learned[static_cast<std::size_t>(of) - 1]) answers.emplace_back(begin, end);
    }
    return all.text;
  }
  // The rendering of the first messages alone, which must be a prefix of the text.
  int renderings = 0;
  const auto first = [&](std::size_t count, bool prompt, std::size_t least = 0) {
    if (++renderings > 512)
      line.fail("so many answers need a chat template with one loop through the messages");
    const OrderedJson some(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
    std::string part = chat.rendered(some, prompt, variables).text;
    if (!text.starts_with(part) || part.size() < least)
      line.fail(
          "the chat template writes the beginning of a dialogue differently when it continues, so that "
          "answers cannot be told apart; to learn only the last, give the others \"weight\": 0");
    return part;
  };
  std::map<std::string, std::string> heads;  // the ends of prompts, by the role before the answer
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!learned[i]) continue;
    if (begins.empty()) {
      const std::size_t begin = i > 0 ? first(i, true).size() : 0;
      answers.emplace_back(begin, first(i + 1, false).size());
      continue;
    }
    std::size_t begin = begins[i];
    if (i > 0) {
      const auto [head, fresh] = heads.try_emplace(messages[i - 1].at("role"));
      if (fresh || !text.substr(begin).starts_with(head->second))
        head->second = first(i, true, begin).substr(begin);
      if (text.substr(begin).starts_with(head->second)) begin += head->second.size();
    }
    answers.emplace_back(begin, i + 1 < begins.size() ? begins[i + 1] : text.size());
  }
  return all.text;
}

}  // namespace shardwise::llm::detail
