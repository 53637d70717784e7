// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "openai_request.hpp"

#include <charconv>
#include <cmath>

namespace tools {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Part = sw::JsonPart;

constexpr sw::Index no_limit = std::numeric_limits<sw::Index>::max();
constexpr double largest_float = std::numeric_limits<float>::max();
constexpr sw::Index most_alternatives = 20;
constexpr std::size_t most_stops = 16, longest_stop = 1024;  // bytes
constexpr std::size_t most_biases = 1024;
constexpr sw::Index most_logarithms = 1 << 15;  // of an answer that is kept until its end
/// A prompt with more bytes for each token that the server has room for is not turned into tokens, which takes long. In
/// texts and in code a token has 2 to 5 bytes.
constexpr std::size_t most_bytes_of_token = 32;

std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

double number(const Part& part, double least, double most, const char* expected) {
  const double value = part.json().is_number() ? part.json().get<double>() : NAN;
  if (!(value >= least && value <= most)) part.expected(expected);
  return value;
}

/// Fields that change nothing here are ignored; those that would change the text must have the value that does not.
void check_fields(const Part& part, bool chat) {
  part.only({"model",
             chat ? "messages" : "prompt",
             "max_tokens",
             "max_completion_tokens",
             "temperature",
             "top_p",
             "top_k",
             "min_p",
             "repetition_penalty",
             "seed",
             "stop",
             "logit_bias",
             "logprobs",
             chat ? "top_logprobs" : "best_of",
             "stream",
             "stream_options",
             "n",
             chat ? "tools" : "echo",
             chat ? "tool_choice" : "suffix",
             "presence_penalty",
             "frequency_penalty",
             "response_format",
             "user",
             "store",
             "metadata",
             "service_tier",
             "parallel_tool_calls"});
  for (const char* key : {"n", "best_of"}) part.must_be(key, 1);
  for (const char* key : {"presence_penalty", "frequency_penalty"}) {
    if (!part[key].null()) number(part[key], 0, 0, "0: only repetition_penalty is supported");
  }
  part.must_be("echo", false);
  part.must_be("suffix", "");
  part.must_be("tools", sw::Json::array());
  part.must_be("tool_choice", "none");
  part.must_be("response_format", {{"type", "text"}});
}

/// Text, or a list of parts that are text.
std::string content_of(const Part& content) {
  if (!content.json().is_array()) return content.get<std::string>();
  std::string text;
  content.for_each([&](const Part& part) {
    if (part.get<std::string>("type") != "text") part["type"].expected("\"text\"");
    text += part.get<std::string>("text");
  });
  return text;
}

/// The tokens of a prompt. Throws `ApiError` for a text that is far too long.
std::vector<std::int32_t> encoded(const std::string& text, const char* key, const ServedModel& model,
                                  sw::llm::EncodeOptions options = {}) {
  const std::size_t most = static_cast<std::size_t>(model.capacity) * most_bytes_of_token;
  if (text.size() <= most) return model.tokenizer->encode(text, options);
  throw ApiError(400,
                 "the prompt has " + std::to_string(text.size()) + " bytes, but the server has room for " +
                     std::to_string(model.capacity) + " tokens, and reads up to " + std::to_string(most) +
                     " bytes for them",
                 "invalid_request_error", key, "context_length_exceeded");
}

std::vector<std::int32_t> dialogue(const Part& messages, const ServedModel& model) {
  if (!model.no_chat.empty()) messages.fail(model.no_chat + "; use /v1/completions");
  if (!model.chat || !model.tokenizer) messages.fail("the model has no chat template; use /v1/completions");
  if (std::ssize(messages.json()) > model.capacity) {
    throw ApiError(400,
                   "there are " + std::to_string(messages.json().size()) +
                       " messages, but the server has room for " + std::to_string(model.capacity) + " tokens",
                   "invalid_request_error", "messages", "context_length_exceeded");
  }
  sw::Json rendered = sw::Json::array();
  messages.for_each([&](const Part& message) {
    message.only(
        {"role", "content", "name", "refusal", "tool_calls", "function_call", "annotations", "audio"});
    // A client sends earlier answers as it got them.
    for (const char* key : {"refusal", "function_call", "audio"}) message.must_be(key, nullptr);
    for (const char* key : {"tool_calls", "annotations"}) message.must_be(key, sw::Json::array());
    const std::string role = message.get<std::string>("role");
    const bool none = role == "assistant" && message.json().contains("content") && message["content"].null();
    rendered.push_back({{"role", role}, {"content", none ? "" : content_of(message["content"])}});
  });
  if (rendered.empty()) messages.expected("a list of one or more messages");
  return encoded(model.chat->render(rendered, true), "messages", model, {.add_special_tokens = false});
}

std::vector<std::int32_t> prompt_of(const Part& prompt, const ServedModel& model) {
  if (prompt.json().is_array()) {
    std::vector<std::int32_t> ids;
    prompt.for_each([&](const Part& id) { ids.push_back(id.get<std::int32_t>()); });
    return ids;
  }
  if (!model.tokenizer) prompt.fail("the model has no tokenizer, so it must be a list of tokens");
  return encoded(prompt.get<std::string>(), "prompt", model);
}

void read_sampling(const Part& part, sw::llm::SamplingOptions& sampling) {
  const auto read = [&](const char* key, double& value, double most, const char* expected) {
    if (!part[key].null()) value = number(part[key], 0, most, expected);
  };
  read("temperature", sampling.temperature, largest_float, "a number, 0 or more");
  read("top_p", sampling.top_p, 1, "a number above 0, up to 1");
  read("min_p", sampling.min_p, 1, "a number from 0 to 1");
  if (!part["top_k"].null()) sampling.top_k = part["top_k"].integer(0, no_limit);
  if (part["logit_bias"].null()) return;
  if (part["logit_bias"].json().size() > most_biases)
    part["logit_bias"].fail("there are more than " + std::to_string(most_biases) + " tokens");
  part["logit_bias"].for_each_member([&](const std::string& key, const Part& bias) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) bias.fail("the key is not a token");
    sampling.logit_bias.emplace_back(id, number(bias, -100, 100, "a number from -100 to 100"));
  });
}

