// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The body of a request to shardwise-serve, for both routes. What passes can be computed.

#include "../../examples/programs/serve/openai_request.hpp"
#include "target.hpp"

namespace fuzz {

inline Target openai_request() {
  const std::vector<std::string> seeds{
      R"({"model": "small", "prompt": [1, 2], "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "min_p": 0.1,
          "seed": 9, "stop": ["a", "b"], "logit_bias": {"65": -100}, "logprobs": 2, "stream": true})",
      R"({"prompt": "Once", "top_k": 3, "repetition_penalty": 1.2, "stop": "x", "n": 1, "user": "u"})",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "max_completion_tokens": 4,
          "logprobs": true, "top_logprobs": 3, "stream_options": {"include_usage": true}})",
      R"({"prompt": [65], "stop": [], "logit_bias": {}, "max_tokens": 1, "logprobs": 0})",
      R"({"prompt": "", "stop": [""], "max_tokens": 0})",
      R"({"messages": [{"role": "", "content": []}], "stop": "", "tools": []})",
      R"({"prompt": [], "messages": []})",
  };
  return {"openai_request", seeds, [](std::string_view input) {
            static const shardwise::llm::Tokenizer bytes = shardwise::llm::Tokenizer::bytes();
            static const shardwise::llm::ChatTemplate chat(
                "{% for m in messages %}{{ m.role + m.content }}{% endfor %}");
            static const tools::ServedModel model{.name = "small",
                                                  .tokenizer = &bytes,
                                                  .chat = &chat,
                                                  .vocabulary = 256,
                                                  .known = {256},
                                                  .capacity = 100};
            for (const bool dialogue : {false, true}) {
              try {
                const tools::ServedRequest request = tools::parse_request(dialogue, input, model, 1);
                require(request.text.new_tokens + std::ssize(request.text.prompt) <= model.capacity,
                        "there is room for the text");
                tools::Answer answer(model, request, "id", 0);
                const tools::NewToken token{
                    .request = 0, .id = 65, .text = "A", .end = tools::TextEnd::length};
                answer.add(token);
                shardwise::parse_json(answer.whole(), "the answer");
              } catch (const tools::ApiError& error) {
                shardwise::parse_json(error.json(), "the error");
              }
            }
          }};
}

}  // namespace fuzz
