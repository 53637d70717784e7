// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Documents of JSON lines: which of their tokens are learned, the rows that they fill, and chat templates.

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <shardwise/llm/data/json_lines.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>

namespace shardwise::testing::json_lines {
namespace {

using namespace shardwise;
using namespace shardwise::llm;

/// A byte that ends a text.
struct Bytes : llm::ByteTokenizer {
  std::optional<std::int32_t> end_token() const { return '$'; }
};

/// The documents of a file with these lines.
template <class Encoder = llm::ByteTokenizer>
llm::TrainingDocuments documents_of(const std::string& lines, const llm::JsonLinesOptions& options = {},
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

/// A document takes one line.
std::string operator""_no_lines(const char* text, std::size_t size) {
  std::string line(text, size);
  std::erase(line, '\n');
  return line;
}

/// The bytes, with what is learned in brackets.
std::string shown(const llm::TrainingDocument& document) {
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
    llm::ChatTemplate{text};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

std::string refusal_of_line(const std::string& line, const llm::JsonLinesOptions& options = {}) {
  try {
    documents_of("{\"text\": \"good\"}\n\n" + line + "\n", options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("chat templates write what Jinja writes") {
  CHECK(llm::ChatTemplate(zephyr, "<s>", "</s>").render(dialogue(), true) ==
        "<|system|>\nBe brief. </s>\n<|user|>\n2+2?</s>\n<|assistant|>\n 4 </s>\n<|user|>\nAnd "
        "1?</s>\n<|assistant|>\n");
  CHECK(
      llm::ChatTemplate(chatml).render(dialogue(), false) ==
      "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n 4 "
      "<|im_end|>\n<|im_start|>user\nAnd 1?<|im_end|>\n");
  CHECK(llm::ChatTemplate(llama3, "<b>").render(dialogue(), true) ==
        "<b><|start_header_id|>system<|end_header_id|>\n\nBe "
        "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n2+2?<|eot_id|><|start_header_id|>"
        "assistant<|end_header_id|>\n\n4<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd "
        "1?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(llm::ChatTemplate(spaced).render(dialogue(), false) == "Q: Be brief. \nQ: 2+2?\nA: 4Q: And 1?\n");
  CHECK(llm::ChatTemplate("a { b }} {{ 'it\\'s' }}\n{{ \"\\n\" }}").render(dialogue(), false) ==
        "a { b }} it's\n\n");
  // What is set in a loop is not there outside, nor the next time.
  CHECK(llm::ChatTemplate(
            "{% set x = '0' %}{% for m in messages %}{{ x }}{% set x = m.role %}{{ x }} {% endfor %}{{ x }}")
            .render(dialogue(), false) == "0system 0user 0assistant 0user 0");
  CHECK(llm::ChatTemplate("{% for m in messages %}x{% endfor %}-").render(Json::array(), false) == "-");
}

// The texts are those of Jinja2 3.1.6 with the settings of transformers. The first are written as the templates of Llama 2 and 3.1,
// Mistral, Qwen 3, Gemma 3 and DeepSeek are.
TEST_CASE("chat templates write what Jinja writes, construct by construct") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = "
       "messages[0]['content'] %}{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% "
       "for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles "
       "must alternate') }}{% endif %}{% if loop.index0 == 0 and system != false %}{% set content = "
       "'<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] %}{% else %}{% set content = m['content'] "
       "%}{% endif %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' "
       "}}{% elif m['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% "
       "endfor %}",
       "<s>[INST] <<SYS>>\nBe brief. \n<</SYS>>\n\n2+2? [/INST] 4 </s><s>[INST] And 1? [/INST]"},
      {"{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" "
       "%}\n{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system = "
       "messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set "
       "system = \"\" %}\n{%- endif %}\n{{- \"<|system|>\" + date_string + \"\\n\" + system + \"<|eot|>\" "
       "}}\n{%- for m in messages %}\n    {%- if not (m.role == 'ipython' or 'tool_calls' in m) %}\n        "
       "{{- '<|' + m['role'] + '|>' + m['content'] | trim + '<|eot|>' }}\n    {%- elif 'tool_calls' in m "
       "%}\n        {%- if not m.tool_calls|length == 1 %}\n            {{- raise_exception(\"one call\") "
       "}}\n        {%- endif %}\n        {%- for name, value in m.tool_calls[0].function.arguments | items "
       "%}\n            {{- name + '=\"' + value + '\"' }}\n        {%- endfor %}\n    {%- endif %}\n{%- "
       "endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|assistant|>' }}\n{%- endif %}\n",
       "<s><|system|>26 Jul 2024\nBe brief.<|eot|><|user|>2+2?<|eot|><|assistant|>4<|eot|><|user|>And "
       "1?<|eot|><|assistant|>"},
      {"{%- set users = messages | selectattr(\"role\", \"equalto\", \"user\") | list %}\n{%- set ns = "
       "namespace() %}\n{%- set ns.index = 0 %}\n{{- bos_token }}\n{%- for m in messages if m.role != "
       "'system' %}\n    {%- if (m.role == \"user\") != (ns.index % 2 == 0) %}\n        {{- "
       "raise_exception(\"alternate\") }}\n    {%- endif %}\n    {%- set ns.index = ns.index + 1 %}\n    {%- "
       "if m == users[-1] %}{{ '[LAST]' }}{% endif %}\n    {{- \"[INST] \" + m.content + \"[/INST]\" if "
       "m.role == 'user' else \" \" + m.content|trim + eos_token }}\n{%- endfor %}\n",
       "<s>[INST] 2+2?[/INST] 4</s>[LAST][INST] And 1?[/INST]"},
      {"{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}\n{%- for m in messages[::-1] "
       "%}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi_step and m.role "
       "== \"user\" and m.content is string and not(m.content.startswith('<tool>') and "
       "m.content.endswith('</tool>')) %}\n        {%- set ns.multi_step = false %}\n        {%- set ns.last "
       "= index %}\n    {%- endif %}\n{%- endfor %}\n{%- for m in messages %}\n    {%- set content = "
       "m.content %}\n    {%- if m.role == 'assistant' and '</think>' in content %}\n        {%- set content "
       "= content.split('</think>')[-1].lstrip('\\n') %}\n    {%- endif %}\n    {{- '<|im_start|>' + m.role "
       "+ '\\n' + content + '<|im_end|>\\n' }}{{ ns.last if loop.last }}\n{%- endfor %}\n{%- if "
       "add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n    {%- if enable_thinking is "
       "defined and enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif "
       "%}\n{%- endif %}",
       "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n "
       "4 <|im_end|>\n<|im_start|>user\nAnd 1?<|im_end|>\n3<|im_start|>assistant\n"},
      {"{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n    {%- if messages[0]['content'] is "
       "string -%}\n        {%- set prefix = messages[0]['content'] + '\n\n' -%}\n    {%- else -%}\n        "
       "{%- set prefix = messages[0]['content'][0]['text'] + '\n\n' -%}\n    {%- endif -%}\n    {%- set rest "
       "= messages[1:] -%}\n{%- else -%}\n    {%- set prefix = \"\" -%}\n    {%- set rest = messages "
       "-%}\n{%- endif -%}\n{%- for m in rest -%}\n    {%- if (m['role'] == 'assistant') -%}\n        {%- "
       "set role = \"model\" -%}\n    {%- else -%}\n        {%- set role = m['role'] -%}\n    {%- endif "
       "-%}\n    {{ '<start_of_turn>' + role + '\n' + (prefix if loop.first else \"\") }}\n    {%- if "
       "m['content'] is string -%}\n        {{ m['content'] | trim }}\n    {%- elif m['content'] is iterable "
       "-%}\n        {%- for item in m['content'] -%}\n            {{ item['text'] | trim }}\n        {%- "
       "endfor -%}\n    {%- else -%}\n        {{ raise_exception(\"Invalid content type\") }}\n    {%- endif "
       "-%}\n    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n    "
       "{{'<start_of_turn>model\n'}}\n{%- endif -%}\n",
       "<s><start_of_turn>user\nBe brief. "
       "\n\n2+2?<end_of_turn>\n<start_of_turn>model\n4<end_of_turn>\n<start_of_turn>user\nAnd "
       "1?<end_of_turn>\n<start_of_turn>model\n"},
      {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% "
       "set ns = namespace(is_tool=false, system='') %}{%- for m in messages %}{%- if m['role'] == 'system' "
       "%}{% set ns.system = ns.system + m['content'] %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system "
       "}}{%- for m in messages %}{%- if m['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<U>' + "
       "m['content'] }}{%- endif %}{%- if m['role'] == 'assistant' and m['content'] is not none %}{{ '<A>' + "
       "m['content'] + eos_token }}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool "
       "%}{{ '<A>' }}{% endif %}",
       "<s>Be brief. <U>2+2?<A> 4 </s><U>And 1?<A>"},
      {"{% set x = 'a' %}{% if false %}{% set x = 'b' %}{% set y = 'q' %}{% endif %}{{ x }}{{ y }}|{{ y is "
       "defined }}",
       "a|False"},
      {"{% for m in messages %}\r\n  {% if m.role == 'user' %}\r\nU{{ m.content }}\r\n  {% endif %}\r\n{% "
       "endfor %}\r\n",
       "U2+2?\nUAnd 1?\n"},
      {"a\rb\n{# c #}\nd\n", "a\nb\nd"},
      {"{{ 'a' ~ 1 ~ true ~ none }} {{ true }} {{ none }} {{ undefined_thing }}", "a1TrueNone True None "},
      {"{{ messages[1:]|length }} {{ messages[::-1][0].content }} {{ messages[-1].role }} {{ "
       "'h\303\251llo'[1:3] }} {{ 'abc'[-1] }} {{ 'abc'[::-1] }}",
       "3 And 1? user \303\251l c cba"},
      {"{{ 'x' if false }}{{ 'y' if true else 'z' }}{{ 'a' if 0 else 'b' if none else 'c' }}", "yc"},
      {"{% set ns = namespace(a=1, b='t') %}{% for m in messages %}{% set ns.a = ns.a + 1 %}{% set ns.c = "
       "m.role %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}",
       "5tuserFalse"},
      {"{{ true and 'x' }}{{ false or 'y' }}{{ '' or none }}{{ 0 and 1 }}{{ 1 or 2 and 0 }}", "xyNone01"},
      {"  {%- if true -%}  x  {%- endif -%}  y\n   {%+ if true %}z{% endif %}\n  {% if true +%}\nq{% endif "
       "%}\n",
       "xy\n   z\nq"},
      {"{{- ' a ' -}}  b {{ 'c' }}\n\n{{- 'd' }}\n", " a b cd"},
      {"{#- c -#}  x  {# y #}\n  {#+ z #} w\n", "x     w"},
      {"{% for m in messages %}{% for n in messages %}{% if loop.first %}{{ loop.index }}{% endif %}{% "
       "endfor %}{{ loop.index }}{% endfor %}",
       "11121314"},
      {"{% set x = 1 %}{% for m in messages %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
       "121212121"},
      {"{{ messages[0].missing }}|{{ messages[9] is defined }}|{{ messages[0]['a'] is defined }}",
       "|False|False"},
      {"{{ 'a\342\200\250b'.split('\342\200\250') | length }}{{ '' | trim }}{{ ('x' ~ 'y') | trim }}", "2xy"},
      {"{{ 1 == true }}{{ 0 == false }}{{ '1' == 1 }}{{ none == false }}{{ [1] == [1] }}",
       "TrueTrueFalseFalseTrue"},
      {"{{ -1 * 2 }}{{ - 3 + 5 }}{{ 10 - 2 - 3 }}{{ 2 * 3 // 4 % 5 }}", "-2251"},
      {"{{ ['a', 'code_interpreter', 'b'] | reject('equalto', 'code_interpreter') | join(', ') }}|{{ [] | "
       "join('-') }}",
       "a, b|"},
      {"x\n\n", "x\n"},
      {"x\n", "x"},
      {"\n  \n", "\n  "},
      {"  {% set a = 1 %}  \n  y {% if a %} \n z{% endif %}", "  \n  y  \n z"},
  };
  for (const auto& [source, expected] : cases) {
    const std::string& text = source;  // clang 14 captures no structured binding
    CHECK_MESSAGE(llm::ChatTemplate(text, "<s>", "</s>").render(dialogue(), true) == expected, text);
  }
  const auto given =
      nlohmann::ordered_json::parse(R"([{"role": "assistant", "call": {"b": 1, "a": [true, "\u00e9"]}}])");
  CHECK(llm::ChatTemplate("{{ messages[0].call | tojson }}{{ messages[0].call | tojson(indent=2) }}")
            .rendered(given, false)
            .text ==
        "{\"b\": 1, \"a\": [true, \"\u00e9\"]}{\n  \"b\": 1,\n  \"a\": [\n    true,\n    \"\u00e9\"\n  ]\n}");
  const std::time_t now = std::time(nullptr);
  std::array<char, 64> year{};
  std::strftime(year.data(), year.size(), "%Y", std::localtime(&now));
  CHECK(llm::ChatTemplate("{{ strftime_now('%Y') }}").render(dialogue(), false) == year.data());
}

TEST_CASE("what a chat template refuses of a dialogue") {
  auto refused = [](const std::string& text) {
    try {
      return llm::ChatTemplate(text).render(dialogue(), false);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  CHECK(refused("\n{{ raise_exception('no ' + messages[0].role) }}") ==
        "chat template: line 2: the template refuses it: no system");
  CHECK(refused("{{ nothing.at_all }}") == "chat template: line 1: \"at_all\" of what is undefined");
  CHECK(refused("a\n\n{{ 'a' + 1 }}") == "chat template: line 3: it is 1, expected a text");
  CHECK(refused("{{ messages }}").starts_with("chat template: line 1: it is [{\"content\":"));
  CHECK(refused("{{ messages | selectattr('role', 'near', 'user') }}") ==
        "chat template: line 1: it is \"near\", expected a test, with its argument");
  CHECK(refused("{{ messages | selectattr('role', 'defined', 'user') }}") ==
        "chat template: line 1: it is \"defined\", expected a test, with its argument");
  CHECK(refused("{{ 1 // 0 }}") == "chat template: line 1: it is 0, expected a divisor that is not 0");
  CHECK(refused("{{ 2147483648 * 2147483648 }}").find("is not supported") != std::string::npos);
  const std::string loop = "{% for a in messages %}", end = "{% endfor %}";
  std::string many;
  for (int i = 0; i < 14; ++i) many = loop + many + end;
  CHECK(refused(many) == "chat template: line 1: it takes too many steps");
}

TEST_CASE("what a chat template does not know is named when it is read") {
  auto not_supported = [](const std::string& what) { return "chat template: line 1: " + what; };
  CHECK(refusal("{% call f(x) %}{% endcall %}") ==
        not_supported("\"call f(x)\" is not supported, from \"f(x)\" on"));
  CHECK(refusal("a\n{% if false %}\n{{ now('%Y') }}{% endif %}") ==
        "chat template: line 3: \"now('%Y')\" is not supported, from \"now('%Y')\" on");
  CHECK(refusal("{% if add_generation_prompt %}{{ 1 ** 2 }}{% endif %}") ==
        not_supported("\"1 ** 2\" is not supported, from \"* 2\" on"));
  CHECK(refusal("{% for m in messages %}{{ m.content | urlize }}{% endfor %}") ==
        not_supported("\"m.content | urlize\" is not supported, from \"urlize\" on"));
  CHECK(refusal("{{ bos_token is escaped }}") ==
        not_supported("\"bos_token is escaped\" is not supported, from \"escaped\" on"));
  CHECK(refusal("{% for m in messages recursive %}{% endfor %}")
            .starts_with(not_supported("\"for m in messages recursive\" is not supported")));
  CHECK(refusal("{{ bos_token.title() }}") ==
        not_supported("\"bos_token.title()\" is not supported, from \"title()\" on"));
  CHECK(refusal("{{ 1.5.5 }}").starts_with(not_supported("\"1.5.5\" is not supported")));
  CHECK(refusal("{{ 'text }}") == not_supported("\"{{ 'text }}\" has no }}"));
  CHECK(refusal("{{ 'text' ") == not_supported("\"{{ 'text' \" has no }}"));
  CHECK(refusal("{% for m in messages %}") == not_supported("it ends before endfor"));
  CHECK(refusal("{% endif %}") == not_supported("\"endif\" is not supported"));
  std::string many = "{% set x = bos_token %}", nots = "{% if ";
  for (int i = 0; i < 60; ++i) many += "{% set x = x + x %}";
  CHECK_THROWS_WITH_AS(llm::ChatTemplate(many, "<s>").render(Json::array(), false),
                       "chat template: line 1: it makes texts of more than 8 MiB", std::runtime_error);
  for (int i = 0; i < 1000001; ++i) nots += "not ";
  CHECK(llm::ChatTemplate(nots + "bos_token %}yes{% endif %}").render(Json::array(), false) == "yes");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "{% if bos_token %}";
  CHECK(refusal(deep) == not_supported("it nests deeper than 100"));
  CHECK(refusal("{{ " + std::string(100'000, '(') + " }}") == not_supported("it nests deeper than 100"));
}

TEST_CASE("a folder's chat template") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("shardwise-chat-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  CHECK(!llm::ChatTemplate::from_folder(folder));
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ bos_token + eos_token }}"})";
  CHECK(llm::ChatTemplate::from_folder(folder)->render({}, false) == "<s></s>");
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ eos_token }}!"}]})";
  std::ofstream(folder / "special_tokens_map.json") << R"({"eos_token": {"content": "</s>"}})";
  CHECK(llm::ChatTemplate::from_folder(folder)->render({}, false) == "</s>!");
  std::ofstream(folder / "own") << "own {{ eos_token }}\n";
  CHECK(llm::ChatTemplate::from_folder(folder, folder / "own")->render({}, false) == "own </s>");
  std::ofstream(folder / "chat_template.jinja") << "{% wat %}";
  CHECK_THROWS_WITH_AS(
      llm::ChatTemplate::from_folder(folder),
      ((folder / "chat_template.jinja").string() + ": line 1: \"wat\" is not supported").c_str(),
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
  CHECK(shown(documents_of(pair, {.end = '!'}, Bytes())[0]) == "2+2=[4!]");  // what is given is no guess
  const std::string chat = Json{{"messages", dialogue()}}.dump();
  CHECK(shown(documents_of(chat, {.chat = llm::ChatTemplate(zephyr, "", "~")})[0]) ==
        "<|system|>\nBe brief. ~\n<|user|>\n2+2?~\n<|assistant|>\n[ 4 ~\n]<|user|>\nAnd 1?~\n");
  CHECK(shown(documents_of(chat, {.chat = llm::ChatTemplate(llama3, "^")}, Bytes())[0]) ==
        "^<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_"
        "header_id|>\n\n2+2?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n[4<|eot_id|>]<|start_"
        "header_id|>user<|end_header_id|>\n\nAnd 1?<|eot_id|>");
}

TEST_CASE("messages that are not learned, and other forms of dialogues") {
  const llm::JsonLinesOptions options{.chat = llm::ChatTemplate(chatml)};
  const auto learned = [&](const std::string& line) {
    std::string text = shown(documents_of(line, options)[0]);
    for (const char* part : {"<|im_start|>", "<|im_end|>\n"}) {
      for (std::size_t at; (at = text.find(part)) != text.npos;) text.erase(at, std::string(part).size());
    }
    return text;
  };
  const auto with = [](const std::string& key) {
    return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )" + key +
           R"(}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "weight": 1}]})";
  };
  for (const char* key :
       {"\"weight\": 0", "\"train\": false", "\"loss\": 0", "\"trainable\": 0.0", "\"training\": false"})
    CHECK(learned(with(key)) == "user\naassistant\nbuser\ncassistant\n[d]");
  for (const char* key : {"\"weight\": null", "\"train\": true", "\"name\": 0"})
    CHECK(learned(with(key)) == "user\naassistant\n[b]user\ncassistant\n[d]");
  CHECK(refusal_of_line(with("\"weight\": 0.5"), options) ==
        ":3: messages[1].weight: it is 0.5, expected 0 or 1, or true or false");
  CHECK(refusal_of_line(with("\"train\": \"no\""), options) ==
        ":3: messages[1].train: it is \"no\", expected 0 or 1, or true or false");
  CHECK(refusal_of_line(R"({"messages": [{"role": "user", "content": "a", "weight": 1}]})", options) ==
        ":3: messages[0].weight: only what the role \"assistant\" says can be learned");
  CHECK(learned(R"({"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"},
                    {"from": "gpt", "value": "b"}]})"_no_lines) == "system\nsuser\naassistant\n[b]");
  CHECK(learned(R"({"instruction": "add", "input": "1 2", "output": "3"})") ==
        "user\nadd\n\n1 2assistant\n[3]");
  CHECK(learned(R"({"instruction": "add", "input": "", "output": "3", "system": "s"})") ==
        "system\nsuser\naddassistant\n[3]");
  CHECK(
      learned(
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"role": "assistant", "content": "c"}]})"_no_lines) == "user\nabassistant\n[c]");
  CHECK(refusal_of_line(R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]})",
                        options) == ":3: messages[0].content[0].type: it is \"image\", expected \"text\"");
  CHECK(refusal_of_line(R"({"conversations": [{"from": "robot", "value": "s"}]})", options) ==
        ":3: conversations[0].from: it is \"robot\", expected \"human\", \"gpt\" or \"system\"");
  CHECK(refusal_of_line(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})", options) ==
        ":3: history: is not supported: write a dialogue of messages");
}