void read_stops(const Part& stop, std::vector<std::string>& stops) {
  const auto add = [&](const Part& each) {
    stops.push_back(each.get<std::string>());
    if (stops.back().size() > longest_stop)
      each.fail("it has more than " + std::to_string(longest_stop) + " bytes");
  };
  if (stop.null()) return;
  if (!stop.json().is_array()) return add(stop);
  if (stop.json().size() > most_stops)
    stop.fail("there are more than " + std::to_string(most_stops) + " texts");
  stop.for_each(add);
}

/// How many of the most probable tokens are wanted; -1: no logarithms.
sw::Index alternatives(const Part& part, bool chat) {
  const Part wanted = part["logprobs"], most = part["top_logprobs"];
  if (!chat) return wanted.null() ? -1 : wanted.integer(0, most_alternatives);
  const bool any = !wanted.null() && wanted.get<bool>();
  if (!most.null() && !any) most.fail("it needs \"logprobs\": true");
  if (!any) return -1;
  return most.null() ? 0 : most.integer(0, most_alternatives);
}

ServedRequest request_of(bool chat, const Part& part, const ServedModel& model, std::uint64_t seed) {
  check_fields(part, chat);
  const std::string name = part.get<std::string>("model", model.name);
  if (name != model.name) {
    throw ApiError(404, "this server has the model \"" + model.name + "\", not \"" + name + "\"",
                   "invalid_request_error", "model", "model_not_found");
  }
  ServedRequest request;
  request.chat = chat;
  TextRequest& text = request.text;
  text.ends = model.ends;
  text.prompt = chat ? dialogue(part["messages"], model) : prompt_of(part["prompt"], model);
  read_sampling(part, text.sampling);
  read_stops(part["stop"], text.stops);
  text.most_probable = alternatives(part, chat);
  text.seed = part["seed"].null() ? seed : static_cast<std::uint64_t>(part["seed"].integer(0, no_limit));
  if (!part["repetition_penalty"].null()) {
    text.repetition_penalty = number(part["repetition_penalty"], 1e-9, 1e9, "a number from 1e-9 to 1e9");
  }
  request.stream = part.get<bool>("stream", false);
  if (!part["stream_options"].null()) {
    part["stream_options"].only({"include_usage", "include_obfuscation"});
    request.include_usage = part["stream_options"].get<bool>("include_usage", false);
  }

  const sw::Index tokens = std::ssize(text.prompt), room = model.capacity - tokens;
  if (room < 1) {
    throw ApiError(400,
                   "the prompt has " + std::to_string(tokens) + " tokens, but the server has room for " +
                       std::to_string(model.capacity) + " with the text",
                   "invalid_request_error", chat ? "messages" : "prompt", "context_length_exceeded");
  }
  const char* key = part["max_completion_tokens"].null() ? "max_tokens" : "max_completion_tokens";
  text.new_tokens =
      part[key].null() ? (chat ? room : std::min<sw::Index>(room, 16)) : part[key].integer(1, no_limit);
  if (text.new_tokens > room) {
    throw ApiError(400,
                   "the prompt has " + std::to_string(tokens) + " tokens, so there is room for " +
                       std::to_string(room) + " new ones, not for " + std::to_string(text.new_tokens),
                   "invalid_request_error", key, "context_length_exceeded");
  }
  if (!request.stream && text.most_probable >= 0 &&
      text.new_tokens * (1 + text.most_probable) > most_logarithms)
    part["logprobs"].fail("the answer may have more than " + std::to_string(most_logarithms) +
                          " log-probabilities; ask for fewer tokens, or for a stream");
  text.check(model.vocabulary, model.known, model.tokenizer != nullptr);
  return request;
}

}  // namespace

