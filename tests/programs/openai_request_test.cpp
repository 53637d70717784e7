// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The bodies of OpenAI's requests: what they mean, which are refused and how; and the JSON of answers.

#include <array>

#include <doctest/doctest.h>

#include "../../examples/programs/serve/openai_request.hpp"

namespace {

using namespace tools;

const sw::llm::Tokenizer bytes = sw::llm::Tokenizer::bytes();
const sw::llm::ChatTemplate chat_template(
    "{% for m in messages %}{% if m.role == 'poet' %}{{ raise_exception('no poets') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>");
const ServedModel model{.name = "small",
                        .tokenizer = &bytes,
                        .chat = &chat_template,
                        .vocabulary = 256,
                        .known = {255, {250}},
                        .capacity = 100,
                        .ends = {3}};

ServedRequest parsed(bool chat, const std::string& body) { return parse_request(chat, body, model, 7); }
std::string text_of(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }

struct Refusal {
  std::string body, message, parameter = "";
  int status = 400;
};
void check_refused(bool chat, const Refusal& refusal) {
  CAPTURE(refusal.body);
  try {
    parsed(chat, refusal.body);
    FAIL("it is not refused");
  } catch (const ApiError& error) {
    CHECK(error.status == refusal.status);
    CHECK_MESSAGE(std::string_view(error.what()).find(refusal.message) != std::string_view::npos,
                  error.what());
    CHECK(error.parameter == refusal.parameter);
    const sw::Json json = sw::parse_json(error.json(), "the error")["error"];
    CHECK(json["type"] == "invalid_request_error");
    CHECK(json["param"].is_null() == error.parameter.empty());
  }
}

TEST_CASE("defaults are OpenAI's") {
  const ServedRequest completion = parsed(false, R"({"prompt": "Once"})");
  CHECK(text_of(completion.text.prompt) == "Once");
  CHECK(completion.text.new_tokens == 16);
  CHECK(completion.text.sampling.temperature == 1);
  CHECK(completion.text.sampling.top_p == 1);
  CHECK(completion.text.seed == 7);
  CHECK(completion.text.ends == std::vector{3});
  CHECK(completion.text.most_probable == -1);
  CHECK_FALSE(completion.stream);
  const ServedRequest chat = parsed(true, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  CHECK(text_of(chat.text.prompt) == "<user>Hi<assistant>");
  CHECK(chat.text.new_tokens == 100 - 19);
}

TEST_CASE("every field has its effect") {
  const ServedRequest all =
      parsed(false, R"({"model": "small", "prompt": [1, 2], "max_tokens": 5, "temperature": 0.5,
      "top_p": 0.9, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.2, "seed": 9, "stop": ["a", "b"],
      "logit_bias": {"65": -100, "66": 2.5}, "logprobs": 2, "stream": true, "stream_options": {"include_usage": true},
      "n": 1, "best_of": 1, "echo": false, "suffix": null, "presence_penalty": 0, "frequency_penalty": 0.0, "user": "u"})");
  CHECK(all.text.prompt == std::vector{1, 2});
  CHECK(all.text.new_tokens == 5);
  CHECK(all.text.sampling.temperature == 0.5);
  CHECK(all.text.sampling.top_p == 0.9);
  CHECK(all.text.sampling.top_k == 3);
  CHECK(all.text.sampling.min_p == 0.1);
  CHECK(all.text.repetition_penalty == 1.2);
  CHECK(all.text.seed == 9);
  CHECK(all.text.stops == std::vector<std::string>{"a", "b"});
  CHECK(all.text.sampling.logit_bias == std::vector<std::pair<std::int32_t, double>>{{65, -100}, {66, 2.5}});
  CHECK(all.text.most_probable == 2);
  CHECK(all.stream);
  CHECK(all.include_usage);
  const ServedRequest chat =
      parsed(true, R"({"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content":
      [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"}], "max_completion_tokens": 4,
      "logprobs": true, "top_logprobs": 3, "stop": "x", "tools": [], "tool_choice": "none",
      "response_format": {"type": "text"}})");
  CHECK(text_of(chat.text.prompt) == "<system>Be<user>ab<assistant>");
  CHECK(chat.text.new_tokens == 4);
  CHECK(chat.text.most_probable == 3);
  CHECK(chat.text.stops == std::vector<std::string>{"x"});
}

TEST_CASE("answers of the model come back as clients keep them") {
  const ServedRequest again = parsed(true, R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": null, "refusal": null, "tool_calls": null, "function_call": null, "audio": null},
      {"role": "assistant", "content": "b", "tool_calls": [], "annotations": []}]})");
  CHECK(text_of(again.text.prompt) == "<user>a<assistant><assistant>b<assistant>");
}

