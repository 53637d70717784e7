// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "any_text_model.hpp"

#include <array>
#include <cmath>

#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/module/named_parameters.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

#include "token_plan.hpp"

namespace tools {

namespace {

template <class Block>
class TextModelOf final : public AnyTextModel {
 public:
  TextModelOf(const Job& job, const sw::llm::LlamaConfig& config) : job_(job), model_(job, config) {}

  sw::Index load_from(const std::filesystem::path& weights) override {
    return sw::llm::load_llama(job_, model_.stages(), weights);
  }
  std::unique_ptr<sw::llm::DecodingModel> make_cache(sw::Index rows, sw::Index capacity) override {
    return std::make_unique<CachedModelOf<TextModel<Block>>>(model_, rows, capacity);
  }
  double log_likelihood(std::span<const std::int32_t> ids, std::size_t first) override {
    std::vector<std::int32_t> targets(ids.begin() + 1, ids.end());
    std::fill_n(targets.begin(), first - 1, -100);
    const auto inputs = batch_of(model_.mesh(), ids.first(ids.size() - 1));
    const double sum = model_.each_piece(inputs, [&](const auto& logits, sw::Index begin) {
      const auto own = std::span<const std::int32_t>(targets).subspan(
          static_cast<std::size_t>(begin), static_cast<std::size_t>(logits.shape()[1]));
      const sw::CrossEntropyLoss loss({.reduction = sw::Reduction::sum});
      return -static_cast<double>(sw::item(loss(logits, batch_of(model_.mesh(), own))));
    });
    if (!std::isfinite(sum)) throw std::runtime_error("the model's logits are not finite");
    return sum;
  }
  void write_logits(const std::filesystem::path& to, std::span<const std::int32_t> tokens) override {
    const auto ids = batch_of(model_.mesh(), tokens);
    model_.each(ids, [&](const auto& logits) {
      sw::write_tensors(to, {{"input_ids", ids}, {"logits", logits}});
      return 0;
    });
  }

 private:
  Job job_;
  TextModel<Block> model_;
};

/// The bytes of weights on this rank that one token reads: of the table of tokens a row, unless it is also the head; of
/// a layer's experts those that the token chooses, if all are on this rank.
sw::Index weights_of_token(const std::vector<sw::NamedParameter>& parameters,
                           const sw::llm::LlamaConfig& config) {
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

template <class Block>
TokenPlan plan_token(const JobSizes& sizes, const sw::llm::LlamaConfig& config, const JobSizes& at,
                     int ranks_per_host) {
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

}  // namespace

std::unique_ptr<AnyTextModel> make_text_model(const Job& job, const sw::llm::LlamaConfig& config, int bits) {
  std::unique_ptr<AnyTextModel> model;
  with_weight_bits(bits,
                   [&]<class Block>(Block*) { model = std::make_unique<TextModelOf<Block>>(job, config); });
  return model;
}

TokenPlan plan_token(int bits, const JobSizes& sizes, const sw::llm::LlamaConfig& config, const JobSizes& at,
                     int ranks_per_host) {
  TokenPlan token;
  with_weight_bits(
      bits, [&]<class Block>(Block*) { token = plan_token<Block>(sizes, config, at, ranks_per_host); });
  return token;
}

}  // namespace tools