std::string ApiError::json() const {
  const auto or_null = [](const std::string& value) {
    return value.empty() ? OrderedJson() : OrderedJson(value);
  };
  return dump(
      {{"error",
        {{"message", what()}, {"type", type}, {"param", or_null(parameter)}, {"code", or_null(code)}}}});
}

ServedRequest parse_request(bool chat, std::string_view body, const ServedModel& model, std::uint64_t seed) {
  sw::Json json;
  try {
    json = sw::parse_json(body, "the body");
    return request_of(chat, Part(json), model, seed);
  } catch (const ApiError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    // Errors begin with the place: "stop[0]: it is 3, expected a string".
    const std::string message = error.what(), key = message.substr(0, message.find_first_of(":.[,"));
    const bool names = key == "prompt" || key == "messages" || (json.is_object() && json.contains(key));
    throw ApiError(400, message, "invalid_request_error", names ? key : "");
  }
}

Answer::Answer(const ServedModel& model, const ServedRequest& request, std::string id, std::int64_t created)
    : model_(model), request_(request), id_(std::move(id)), created_(created) {}

OrderedJson Answer::frame(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_.name}};
}

OrderedJson Answer::usage() const {
  const sw::Index prompt = std::ssize(request_.text.prompt);
  return {{"prompt_tokens", prompt}, {"completion_tokens", count_}, {"total_tokens", prompt + count_}};
}

/// {"token", "logprob", "bytes"}
OrderedJson Answer::logarithm_of(std::int32_t id, double logarithm) const {
  const std::string text = model_.tokenizer ? model_.tokenizer->decode(std::array{id}) : std::to_string(id);
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  // JSON has no infinity; this is OpenAI's value for tokens that are not possible.
  return {{"token", text}, {"logprob", std::max(logarithm, -9999.0)}, {"bytes", std::move(bytes)}};
}

