// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plan of one more token of a text: the model of `generate` runs dry.

#include <array>
#include <string_view>
#include <vector>

#include <shardwise/mesh/trace.hpp>
#include <shardwise/module/named_parameters.hpp>

#include "text_model.hpp"

namespace tools {

/// The work of a rank for the last token of a text that fills the model's context.
struct TokenPlan {
  JobPlan plan;
  std::vector<sw::Event> events;
  sw::Index weights = 0;  ///< bytes of weights that it reads, see `weights_of_token`
  sw::Index cache = 0;    ///< bytes of the cache of keys and values, with room for the context
};

/// The bytes of weights on this rank that one token reads: of the table of tokens a row, unless it is also the head; of
/// a layer's experts those that the token chooses, if all are on this rank.
inline sw::Index weights_of_token(const std::vector<sw::NamedParameter>& parameters,
                                  const sw::LlamaConfig& config) {
  sw::Index bytes = 0;
  bool ends = false;
  for (const auto& [name, parameter] : parameters) ends = ends || name == "norm.weight";
  for (const auto& [name, parameter] : parameters) {
    const auto shape = parameter.local_shape();
    sw::Index own = sw::size_of(parameter.type());
    for (const sw::Index extent : shape) own *= extent;
    sw::Index most = shape.front();  // of the rows, or the experts
    if (name == "tokens.weight" && !(config.tied && ends)) most = 1;
    const bool experts = name.ends_with(".experts.gate_up") || name.ends_with(".experts.down");
    if (experts) most = config.experts->routing.k;
    bytes += shape.front() == 0 ? 0 : own / shape.front() * std::min(most, shape.front());
  }
  return bytes;
}

/// On the rank at these coordinates. `Block`: see `TextModel`. `ranks_per_host`: as for `sw::trace`.
template <class Block>
TokenPlan plan_token(const JobSizes& sizes, const sw::LlamaConfig& config, const JobSizes& at = {},
                     int ranks_per_host = 0) {
  TokenPlan token;
  sw::EventLog log;
  token.plan = sw::trace<Job>(
      sizes,
      [&](const Job& job) {
        TextModel<Block> model(job, config);
        token.weights = weights_of_token(sw::named_parameters(model.stages()), config);
        sw::Recorder& recorder = *job.recorder();
        const auto used = [&] { return recorder.record().all_memory.live; };
        std::array<double, 1> number{};
        const auto next = [&](sw::Index tokens, auto& cache) {
          const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
          model.next(batch_of(model.mesh(), ids), cache, number, [](const auto&) {});
        };
        const sw::Index before = used();
        auto cache = model.make_cache(batch_of(model.mesh(), std::array{0}), config.context);
        token.cache = used() - before;
        if (config.context > 1) next(config.context - 1, cache);
        recorder.restart();
        next(1, cache);
      },
      at, ranks_per_host, &log);
  token.events = log.events();
  return token;
}

/// Products with weights, of which a token is one row, take the time of the weights that they read.
inline bool reads_weights(const sw::Event& event) {
  return event.operation &&
         (event.operation == std::string_view("linear") || event.operation == std::string_view("experts"));
}

}  // namespace tools
