// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Documents of JSON lines: which of their tokens are learned, the rows that they fill, and chat templates.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <shardwise/data/json_lines.hpp>
#include <shardwise/text/byte_tokenizer.hpp>

namespace shardwise::testing::json_lines {
namespace {

using namespace shardwise;

/// A byte that ends a text.
struct Bytes : ByteTokenizer {
  std::optional<std::int32_t> end_token() const { return '$'; }
};

/// The documents of a file with these lines.
template <class Encoder = ByteTokenizer>
std::vector<TrainingDocument> documents_of(const std::string& lines, const JsonLinesOptions& options = {},
                                           const Encoder& tokenizer = {}) {
  const auto file =
      std::filesystem::temp_directory_path() / ("shardwise-lines-" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(file) << lines;
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove(path); }
  } const removed{file};
  try {
    return read_json_lines({file}, tokenizer, options);
  } catch (const std::runtime_error& error) {  // without the folder
    const std::string what = error.what();
    throw std::runtime_error(what.starts_with(file.string()) ? what.substr(file.string().size()) : what);
  }
}

/// The bytes, with what is learned in brackets.
std::string shown(const TrainingDocument& document) {
  std::string text;
  std::size_t answer = 0;
  for (Index i = 0; i <= static_cast<Index>(document.tokens.size()); ++i) {
    const bool inside = answer < document.answers.size();
    if (inside && document.answers[answer].end() == i) text += ']', ++answer;
    if (answer < document.answers.size() && document.answers[answer].begin == i) text += '[';
    if (i < static_cast<Index>(document.tokens.size()))
      text += static_cast<char>(document.tokens[static_cast<std::size_t>(i)]);
  }
  return text;
}

const std::string zephyr =
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] "
    "+ "
    "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + "
    "eos_token "
    "}}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token "
    "}}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% "
    "endfor %}";
const std::string chatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";
const std::string llama3 =
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
    "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content "
    "}}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% "
    "endif %}";
const std::string spaced = R"(
{%- for m in messages -%}
    {#- who speaks -#}
    {%- if not m.role == "user" and m.role != 'system' %}
A: {{ m.content.strip() }}
    {%- else %}
Q: {{- ' ' + m.content }}
    {% endif -%}
{%- endfor %}
)";

Json dialogue() {
  return Json::parse(R"([{"role": "system", "content": "Be brief. "}, {"role": "user", "content": "2+2?"},
                         {"role": "assistant", "content": " 4 "}, {"role": "user", "content": "And 1?"}])");
}

