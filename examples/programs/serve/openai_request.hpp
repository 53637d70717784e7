// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bodies of OpenAI's requests for texts, and the JSON of answers and errors.

#include <shardwise/llm/text/chat_template.hpp>
#include <shardwise/llm/text/tokenizer.hpp>

#include "../common/text_request.hpp"

namespace tools {

/// A refused request: its HTTP status, and what OpenAI's clients show.
struct ApiError : std::runtime_error {
  ApiError(int http_status, const std::string& message, std::string kind = "invalid_request_error",
           std::string parameter_name = "", std::string code_name = "")
      : std::runtime_error(message),
        status(http_status),
        type(std::move(kind)),
        parameter(std::move(parameter_name)),
        code(std::move(code_name)) {}
  /// {"error": {"message", "type", "param", "code"}}
  std::string json() const;

  int status;
  std::string type, parameter, code;
};

/// The model that answers requests.
struct ServedModel {
  std::string name;
  const sw::llm::Tokenizer* tokenizer;  ///< null: prompts are lists of tokens
  const sw::llm::ChatTemplate* chat;    ///< null: there are no dialogues
  std::string no_chat{};                ///< why not, if there is a template that cannot be read
  sw::Index vocabulary;
  KnownIds known;
  sw::Index capacity;                ///< the most tokens of a prompt and its text
  std::vector<std::int32_t> ends{};  ///< end texts
};

struct ServedRequest {
  TextRequest text;
  bool chat = false, stream = false, include_usage = false;
};

/// The request with this body for /v1/completions, or for /v1/chat/completions. `seed` is for a body without one.
/// Throws `ApiError`. A template may ask for the date, by a function that threads cannot share: call it in one thread.
ServedRequest parse_request(bool chat, std::string_view body, const ServedModel& model, std::uint64_t seed);

/// The JSON of an answer, token by token, or at once.
class Answer {
 public:
  /// `created`: seconds since 1970.
  Answer(const ServedModel& model, const ServedRequest& request, std::string id, std::int64_t created);

  /// The data of the first event of a stream, or nothing.
  std::string first_event() const;
  /// The event of a token, or nothing if it adds none.
  std::string add(const NewToken& token);
  /// After the last token: the events that follow.
  std::vector<std::string> last_events() const;
  /// After the last token: the answer as a whole.
  std::string whole() const;
  bool complete() const { return end_ != TextEnd::none; }

 private:
  nlohmann::ordered_json frame(const char* object) const;
  nlohmann::ordered_json usage() const;
  nlohmann::ordered_json logarithms(const nlohmann::ordered_json& tokens) const;
  nlohmann::ordered_json logarithm_of(std::int32_t id, double logarithm) const;
  nlohmann::ordered_json chat_event(nlohmann::ordered_json delta, const char* reason) const;
  const char* reason() const { return end_ == TextEnd::length ? "length" : "stop"; }
  bool wants_logarithms() const { return request_.text.most_probable >= 0; }

  const ServedModel& model_;
  const ServedRequest& request_;
  std::string id_;
  std::int64_t created_;
  std::string text_;
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::array();  ///< with their logarithms
  sw::Index count_ = 0;
  TextEnd end_ = TextEnd::none;
};

}  // namespace tools