TEST_CASE("which part of a template's text is an answer") {
  const std::string lines = Json{{"messages", dialogue()}}.dump();
  const auto learned = [&](const std::string& chat) {
    return shown(documents_of(lines, {.chat = llm::ChatTemplate(chat, "^", "~")})[0]);
  };
  // {% generation %} says it; without that what a prompt ends with is none of it.
  CHECK(learned("{% for m in messages %}<{{ m.role[0] }}>{% if m.role == 'assistant' %}{% generation %}{{ "
                "m.content }}{% endgeneration %}!"
                "{% else %}{{ m.content }}{% endif %}{% endfor %}") ==
        "<s>Be brief. <u>2+2?<a>[ 4 ]!<u>And 1?");
  CHECK(learned("{% for m in messages %}{{ '<' + m.role[0] + '>' + m.content + eos_token }}{% endfor %}"
                "{% if add_generation_prompt %}<a>{% else %}.{% endif %}") ==
        "<s>Be brief. ~<u>2+2?~<a>[ 4 ~]<u>And 1?~.");
  CHECK(learned("{% set rest = messages[1:] %}{{ messages[0].content }}{% for m in rest %}{{ m.content }}{% "
                "endfor %}") == "Be brief. 2+2?[ 4 ]And 1?");
  CHECK(learned("{% set system = messages[0].content %}{% set messages = messages[1:] %}{{ system }}{% for m "
                "in messages "
                "%}{{ m.content }}{% endfor %}") == "Be brief. 2+2?[ 4 ]And 1?");
  // Two loops: the beginnings of the dialogue are written.
  CHECK(learned("{% for m in messages %}{% if loop.first %}{{ m.content }}{% endif %}{% endfor %}"
                "{% for m in messages %}{% if not loop.first %}{{ m.content }}{% endif %}{% endfor %}") ==
        "Be brief. 2+2?[ 4 ]And 1?");
}