/// What the template does not understand.
std::string refusal(const std::string& text) {
  try {
    ChatTemplate{text};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

std::string refusal_of_line(const std::string& line, const JsonLinesOptions& options = {}) {
  try {
    documents_of("{\"text\": \"good\"}\n\n" + line + "\n", options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("chat templates write what Jinja writes") {
  CHECK(ChatTemplate(zephyr, "<s>", "</s>").render(dialogue(), true) ==
        "<|system|>\nBe brief. </s>\n<|user|>\n2+2?</s>\n<|assistant|>\n 4 </s>\n<|user|>\nAnd "
        "1?</s>\n<|assistant|>\n");
  CHECK(
      ChatTemplate(chatml).render(dialogue(), false) ==
      "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n 4 "
      "<|im_end|>\n<|im_start|>user\nAnd 1?<|im_end|>\n");
  CHECK(ChatTemplate(llama3, "<b>").render(dialogue(), true) ==
        "<b><|start_header_id|>system<|end_header_id|>\n\nBe "
        "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|><|start_header_id|>"
        "assistant<|end_header_id|>\n\n4<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd "
        "1?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(ChatTemplate(spaced).render(dialogue(), false) == "Q: Be brief. \nQ: 2+2?\nA: 4Q: And 1?\n");
  CHECK(ChatTemplate("a { b }} {{ 'it\\'s' }}\n{{ \"\\n\" }}").render(dialogue(), false) ==
        "a { b }} it's\n\n");
  // What is set in a loop is not there outside, nor the next time.
  CHECK(ChatTemplate(
            "{% set x = '0' %}{% for m in messages %}{{ x }}{% set x = m.role %}{{ x }} {% endfor %}{{ x }}")
            .render(dialogue(), false) == "0system 0user 0assistant 0user 0");
  CHECK(ChatTemplate("{% for m in messages %}x{% endfor %}-").render(Json::array(), false) == "-");
}

TEST_CASE("what a chat template does not know is named when it is read") {
  auto not_supported = [](const std::string& what) { return "chat template: " + what; };
  CHECK(refusal("{% macro f(x) %}{% endmacro %}") == not_supported("\"macro f(x)\" is not supported"));
  CHECK(refusal("{% if false %}{{ strftime_now('%Y') }}{% endif %}") ==
        not_supported("\"if false\" is not supported, from \"false\" on"));
  CHECK(refusal("{% if add_generation_prompt %}{{ strftime_now('%Y') }}{% endif %}") ==
        not_supported("\"strftime_now('%Y')\" is not supported, from \"strftime_now('%Y')\" on"));
  CHECK(refusal("{% for m in messages[1:] %}{% endfor %}") ==
        not_supported("\"for m in messages[1:]\" is not supported, from \"messages[1:]\" on"));
  CHECK(refusal("{% for m in messages %}{{ m.content | upper }}{% endfor %}") ==
        not_supported("\"m.content | upper\" is not supported, from \"upper\" on"));
  CHECK(refusal("{% for m in messages %}{% if (loop.index0 % 2 == 0) %}{% endif %}{% endfor %}") ==
        not_supported("\"if (loop.index0 % 2 == 0)\" is not supported, from \"(loop.index0 % 2 == 0)\" on"));
  CHECK(refusal("{% if bos_token and eos_token or bos_token %}{% endif %}") ==
        not_supported(
            "\"if bos_token and eos_token or bos_token\" is not supported, from \"or bos_token\" on"));
  CHECK(refusal("{% if loop.first %}{% endif %}") ==
        not_supported("\"if loop.first\" is not supported, from \"loop.first\" on"));
  CHECK(refusal("{{ 'text }}") == not_supported("\"'text\" is not supported, from \"'text\" on"));
  CHECK(refusal("{{ 'text' ") == not_supported("\"{{ 'text' \" has no }}"));
  CHECK(refusal("{% for m in messages %}") == not_supported("it ends before endfor"));
  CHECK(refusal("{% endif %}") == not_supported("\"endif\" is not supported"));
  std::string many = "{% set x = bos_token %}", nots = "{% if ";
  for (int i = 0; i < 60; ++i) many += "{% set x = x + x %}";
  CHECK_THROWS_WITH_AS(ChatTemplate(many, "<s>").render(Json::array(), false),
                       "chat template: it makes texts of more than 8 MiB", std::runtime_error);
  for (int i = 0; i < 1000001; ++i) nots += "not ";
  CHECK(ChatTemplate(nots + "bos_token %}yes{% endif %}").render(Json::array(), false) == "yes");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "{% if bos_token %}";
  CHECK(refusal(deep) == not_supported("blocks nest deeper than 100"));
}

TEST_CASE("a folder's chat template") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("shardwise-chat-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  CHECK(!ChatTemplate::from_folder(folder));
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ bos_token + eos_token }}"})";
  CHECK(ChatTemplate::from_folder(folder)->render({}, false) == "<s></s>");
  std::ofstream(folder / "own") << "own {{ eos_token }}\n";
  CHECK(ChatTemplate::from_folder(folder, folder / "own")->render({}, false) == "own </s>");
  std::ofstream(folder / "chat_template.jinja") << "{% wat %}";
  CHECK_THROWS_WITH_AS(ChatTemplate::from_folder(folder),
                       ((folder / "chat_template.jinja").string() + ": \"wat\" is not supported").c_str(),
                       std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("of a document, its answers are learned") {
  const auto texts = documents_of("{\"text\": \"abc\", \"id\": 7}\n\n{\"text\":\"d\"}");
  CHECK(texts.size() == 2);
  CHECK(shown(texts[0]) == "[abc]");
  CHECK(shown(texts[1]) == "[d]");
  CHECK(texts[1].place.ends_with(".jsonl:3"));
  const std::string pair = R"({"prompt": "2+2=", "completion": "4"})";
  CHECK(shown(documents_of(pair)[0]) == "2+2=[4]");
  CHECK(shown(documents_of(pair, {}, Bytes())[0]) == "2+2=[4$]");
  CHECK(shown(documents_of(pair, {.begin = '^', .end = '!'})[0]) == "^2+2=[4!]");
  CHECK(shown(documents_of(R"({"prompt": "2", "completion": ""})", {.end = '!'})[0]) == "2[!]");
  const std::string chat = Json{{"messages", dialogue()}}.dump();
  CHECK(shown(documents_of(chat, {.chat = ChatTemplate(zephyr, "", "~")})[0]) ==
        "<|system|>\nBe brief. ~\n<|user|>\n2+2?~\n<|assistant|>\n[ 4 ~\n]<|user|>\nAnd 1?~\n");
  CHECK(shown(documents_of(chat, {.chat = ChatTemplate(llama3, "^")}, Bytes())[0]) ==
        "^<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_"
        "header_id|>\n\n2+2?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n[4<|eot_id|>]<|start_"
        "header_id|>user<|end_header_id|>\n\nAnd 1?<|eot_id|>");
}

TEST_CASE("tokens across the border of an answer") {
  struct Pairs : ByteTokenizer {  // two bytes a token
    std::vector<std::int32_t> encode(std::string_view text) const {
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < text.size(); i += 2)
        ids.push_back(text[i] * 256 + (i + 1 < text.size() ? text[i + 1] : 0));
      return ids;
    }
  };
  auto answer = [](const std::string& prompt, const std::string& completion) {
    const auto documents =
        documents_of(Json{{"prompt", prompt}, {"completion", completion}}.dump(), {}, Pairs());
    return documents[0].answers.at(0);
  };
  CHECK(answer("abcd", "efg") == Range{2, 2});
  CHECK(answer("abc", "defg") == Range{1, 3});  // "cd" is learned: the prompt alone has another token there
}

TEST_CASE("a dialogue of many messages is read in a time that grows with its length") {
  struct Counting : ByteTokenizer {
    std::size_t* encoded;
    std::vector<std::int32_t> encode(std::string_view text) const {
      *encoded += text.size();
      return ByteTokenizer::encode(text);
    }
  };
  Json messages = Json::array();
  for (int i = 0; i < 20'000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::to_string(i)}});
  const ChatTemplate chat(chatml);
  std::size_t encoded = 0;
  Counting counting;
  counting.encoded = &encoded;
  const auto documents = documents_of(Json{{"messages", messages}}.dump(), {.chat = chat}, counting);
  CHECK(encoded <= 2 * documents[0].tokens.size());
  const std::string text = shown(documents[0]);
  CHECK(
      text.starts_with("<|im_start|>user\n0<|im_end|>\n<|im_start|>assistant\n[1<|im_end|>\n]<|im_start|>"));
  CHECK(text.ends_with("<|im_start|>assistant\n[19999<|im_end|>\n]"));
}

TEST_CASE("an encoder that puts a space before a text, and answers among spaces") {
  struct Spaced : ByteTokenizer {
    std::vector<std::int32_t> encode(std::string_view text) const {
      return ByteTokenizer::encode(" " + std::string(text));
    }
  };
  auto message = [](const char* role, const char* content) -> Json {
    return {{"role", role}, {"content", content}};
  };
  const Json line = {{"messages",
                      {message("user", "a"), message("assistant", "b"), message("user", " "),
                       message("assistant", "  c"), message("assistant", "d")}}};
  const JsonLinesOptions options{.chat = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")};
  CHECK(shown(documents_of(line.dump(), options, Spaced())[0]) == " a[b] [  c][d]");
}

TEST_CASE("lines that are no documents") {
  CHECK(
      refusal_of_line("{\"text\": ") ==
      ":3: not JSON: parse error at line 1, column 10: syntax error while parsing value - unexpected end of "
      "input; expected '[', '{', or a literal");
  CHECK(refusal_of_line("[1]") == ":3: it is [1], expected an object");
  CHECK(refusal_of_line("{\"txt\": \"a\"}") ==
        ":3: it is {\"txt\":\"a\"}, expected an object with \"text\", with \"prompt\" and \"completion\", or "
        "with \"messages\"");
  CHECK(refusal_of_line("{\"text\": 5}") == ":3: text: it is 5, expected a string");
  CHECK(refusal_of_line("{\"prompt\": \"a\"}") == ":3: completion: it is missing, expected a string");
  CHECK(refusal_of_line("{\"messages\": []}") ==
        ":3: messages: a dialogue needs a chat template, and there is none");
  const JsonLinesOptions chat{.chat = ChatTemplate(chatml)};
  CHECK(refusal_of_line("{\"messages\": {}}", chat) == ":3: messages: it is {}, expected a list");
  CHECK(refusal_of_line(R"({"messages": [{"role": "user"}]})", chat) ==
        ":3: messages[0].content: it is missing, expected a string");
  CHECK(refusal_of_line(R"({"messages": "hi"})", chat) == ":3: messages: it is \"hi\", expected a list");
  CHECK(refusal_of_line(R"({"messages": {"role": "user"}})", chat) ==
        ":3: messages: it is {\"role\":\"user\"}, expected a list");
  CHECK(refusal_of_line(R"({"messages": ["hi"]})", chat) ==
        ":3: messages[0]: it is \"hi\", expected an object");
  CHECK(refusal_of_line(R"({"messages": [{"role": "user", "content": 3}]})", chat) ==
        ":3: messages[0].content: it is 3, expected a string");
  const JsonLinesOptions late{
      .chat =
          ChatTemplate("{% for m in messages %}{{ m.content }}{% if loop.last %}.{% endif %}{% endfor %}")};
  CHECK(
      refusal_of_line(
          R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]})",
          late) ==
      ":3: messages: the chat template writes the beginning of a dialogue otherwise when it goes on, so that "
      "answers cannot be told apart");
  const JsonLinesOptions early{
      .chat = ChatTemplate("{% if add_generation_prompt %}!{% endif %}{% for m in messages %}{{ "
                           "m.content }}{% endfor %}")};
  CHECK(
      refusal_of_line(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]})",
          early)
          .find("writes the beginning of a dialogue otherwise") != std::string::npos);
  CHECK_THROWS_WITH_AS(documents_of("\n"), doctest::Contains(": there are no documents in the files"),
                       std::runtime_error);
  CHECK_THROWS_AS(read_json_lines({"nowhere.jsonl"}, ByteTokenizer()), std::runtime_error);
}

namespace {

/// A document of `size` tokens, from `first` on; the last `learned` of them are.
TrainingDocument counting(std::int32_t first, Index size, Index learned) {
  TrainingDocument document{{}, {{size - learned, learned}}};
  for (Index i = 0; i < size; ++i) document.tokens.push_back(first + static_cast<std::int32_t>(i));
  return document;
}

struct RowOfText {
  std::string inputs, targets, documents;
  Index counted;
  bool operator==(const RowOfText&) const = default;
};
std::ostream& operator<<(std::ostream& out, const RowOfText& row) {
  return out << row.inputs << " | " << row.targets << " | " << row.documents << " | " << row.counted;
}
RowOfText row_of(const DocumentRows& rows, std::optional<Index> number) {
  const auto length = static_cast<std::size_t>(rows.options().length);
  std::vector<std::int32_t> all[3];
  for (auto& each : all) each.resize(length, 777);
  rows.copy(number, all[0].data(), all[1].data(), all[2].data());
  auto text = [](const std::vector<std::int32_t>& values) {
    std::string words;
    for (const std::int32_t value : values)
      words += (words.empty() ? "" : " ") + (value == -100 ? "-" : std::to_string(value));
    return words;
  };
  return {text(all[0]), text(all[1]), text(all[2]), number ? rows.counted(*number) : 0};
}

}  // namespace

TEST_CASE("documents become rows") {
  const std::vector<TrainingDocument> documents{counting(10, 3, 3), counting(20, 5, 2), counting(30, 6, 1),
                                                counting(40, 2, 1)};
  const DocumentRows each(documents, {.length = 6, .padding = 9});
  CHECK(each.size() == 4);
  CHECK(row_of(each, 0) == RowOfText{"10 11 9 9 9 9", "11 12 - - - -", "0 0 -1 -1 -1 -1", 2});
  CHECK(row_of(each, 1) == RowOfText{"20 21 22 23 9 9", "- - 23 24 - -", "0 0 0 0 -1 -1", 2});
  CHECK(row_of(each, 3) == RowOfText{"40 9 9 9 9 9", "41 - - - - -", "0 -1 -1 -1 -1 -1", 1});
  CHECK(row_of(each, std::nullopt) == RowOfText{"9 9 9 9 9 9", "- - - - - -", "-1 -1 -1 -1 -1 -1", 0});
  const DocumentRows packed(documents, {.length = 6, .packed = true});
  CHECK(packed.size() == 2);
  CHECK(packed.documents() == 4);
  CHECK(packed.filled() == 1);
  CHECK(row_of(packed, 0) == RowOfText{"10 11 20 21 22 23", "11 12 - - 23 24", "0 0 1 1 1 1", 4});
  CHECK(row_of(packed, 1) == RowOfText{"30 31 32 33 34 40", "- - - - 35 41", "0 0 0 0 0 1", 2});
  const BatchSampler sampler = each.sampler({.batch = 3, .last = LastBatch::pad, .shuffle = false});
  CHECK(each.counted(sampler, 0) == 5);
  CHECK(each.counted(sampler, 1) == 1);
  CHECK(each.counted(sampler, 3) == 1);

  CHECK_THROWS_WITH_AS(DocumentRows(documents, {.length = 4}),
                       "a document: the document has 6 tokens, but a row of 4 takes 5",
                       std::invalid_argument);
  auto placed = documents;
  placed[2].place = "a.jsonl:3";
  placed[2].answers.clear();
  CHECK_THROWS_WITH_AS(DocumentRows(placed, {.length = 6}),
                       "a.jsonl:3: the document has nothing to be learned", std::invalid_argument);
  CHECK_THROWS_AS(DocumentRows({counting(1, 1, 1)}, {.length = 6}), std::invalid_argument);
  auto refused = [](std::vector<Range> answers) {
    TrainingDocument document = counting(1, 5, 1);
    document.answers = std::move(answers);
    CHECK_THROWS_WITH_AS(DocumentRows({document}, {.length = 6}),
                         doctest::Contains("a document: an answer is ["), std::invalid_argument);
  };
  refused({{1, 3}, {3, 1}});  // a token would count twice
  refused({{3, 1}, {1, 2}});
  refused({{4, 2}});
  refused({{-1, 2}});
  refused({{2, -1}});
  CHECK_THROWS_WITH_AS(DocumentRows(documents, {.length = 0}),
                       "DocumentRows: length is 0: expected at least 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(each.sampler({.batch = 5}),
                       "DocumentRows: there are 4 rows, but a step needs 5, unless the last batch is padded",
                       std::invalid_argument);
}

TEST_CASE("a part of the documents is held out") {
  std::vector<TrainingDocument> all;
  for (std::int32_t i = 0; i < 40; ++i) all.push_back(counting(i, 2, 1));
  const std::vector<TrainingDocument> whole = all;
  const auto held_out = hold_out(all, 0.1, 5);
  CHECK(held_out.size() == 4);
  CHECK(all.size() == 36);
  auto ordered = [](const std::vector<TrainingDocument>& list) {
    return std::is_sorted(list.begin(), list.end(),
                          [](const auto& a, const auto& b) { return a.tokens < b.tokens; });
  };
  CHECK((ordered(all) && ordered(held_out)));
  auto again = whole, other = whole;
  CHECK(fingerprint_of(hold_out(again, 0.1, 5)) == fingerprint_of(held_out));
  CHECK(fingerprint_of(hold_out(other, 0.1, 6)) != fingerprint_of(held_out));
  std::vector<TrainingDocument> one{counting(1, 2, 1)}, two{counting(1, 2, 1), counting(5, 2, 1)};
  CHECK(hold_out(two, 0.99, 1).size() == 1);
  CHECK_THROWS_WITH_AS(hold_out(one, 0.5, 1),
                       "hold_out: 0.5 of 1 documents: expected a part in (0, 1) of 2 or more",
                       std::invalid_argument);
}

}  // namespace shardwise::testing::json_lines