TEST_CASE("an answer that is kept until its end has few log-probabilities") {
  ServedModel large = model;
  large.capacity = 10000;
  const auto parse = [&](const std::string& rest) {
    return parse_request(false, R"({"prompt": "a", "logprobs": 20, )" + rest + "}", large, 7);
  };
  CHECK(parse(R"("max_tokens": 1560)").text.new_tokens == 1560);
  CHECK(parse(R"("max_tokens": 1561, "stream": true)").text.new_tokens == 1561);
  CHECK_THROWS_WITH_AS(parse(R"("max_tokens": 1561)"), doctest::Contains("more than 32768 log-probabilities"),
                       ApiError);
}

TEST_CASE("wrong bodies are refused") {
  for (const Refusal& refusal : std::vector<Refusal>{
           {"", "the body: not JSON"},
           {"{", "the body: not JSON"},
           {"{\"prompt\": \"\xff\"}", "ill-formed UTF-8"},
           {R"({"prompt": "\ud800"})", "not JSON"},
           {"[]", "expected an object"},
           {"3", "expected an object"},
           {"{}", "it is missing, expected a string", "prompt"},
           {R"({"prompt": "a", "prompt": "b"})", "twice"},
           {R"({"prompt": ""})", "the prompt is empty"},
           {R"({"prompt": []})", "the prompt is empty"},
           {R"({"prompt": 3})", "it is 3, expected a string", "prompt"},
           {R"({"prompt": ["a", "b"]})", "expected an integer", "prompt"},
           {R"({"prompt": [256]})", "token 256"},
           {R"({"prompt": [-1]})", "it is -1", "prompt"},
           {R"({"prompt": [65, 250]})", "token 250, for which the tokenizer has no text"},
           {R"({"prompt": [65, 255]})", "token 255, for which the tokenizer has no text"},
           {"{\"prompt\": \"" + std::string(3201, 'a') + "\"}",
            "3201 bytes, but the server has room for 100 tokens, and reads up to 3200", "prompt"},
           {R"({"prompt": "a", "model": "large"})", "not \"large\"", "model", 404},
           {R"({"prompt": "a", "model": 3})", "expected a string", "model"},
           {R"({"prompt": "a", "max_tokens": 0})", "expected an integer, 1 or more", "max_tokens"},
           {R"({"prompt": "a", "max_tokens": 1.5})", "it is 1.5", "max_tokens"},
           {R"({"prompt": "a", "max_tokens": 100})", "room for 99 new ones", "max_tokens"},
           {R"({"prompt": "a", "max_tokens": 1e300})", "expected an integer", "max_tokens"},
           {R"({"prompt": "a", "temperature": -1})", "expected a number, 0 or more", "temperature"},
           {R"({"prompt": "a", "temperature": NaN})", "expected a number", "temperature"},
           {R"({"prompt": "a", "temperature": Infinity})", "expected a number", "temperature"},
           {R"({"prompt": "a", "temperature": 1e999})", "not JSON"},
           {R"({"prompt": "a", "temperature": "hot"})", "expected a number", "temperature"},
           {R"({"prompt": "a", "top_p": 0})", "top_p 0"},
           {R"({"prompt": "a", "top_p": 1.1})", "it is 1.1", "top_p"},
           {R"({"prompt": "a", "min_p": 2})", "it is 2", "min_p"},
           {R"({"prompt": "a", "top_k": -1})", "it is -1", "top_k"},
           {R"({"prompt": "a", "repetition_penalty": 0})", "it is 0", "repetition_penalty"},
           {R"({"prompt": "a", "seed": -1})", "it is -1", "seed"},
           {R"({"prompt": "a", "seed": 18446744073709551615})", "expected an integer", "seed"},
           {R"({"prompt": "a", "stop": 3})", "it is 3", "stop"},
           {R"({"prompt": "a", "stop": [3]})", "it is 3", "stop"},
           {R"({"prompt": "a", "stop": ""})", "a text that ends texts is empty"},
           {R"({"prompt": "a", "logit_bias": [1]})", "expected an object", "logit_bias"},
           {R"({"prompt": "a", "logit_bias": {"x": 1}})", "not a token", "logit_bias"},
           {R"({"prompt": "a", "logit_bias": {"256": 1}})", "logit_bias of token 256"},
           {R"({"prompt": "a", "logit_bias": {"1": 101}})", "it is 101", "logit_bias"},
           {R"({"prompt": "a", "logprobs": 21})", "it is 21", "logprobs"},
           {R"({"prompt": "a", "logprobs": true})", "it is true", "logprobs"},
           {R"({"prompt": "a", "top_logprobs": 2})", "\"top_logprobs\" is not supported"},
           {R"({"prompt": "a", "n": 2})", "it is 2, expected 1", "n"},
           {R"({"prompt": "a", "echo": true})", "it is true", "echo"},
           {R"({"prompt": "a", "presence_penalty": 1})", "only repetition_penalty", "presence_penalty"},
           {R"({"prompt": "a", "stream": 1})", "expected true or false", "stream"},
           {R"({"prompt": "a", "stream_options": {"x": 1}})", "not supported", "stream_options"},
           {R"({"prompt": "a", "wings": 2})", "the key \"wings\" is not supported"},
           {R"({"prompt": "a", "messages": []})", "the key \"messages\" is not supported"}})
    check_refused(false, refusal);
  for (const Refusal& refusal : std::vector<Refusal>{
           {R"({})", "expected a list", "messages"},
           {R"({"messages": []})", "one or more messages", "messages"},
           {R"({"messages": "a"})", "expected a list", "messages"},
           {R"({"messages": [3]})", "expected an object", "messages"},
           {R"({"messages": [{"role": "user"}]})", "it is missing, expected a string", "messages"},
           {R"({"messages": [{"role": "user", "content": null}]})", "it is missing, expected a string",
            "messages"},
           {R"({"messages": [{"role": "assistant"}]})", "it is missing, expected a string", "messages"},
           {R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{}]}]})", "expected []",
            "messages"},
           {R"({"messages": [{"content": "a"}]})", "it is missing, expected a string", "messages"},
           {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "expected \"text\"",
            "messages"},
           {R"({"messages": [{"role": "poet", "content": "a"}]})", "no poets"},
           {R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})", "it needs \"logprobs\"",
            "top_logprobs"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "expected []", "tools"},
           {R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}})",
            "expected {\"type\":\"text\"}", "response_format"},
           {R"({"prompt": "a"})", "the key \"prompt\" is not supported"}})
    check_refused(true, refusal);
  std::string many = R"({"messages": [3)";
  for (int i = 0; i < 100; ++i) many += ", 3";
  check_refused(true,
                {many + "]}", "there are 101 messages, but the server has room for 100 tokens", "messages"});
  check_refused(false, {("{\"prompt\": \"" + std::string(100, 'a') + "\"}").c_str(),
                        "the prompt has 100 tokens", "prompt"});
}