TEST_CASE("tokens across the border of an answer") {
  struct Pairs : llm::ByteTokenizer {  // two bytes a token
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
  struct Counting : llm::ByteTokenizer {
    std::size_t* encoded;
    std::vector<std::int32_t> encode(std::string_view text) const {
      *encoded += text.size();
      return llm::ByteTokenizer::encode(text);
    }
  };
  Json messages = Json::array();
  for (int i = 0; i < 20'000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::to_string(i)}});
  const llm::ChatTemplate chat(chatml);
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
  struct Spaced : llm::ByteTokenizer {
    std::vector<std::int32_t> encode(std::string_view text) const {
      return llm::ByteTokenizer::encode(" " + std::string(text));
    }
  };
  auto message = [](const char* role, const char* content) -> Json {
    return {{"role", role}, {"content", content}};
  };
  const Json line = {{"messages",
                      {message("user", "a"), message("assistant", "b"), message("user", " "),
                       message("assistant", "  c"), message("assistant", "d")}}};
  const llm::JsonLinesOptions options{
      .chat = llm::ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")};
  CHECK(shown(documents_of(line.dump(), options, Spaced())[0]) == " a[b] [  c][d]");
}

TEST_CASE("lines that are no documents") {
  CHECK(
      refusal_of_line("{\"text\": ") ==
      ":3: not JSON: parse error at line 1, column 10: syntax error while parsing value - unexpected end of "
      "input; expected '[', '{', or a literal");
  CHECK(refusal_of_line("[1]") == ":3: it is [1], expected an object");
  CHECK(
      refusal_of_line("{\"txt\": \"a\"}") ==
      ":3: it is {\"txt\":\"a\"}, expected an object with \"text\", with \"prompt\" and \"completion\", with "
      "\"messages\", with \"conversations\", or with \"instruction\" and \"output\"");
  CHECK(refusal_of_line("{\"text\": 5}") == ":3: text: it is 5, expected a string");
  CHECK(refusal_of_line("{\"prompt\": \"a\"}") == ":3: completion: it is missing, expected a string");
  CHECK(refusal_of_line("{\"messages\": []}") ==
        ":3: messages: a dialogue needs a chat template, and there is none");
  const llm::JsonLinesOptions chat{.chat = llm::ChatTemplate(chatml)};
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
  CHECK(refusal_of_line(R"({"messages": [], "chat_template_kwargs": 1})", chat) ==
        ":3: chat_template_kwargs: it is 1, expected an object");
  const llm::JsonLinesOptions early{
      .chat = llm::ChatTemplate("{% if add_generation_prompt %}!{% endif %}{% for m in messages %}{{ "
                                "m.content }}{% endfor %}")};
  CHECK(
      refusal_of_line(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]})",
          early)
          .find("writes the beginning of a dialogue differently") != std::string::npos);
  CHECK_THROWS_WITH_AS(documents_of("\n"), doctest::Contains(": there are no documents in the files"),
                       std::runtime_error);
  CHECK_THROWS_AS(read_json_lines({"nowhere.jsonl"}, llm::ByteTokenizer()), std::runtime_error);
}