/// Of some elements of `tokens_`, as either route has them.
OrderedJson Answer::logarithms(const OrderedJson& tokens) const {
  if (!wants_logarithms()) return nullptr;
  if (request_.chat) return {{"content", tokens}};
  OrderedJson names = OrderedJson::array(), values = names, tops = names;
  for (const OrderedJson& token : tokens) {
    names.push_back(token["token"]);
    values.push_back(token["logprob"]);
    OrderedJson top = OrderedJson::object();
    for (const OrderedJson& other : token["top_logprobs"]) {
      OrderedJson& value = top[other["token"].get<std::string>()];
      if (value.is_null()) value = other["logprob"];  // of equal texts, the most probable
    }
    tops.push_back(std::move(top));
  }
  return {{"tokens", names}, {"token_logprobs", values}, {"top_logprobs", tops}};
}

OrderedJson Answer::chat_event(OrderedJson delta, const char* reason) const {
  OrderedJson event = frame("chat.completion.chunk");
  event["choices"] = OrderedJson::array({{{"index", 0}, {"delta", std::move(delta)}}});
  event["choices"][0]["finish_reason"] = reason ? OrderedJson(reason) : OrderedJson();
  return event;
}

std::string Answer::first_event() const {
  if (!request_.chat) return "";
  return dump(chat_event({{"role", "assistant"}, {"content", ""}}, nullptr));
}

std::string Answer::add(const NewToken& token) {
  ++count_;
  end_ = token.end;
  if (!request_.stream) text_ += token.text;
  // A token that ends the text does not belong to it.
  const bool counts = token.end != TextEnd::token && wants_logarithms();
  OrderedJson described = OrderedJson::array();
  if (counts) {
    described.push_back(logarithm_of(token.id, token.log_probability));
    OrderedJson others = OrderedJson::array();
    for (const sw::llm::TokenProbability& other : token.most_probable)
      others.push_back(logarithm_of(other.id, other.logarithm));
    described[0]["top_logprobs"] = std::move(others);
    if (!request_.stream) tokens_.push_back(described[0]);
  }
  if (!request_.stream || (token.text.empty() && described.empty())) return "";
  if (request_.chat) {
    OrderedJson event = chat_event({{"content", token.text}}, nullptr);
    event["choices"][0]["logprobs"] = logarithms(described);
    return dump(event);
  }
  OrderedJson event = frame("text_completion");
  event["choices"] = OrderedJson::array({{{"index", 0},
                                          {"text", token.text},
                                          {"logprobs", logarithms(described)},
                                          {"finish_reason", nullptr}}});
  return dump(event);
}

std::vector<std::string> Answer::last_events() const {
  std::vector<std::string> events;
  if (request_.chat) {
    events.push_back(dump(chat_event(OrderedJson::object(), reason())));
  } else {
    OrderedJson event = frame("text_completion");
    event["choices"] = OrderedJson::array(
        {{{"index", 0}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", reason()}}});
    events.push_back(dump(event));
  }
  if (request_.include_usage) {
    OrderedJson event = frame(request_.chat ? "chat.completion.chunk" : "text_completion");
    event["choices"] = OrderedJson::array();
    event["usage"] = usage();
    events.push_back(dump(event));
  }
  events.emplace_back("[DONE]");
  return events;
}

std::string Answer::whole() const {
  OrderedJson answer = frame(request_.chat ? "chat.completion" : "text_completion");
  OrderedJson choice{{"index", 0}};
  if (request_.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text_}};
  } else {
    choice["text"] = text_;
  }
  choice["logprobs"] = logarithms(tokens_);
  choice["finish_reason"] = reason();
  answer["choices"] = OrderedJson::array({std::move(choice)});
  answer["usage"] = usage();
  return dump(answer);
}

}  // namespace tools