NewToken token(char letter, TextEnd end = TextEnd::none) {
  return {.request = 0,
          .id = letter,
          .text = std::string(1, letter),
          .end = end,
          .log_probability = -0.5,
          .most_probable = {{letter, -0.5}, {'z', -std::numeric_limits<double>::infinity()}}};
}

TEST_CASE("an answer as a whole") {
  const ServedRequest request = parsed(false, R"({"prompt": "ab", "logprobs": 2})");
  Answer answer(model, request, "cmpl-1", 5);
  CHECK(answer.add(token('x')).empty());
  answer.add({.request = 0, .id = 3, .text = "", .end = TextEnd::token});
  REQUIRE(answer.complete());
  const sw::Json json = sw::parse_json(answer.whole(), "the answer");
  CHECK(json["object"] == "text_completion");
  CHECK(json["choices"][0]["text"] == "x");
  CHECK(json["choices"][0]["finish_reason"] == "stop");
  CHECK(json["choices"][0]["logprobs"]["tokens"] == sw::Json{"x"});
  CHECK(json["choices"][0]["logprobs"]["top_logprobs"][0] == sw::Json{{"x", -0.5}, {"z", -9999.0}});
  CHECK(json["usage"] == sw::Json{{"prompt_tokens", 2}, {"completion_tokens", 2}, {"total_tokens", 4}});
}

TEST_CASE("an answer as a stream") {
  const ServedRequest request =
      parsed(true, R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true,
      "stream": true, "stream_options": {"include_usage": true}})");
  Answer answer(model, request, "chatcmpl-1", 5);
  CHECK(sw::parse_json(answer.first_event(), "event")["choices"][0]["delta"]["role"] == "assistant");
  const sw::Json event = sw::parse_json(answer.add(token('x', TextEnd::length)), "event");
  CHECK(event["object"] == "chat.completion.chunk");
  CHECK(event["choices"][0]["delta"]["content"] == "x");
  CHECK(event["choices"][0]["logprobs"]["content"][0]["bytes"] == sw::Json{120});
  const std::vector<std::string> last = answer.last_events();
  REQUIRE(last.size() == 3);
  CHECK(sw::parse_json(last[0], "event")["choices"][0]["finish_reason"] == "length");
  CHECK(sw::parse_json(last[1], "event")["usage"]["completion_tokens"] == 1);
  CHECK(last[2] == "[DONE]");
}

}  // namespace
