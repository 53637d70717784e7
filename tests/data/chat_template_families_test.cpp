// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The chat templates of families of models: tests/reference/chat_templates.py made the expected texts with Jinja2.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include <shardwise/llm/data/json_lines.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>

namespace shardwise::testing::chat_templates {
namespace {

using namespace shardwise;
using llm::detail::OrderedJson;

const std::filesystem::path folder = SHARDWISE_FAMILIES;

/// The template, where {% generation %} stands around answers; or one without it.
std::string template_of(const std::string& family, bool marks_answers) {
  std::string text = read_text(folder / (family + ".jinja"));
  for (const auto& [from, to] :
       {std::pair{" generation %}", " if true %}"}, {" endgeneration %}", " endif %}"}}) {
    for (std::size_t at = 0; !marks_answers && (at = text.find(from, at)) != text.npos;)
      text.replace(at, std::string_view(from).size(), to);
  }
  return text;
}

/// The text of the dialogue, with what is trained on between the same brackets as in the expected texts.
std::string learned(const std::string& text, const OrderedJson& dialogue) {
  OrderedJson line = {{"messages", dialogue["messages"]}, {"chat_template_kwargs", dialogue["variables"]}};
  if (dialogue["variables"].contains("tools")) line["tools"] = dialogue["variables"]["tools"];
  const llm::TrainingDocument document = llm::detail::document_of_line(
      line.dump(), llm::ByteTokenizer(), {.chat = llm::ChatTemplate(text, "<s>", "</s>")});
  std::string all = llm::ByteTokenizer().decode(document.tokens);
  for (auto answer = document.answers.rbegin(); answer != document.answers.rend(); ++answer) {
    all.insert(static_cast<std::size_t>(answer->end()), "\u27e7");
    all.insert(static_cast<std::size_t>(answer->begin), "\u27e6");
  }
  return all;
}

std::string without_brackets(std::string text) {
  for (const std::string bracket : {"\u27e6", "\u27e7"}) {
    for (std::size_t at; (at = text.find(bracket)) != text.npos;) text.erase(at, bracket.size());
  }
  return text;
}

TEST_CASE("the chat templates of each family write what Jinja2 writes, and learn the answers") {
  const auto all = OrderedJson::parse(read_text(folder / "chat_templates.json"));
  CHECK(all["families"].size() == 11);
  int texts = 0;
  for (const auto& each : all["families"].items()) {
    for (const auto& result : each.value().items()) {
      const auto &family = each.key(), &name = result.key();
      const auto& expected = result.value();
      CAPTURE(family);
      CAPTURE(name);
      const OrderedJson& dialogue = all["dialogues"][name];
      const std::string marked = template_of(family, true), plain = template_of(family, false);
      const llm::ChatTemplate chat(marked, "<s>", "</s>");
      auto rendered = [&](bool prompt) {
        return chat.rendered(dialogue["messages"], prompt, dialogue["variables"]).text;
      };
      if (expected.is_null()) {
        CHECK_THROWS_AS(rendered(false), std::runtime_error);
        continue;
      }
      ++texts;
      CHECK(rendered(false) == without_brackets(expected["text"]));
      CHECK(rendered(true) == expected["prompt"]);
      CHECK(learned(marked, dialogue) == expected["text"]);
      // Without {% generation %}: Mistral's writes the system message before the last question alone.
      if (family == "mistral" && name == "system") {
        CHECK_THROWS_WITH_AS(learned(plain, dialogue), doctest::Contains("give the others \"weight\": 0"),
                             std::runtime_error);
      } else if (name != "no thoughts") {
        CHECK(learned(plain, dialogue) == expected["text"]);
      }
    }
  }
  CHECK(texts > 60);
  CHECK_THROWS_WITH_AS(llm::ChatTemplate("x").rendered({}, false, OrderedJson::array({1})),
                       "chat template: expected an object of variables, such as {\"tools\": [...]}",
                       std::runtime_error);
  // The prompt's empty thoughts are not learned.
  CHECK(learned(template_of("qwen3", false), all["dialogues"]["no thoughts"])
            .ends_with("assistant\n<think>\n\n</think>\n\n\u27e6 4 <|im_end|>\n\u27e7"));
}

TEST_CASE("each part of the language writes what Jinja2 writes") {
  const auto all = OrderedJson::parse(read_text(folder / "chat_templates.json"));
  CHECK(all["forms"].size() > 40);
  for (const auto& each : all["forms"].items()) {
    const std::string &form = each.key(), expected = each.value();
    CAPTURE(form);
    const OrderedJson& given = all["forms of"];
    CHECK(llm::ChatTemplate(form).rendered(given["messages"], false, given["variables"]).text == expected);
  }
}

TEST_CASE("what a template may not do") {
  const auto refused = [](const std::string& text) {
    try {
      return llm::ChatTemplate(text).render(Json::parse(R"([{"role": "user"}])"), false);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  for (const char* bad :
       {"{% break %}", "{% for m in messages %}{% set x %}{% break %}{% endset %}{% endfor %}",
        "{% set x = %}", "{% for m in messages %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}",
        "{{ 2 ** 3 }}", "{{ 'a' | indent }}", "{{ 'a' is callable }}", "{{ 'a' | default(value=1) }}",
        "{{ {'a' 1} }}", "{{ 'a'.title() }}", "{{ 'a' | replace('a') }}",
        "{{ 'a' | replace('a', 'b', 'c', 'd') }}", "{{ 'a' | default('a', default_value='b') }}",
        "{{ '\\ud800' }}", "{{ '\\u12' }}", "{{ 1.a }}"})
    CHECK_MESSAGE(refused(bad).find("is not supported") != std::string::npos, bad);
  for (const auto& each : {std::pair{"{{ '\u00e9' | upper }}", "expected a text of ASCII characters"},
                           {"{{ 'a' < 1 }}", "it is \"a\", expected a number"},
                           {"{{ 1 / 0 }}", "expected a divisor that is not 0"},
                           {"{{ 1.5 // 0 }}", "expected a divisor that is not 0"},
                           {"{{ range(1, 2, 0) }}", "expected a step that is not 0"},
                           {"{{ range(200000000) | length }}", "it takes too many steps"},
                           {"{{ 'a' * 100000000 }}", "it makes texts of more than 8 MiB"},
                           {"{{ 'a1' | int }}", "expected a text of digits"},
                           {"{{ {'a': 1} }}", "expected a text or a number"},
                           {"{{ {1: 2} }}", "expected a text"},
                           {"{{ [1] | map(attribute='a') | list }}", "expected a value"},
                           {"{{ 1 is sameas 1 }}", "expected true, false or none"}})
    CHECK_MESSAGE(refused(each.first).find(each.second) != std::string::npos, refused(each.first));
  // Its operands are not copied again and again.
  std::string long_one = "{{ 'a'";
  for (int i = 0; i < 100000; ++i) long_one += " ~ 'a'";
  CHECK(refused(long_one + " }}").find("it takes too many steps") != std::string::npos);
}

TEST_CASE("what a template's macros see, and what they may not do") {
  const auto written = [](const std::string& text) {
    return llm::ChatTemplate(text, "<s>")
        .render(Json::parse(R"([{"role": "user"}, {"role": "assistant"}])"), false);
  };
  // The texts are Jinja2's.
  CHECK(written(
            "{% macro f(a, b='-') %}[{{ a }}{{ b }}{{ m is defined }}{{ bos_token }}]{% endmacro %}"
            "{% for m in messages %}{{ f(m.role) }}{{ f(loop.index, f('x', none)) }}{% endfor %}{{ f() }}") ==
        "[user-False<s>][1[xNoneFalse<s>]False<s>][assistant-False<s>][2[xNoneFalse<s>]False<s>][-False<s>]");
  CHECK(written("{% set ns = namespace(n=0) %}{% macro f() %}{% set ns.n = ns.n + 1 %}{% set x = 1 %}"
                "{% endmacro %}{{ f() }}{{ f() }}{{ ns.n }}{{ x is defined }}") == "2False");
  CHECK(written("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}") ==
        "3210");
  const auto refused = [&](const std::string& text) {
    try {
      return written(text);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  CHECK(refused("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(3) }}") ==
        "chat template: line 1: it nests deeper than 100");
  CHECK(refused("{% macro f(n) %}{{ f() }}{{ f() }}{{ f(n - 1) if n > 0 }}{{ f(n - 1) if n > 0 }}{% endmacro "
                "%}{{ f(30) }}")
            .starts_with("chat template: line 1: it "));
  for (const char* bad :
       {"{% macro f(n) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(n) %}{% endmacro %}{{ f(m=1) }}",
        "{% macro f(n) %}{% generation %}{% endgeneration %}{% endmacro %}", "{% macro f %}{% endmacro %}",
        "{% macro f(n) %}{{ n | round }}{% endmacro %}"})
    CHECK(refused(bad).find("is not supported") != std::string::npos);
}

}  // namespace
}  // namespace shardwise::testing::chat_templates