namespace {

/// A document of `size` tokens, from `first` on; the last `learned` of them are.
llm::TrainingDocument counting(std::int32_t first, Index size, Index learned) {
  llm::TrainingDocument document{{}, {{size - learned, learned}}};
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
RowOfText row_of(const llm::DocumentRows& rows, std::optional<Index> number) {
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
  const std::vector<llm::TrainingDocument> documents{counting(10, 3, 3), counting(20, 5, 2),
                                                     counting(30, 6, 1), counting(40, 2, 1)};
  const llm::DocumentRows each(documents, {.length = 6, .padding = 9});
  CHECK(each.size() == 4);
  CHECK(row_of(each, 0) == RowOfText{"10 11 9 9 9 9", "11 12 - - - -", "0 0 -1 -1 -1 -1", 2});
  CHECK(row_of(each, 1) == RowOfText{"20 21 22 23 9 9", "- - 23 24 - -", "0 0 0 0 -1 -1", 2});
  CHECK(row_of(each, 3) == RowOfText{"40 9 9 9 9 9", "41 - - - - -", "0 -1 -1 -1 -1 -1", 1});
  CHECK(row_of(each, std::nullopt) == RowOfText{"9 9 9 9 9 9", "- - - - - -", "-1 -1 -1 -1 -1 -1", 0});
  const llm::DocumentRows packed(documents, {.length = 6, .packed = true});
  CHECK(packed.size() == 2);
  CHECK(packed.documents() == 4);
  CHECK(packed.filled() == 1);
  CHECK(row_of(packed, 0) == RowOfText{"10 11 20 21 22 23", "11 12 - - 23 24", "0 0 1 1 1 1", 4});
  CHECK(row_of(packed, 1) == RowOfText{"30 31 32 33 34 40", "- - - - 35 41", "0 0 0 0 0 1", 2});
  const llm::BatchSampler sampler = each.sampler({.batch = 3, .last = llm::LastBatch::pad, .shuffle = false});
  CHECK(each.counted(sampler, 0) == 5);
  CHECK(each.counted(sampler, 1) == 1);
  CHECK(each.counted(sampler, 3) == 1);

  CHECK_THROWS_WITH_AS(llm::DocumentRows(documents, {.length = 4}),
                       "a document: the document has 6 tokens, but a row of 4 takes 5",
                       std::invalid_argument);
  const std::vector<llm::TrainingDocument> longer{counting(10, 9, 6), counting(20, 7, 1), counting(30, 5, 4)};
  const llm::DocumentRows cut(longer, {.length = 4, .padding = 9, .long_documents = llm::LongDocuments::cut});
  CHECK(cut.size() == 2);  // the second one's answer is cut away
  CHECK(cut.long_documents() == 2);
  CHECK(cut.dropped() == 1);
  CHECK_THROWS_WITH_AS(
      llm::DocumentRows(std::vector{longer[1]}, {.length = 4, .long_documents = llm::LongDocuments::cut}),
      "no document has something to be learned within a row", std::invalid_argument);
  CHECK(row_of(cut, 0) == RowOfText{"10 11 12 13", "- - 13 14", "0 0 0 0", 2});
  CHECK(row_of(cut, 1) == RowOfText{"30 31 32 33", "31 32 33 34", "0 0 0 0", 4});
  const llm::DocumentRows split(
      longer, {.length = 4, .packed = true, .padding = 9, .long_documents = llm::LongDocuments::split});
  CHECK(split.size() == 4);
  CHECK(row_of(split, 0) == RowOfText{"10 11 12 13", "- - 13 14", "0 0 0 0", 2});
  CHECK(row_of(split, 1) == RowOfText{"14 15 16 17", "15 16 17 18", "0 0 0 0", 4});
  CHECK(row_of(split, 2) == RowOfText{"24 25 9 9", "- 26 - -", "0 0 -1 -1", 1});

  auto placed = documents;
  placed[2].place = "a.jsonl:3";
  placed[2].answers.clear();
  CHECK_THROWS_WITH_AS(llm::DocumentRows(placed, {.length = 6}),
                       "a.jsonl:3: the document has nothing to be learned", std::invalid_argument);
  CHECK_THROWS_AS(llm::DocumentRows(std::vector{counting(1, 1, 1)}, {.length = 6}), std::invalid_argument);
  auto refused = [](std::vector<Range> answers) {
    llm::TrainingDocument document = counting(1, 5, 1);
    document.answers = std::move(answers);
    CHECK_THROWS_WITH_AS(llm::DocumentRows(std::vector{document}, {.length = 6}),
                         doctest::Contains("a document: an answer is ["), std::invalid_argument);
  };
  refused({{1, 3}, {3, 1}});  // a token would count twice
  refused({{3, 1}, {1, 2}});
  refused({{4, 2}});
  refused({{-1, 2}});
  refused({{2, -1}});
  CHECK_THROWS_WITH_AS(llm::DocumentRows(documents, {.length = 0}),
                       "DocumentRows: length is 0: expected at least 1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(each.sampler({.batch = 5}),
                       "DocumentRows: there are 4 rows, but a step needs 5, unless the last batch is padded",
                       std::invalid_argument);
}

TEST_CASE("several sources have rows of their own") {
  llm::DocumentRows rows(std::vector{counting(10, 3, 3), counting(20, 3, 2)}, {.length = 6, .packed = true});
  rows.add(std::vector{counting(30, 2, 1)});
  rows.add(std::vector{counting(40, 5, 1), counting(50, 4, 1)});
  CHECK(rows.size() == 4);
  CHECK(rows.documents() == 5);
  CHECK(row_of(rows, 0) == RowOfText{"10 11 20 21 0 0", "11 12 21 22 - -", "0 0 1 1 -1 -1", 4});
  CHECK(row_of(rows, 1) == RowOfText{"30 0 0 0 0 0", "31 - - - - -", "0 -1 -1 -1 -1 -1", 1});
  CHECK(row_of(rows, 3) == RowOfText{"50 51 52 0 0 0", "- - 53 - - -", "0 0 0 -1 -1 -1", 1});
  const llm::BatchSampler sampler = rows.sampler({.batch = 4, .shuffle = false}, {1, 1, 2});
  CHECK(sampler.sequence_count() == 4);
  CHECK(sampler.steps_per_epoch() == 1);
  CHECK(rows.counted(sampler, 0) == 4 + 1 + 1 + 1);
  CHECK_THROWS_WITH_AS(rows.sampler({.batch = 4}, {1, 1}), "DocumentRows: there are 2 weights of 3 sources",
                       std::invalid_argument);
}

TEST_CASE("documents are kept in a cache") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("shardwise-cache-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  struct Removed {
    const std::filesystem::path& path;
    ~Removed() { std::filesystem::remove_all(path); }
  } const removed{folder};
  const auto file = folder / "a.jsonl", second = folder / "b.jsonl", cache = folder / "tokens";
  struct Counted : Bytes {
    int* calls;
    std::vector<std::int32_t> encode(std::string_view text) const {
      ++*calls;
      return llm::ByteTokenizer::encode(text);
    }
  };
  int calls = 0;
  Counted tokenizer;
  tokenizer.calls = &calls;
  const std::string letters(3'000'000, 'x');  // longer than what is read at a time
  const auto write = [&](const std::string& completion) {
    std::ofstream(file) << "{\"text\": \"ab\"}\n\n  \r\n{\"prompt\": \"2+\", \"completion\": \"" << completion
                        << "\"}\n{\"text\": \"" << letters << "\"}";
    std::ofstream(second) << "{\"text\": \"last\"}\n";
  };
  write("4");
  llm::JsonLinesOptions options{.cache = cache};
  const auto read = [&] { return read_json_lines({file, second}, tokenizer, options); };
  const auto in_memory = read_json_lines({file, second}, tokenizer);
  calls = 0;
  for (const bool made : {true, false}) {
    const llm::TrainingDocuments documents = read();
    CHECK((calls > 0) == made);
    calls = 0;
    REQUIRE(documents.size() == 4);
    CHECK(shown(documents[0]) == "[ab$]");
    CHECK(shown(documents[1]) == "2+[4$]");
    CHECK(documents[1].place == file.string() + ":4");
    CHECK(documents[2].tokens.size() == letters.size() + 1);
    CHECK(documents[3].place == second.string() + ":1");
    CHECK(llm::fingerprint_of(documents) == llm::fingerprint_of(in_memory));
  }
  const auto rebuilt = [&] {
    calls = 0;
    read();
    return calls > 0;
  };
  CHECK(!rebuilt());
  write("5");
  CHECK(rebuilt());
  CHECK(shown(read()[1]) == "2+[5$]");
  options.end = '!';
  CHECK(rebuilt());
  options.chat = llm::ChatTemplate(zephyr, "", "~");
  CHECK(rebuilt());
  options.chat = llm::ChatTemplate(zephyr, "", "^");
  CHECK(rebuilt());
  CHECK(!rebuilt());
  std::ofstream(file) << "{}";
  CHECK_THROWS_WITH_AS(read(), doctest::Contains("a.jsonl:1: it is {}"), std::runtime_error);
  options.cache = file;
  CHECK_THROWS_WITH_AS(read(), doctest::Contains("the cache would lie in"), std::runtime_error);
  options.cache = second;
  CHECK_THROWS_AS(read(), std::runtime_error);
  CHECK(std::filesystem::file_size(second) == 17);

  // Numbers that are no documents.
  llm::detail::TokenFileHeader header;
  header.token_bytes = 4;
  header.count = 6;
  for (const std::array<std::int32_t, 6>& numbers : {std::array<std::int32_t, 6>{2, 0, 0, 0, 0, 7},
                                                     {-1, 0, 0, 0, 0, 7},
                                                     {1, -1, 0, 0, 0, 7},
                                                     {0, 0, 0, 0, 0, 7},
                                                     {1, 1, 0, 0, 0, 7}}) {
    const auto* first = reinterpret_cast<const char*>(numbers.data());
    CHECK_THROWS_WITH_AS(llm::TrainingDocuments({header, {first, first + sizeof numbers}}, {}),
                         doctest::Contains("are not a document"), std::runtime_error);
  }
}

TEST_CASE("a part of the documents is held out") {
  std::vector<llm::TrainingDocument> list;
  for (std::int32_t i = 0; i < 40; ++i) list.push_back(counting(i, 2, 1));
  const llm::TrainingDocuments whole = list;
  llm::TrainingDocuments all = whole;
  const auto held_out = llm::hold_out(all, 0.1, 5);
  CHECK(held_out.size() == 4);
  CHECK(all.size() == 36);
  auto ordered = [](const llm::TrainingDocuments& part) {
    for (Index i = 1; i < part.size(); ++i) {
      if (!(part[i - 1].tokens < part[i].tokens)) return false;
    }
    return true;
  };
  CHECK((ordered(all) && ordered(held_out)));
  auto again = whole, other = whole;
  CHECK(llm::fingerprint_of(llm::hold_out(again, 0.1, 5)) == llm::fingerprint_of(held_out));
  CHECK(llm::fingerprint_of(llm::hold_out(other, 0.1, 6)) != llm::fingerprint_of(held_out));
  llm::TrainingDocuments one = std::vector{counting(1, 2, 1)},
                         two = std::vector{counting(1, 2, 1), counting(5, 2, 1)};
  CHECK(llm::hold_out(two, 0.99, 1).size() == 1);
  CHECK_THROWS_WITH_AS(llm::hold_out(one, 0.5, 1),
                       "hold_out: 0.5 of 1 documents: expected a part in (0, 1) of 2 or more",
                       std::invalid_argument);
}

}  // namespace shardwise::testing::json_lines
