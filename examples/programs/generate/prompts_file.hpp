// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A file of prompts, each a line of JSON: {"prompt": "Once"} or {"tokens": [1, 2]}, with "max_tokens", "temperature",
/// "seed" and "stop" as wanted.

#include <limits>
#include <vector>

#include <shardwise/io/json.hpp>

#include "../common/generator.hpp"
#include "../common/text_inputs.hpp"

namespace tools {

/// The request of a line; `request` has what the line does not say. Errors are `std::runtime_error`s that begin with
/// `place`.
inline TextRequest request_of_line(std::string_view line, const std::string& place, TextRequest request,
                                   const std::optional<sw::llm::Tokenizer>& tokenizer) {
  constexpr sw::Index most = std::numeric_limits<sw::Index>::max();
  const sw::Json json = sw::parse_json(line, place);
  const sw::JsonPart part(json, place + ": ");
  part.only({"prompt", "tokens", "max_tokens", "temperature", "seed", "stop"});
  const auto given = [&](const char* key) { return !part[key].null(); };
  if (given("prompt") == given("tokens")) part.fail("expected either \"prompt\" or \"tokens\"");
  if (given("tokens")) {
    part["tokens"].for_each(
        [&](const auto& id) { request.prompt.push_back(id.template get<std::int32_t>()); });
  } else if (tokenizer) {
    request.prompt =
        sw::prefix_errors(place, [&] { return tokenizer->encode(part.get<std::string>("prompt")); });
  } else {
    part.fail(std::string(no_tokenizer) + "; give \"tokens\"");
  }
  if (given("max_tokens")) request.new_tokens = part["max_tokens"].integer(1, 1 << 24);
  if (given("seed")) request.seed = static_cast<std::uint64_t>(part["seed"].integer(0, most));
  if (given("temperature")) {
    const auto temperature = part["temperature"];
    if (!temperature.json().is_number() || !(temperature.json().get<double>() >= 0))
      temperature.expected("a number, 0 or more");
    request.sampling.temperature = temperature.json().get<double>();
  }
  if (given("stop")) {
    request.stops.clear();
    const auto stop = part["stop"];
    if (stop.json().is_array()) {
      stop.for_each([&](const auto& each) { request.stops.push_back(each.template get<std::string>()); });
    } else {
      request.stops.push_back(stop.get<std::string>());
    }
  }
  return request;
}

}  // namespace tools
