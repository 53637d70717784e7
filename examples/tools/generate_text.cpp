// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Draws tokens one by one, with a cache of keys and values that is sharded like the heads.

#include "generate_text.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <vector>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/text/tokenizer.hpp>

#include "expect_weights.hpp"
#include "generator.hpp"
#include "job_hosts.hpp"
#include "printable.hpp"

namespace tools {

namespace {

/// The folder's tokenizer; bytes for a model of bytes; nothing for another model without a tokenizer.json.
std::optional<sw::Tokenizer> tokenizer_of(const std::filesystem::path& folder, sw::Index vocabulary) {
  const bool bytes = vocabulary == sw::ByteTokenizer::vocabulary();
  if (!bytes && !std::filesystem::exists(folder / "tokenizer.json")) return std::nullopt;
  return sw::Tokenizer::from_folder(folder);
}

/// The token ids in a file, separated by white space.
std::vector<std::int32_t> read_tokens(const std::filesystem::path& path, sw::Index vocabulary) {
  std::istringstream file(sw::detail::read_text(path));
  std::vector<std::int32_t> ids;
  for (std::string word; file >> word;) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocabulary) {
      throw std::runtime_error(path.string() + ": \"" + word + "\" is not a token id from 0 to " +
                               std::to_string(vocabulary - 1));
    }
    ids.push_back(id);
  }
  return ids;
}

/// Calls f(id) for each new token until it returns false; all ranks get the same tokens, each below `known`.
void generate(auto& model, std::span<const std::int32_t> prompt, const TextOptions& options, sw::Index known,
              auto f) {
  auto ids = batch_of(model.mesh(), prompt);
  auto cache = model.make_cache(ids, ids.shape()[1] + options.new_tokens);
  for (sw::Index i = 0; i < options.new_tokens; ++i) {
    std::array<double, 1> number{};
    model.next(ids, cache, number, [&](const auto& logits) {
      const std::span<const float> row(logits.data(),
                                       static_cast<std::size_t>(std::min(known, logits.shape()[2])));
      number[0] = sw::sample(row, options.sampling, options.seed, static_cast<std::uint64_t>(i));
    });
    const auto id = static_cast<std::int32_t>(number[0]);
    if (!f(id)) return;
    ids = batch_of(model.mesh(), std::span(&id, 1));
  }
}

/// Prints the communication for one token, on the first rank of a mesh of these sizes.
void print_plan_of_token(const JobSizes& sizes, const sw::LlamaConfig& config) {
  const JobPlan plan = sw::trace<Job>(sizes, [&](const Job& job) {
    TextModel<> model(job, config);
    const auto id = batch_of(model.mesh(), std::array{0});
    auto cache = model.make_cache(id, config.context);
    std::array<double, 1> number{};
    model.next(id, cache, number, [](const auto&) {});
  });
  std::printf("a token: %lld all-reduces and %lld all-gather",
              static_cast<long long>(plan.count(sw::Collective::all_reduce)),
              static_cast<long long>(plan.count(sw::Collective::all_gather)));
  if (sizes[0] > 1) {
    std::printf(" and %lld send, in the first of %d stages,",
                static_cast<long long>(plan.count(sw::Collective::send)), sizes[0]);
  }
  std::printf(" of %lld bytes in all\n", static_cast<long long>(plan.bytes()));
}

/// The ids of the prompt. Throws `std::runtime_error` if there are none, or if one is out of the model's range.
std::vector<std::int32_t> prompt_of(const TextOptions& options, const std::optional<sw::Tokenizer>& tokenizer,
                                    sw::Index vocabulary) {
  if (options.tokens.empty() && !tokenizer) {
    throw std::runtime_error(
        options.weights.string() +
        ": there is no tokenizer.json, and the model's tokens are not bytes; give --tokens");
  }
  auto ids =
      options.tokens.empty() ? tokenizer->encode(options.prompt) : read_tokens(options.tokens, vocabulary);
  if (ids.empty())
    throw std::runtime_error(options.tokens.empty() ? "--prompt is empty: there is no token to begin with"
                                                    : options.tokens.string() + ": there is no token in it");
  for (std::int32_t id : ids) {
    if (id >= vocabulary) {
      throw std::runtime_error(options.weights.string() + ": the tokenizer gives token " +
                               std::to_string(id) + ", but the model has " + std::to_string(vocabulary));
    }
  }
  return ids;
}

template <class Block>
void write_text_with(const TextOptions& options) {
  const sw::LlamaConfig config = sw::read_llama_config(options.weights / "config.json");
  expect_weights(options.weights, config);
  const JobSizes sizes =
      job_sizes(options.pp, 1, 1, 1, std::max(1, sw::world().size() / options.pp), config.kv_heads);
  const Job job(sw::world(), sizes);
  warn_of_torn_groups(job);
  // With --tokens, neither the text nor a valid tokenizer.json is needed.
  const auto tokenizer =
      options.tokens.empty() ? tokenizer_of(options.weights, config.vocabulary) : std::nullopt;
  const auto prompt = prompt_of(options, tokenizer, config.vocabulary);
  const bool prints = job.rank() == 0;
  if (prints && static_cast<sw::Index>(prompt.size()) + options.new_tokens > config.context) {
    std::printf("note: %zu + %td tokens are more than the %td that the model was made for\n", prompt.size(),
                options.new_tokens, config.context);
  }

  using Clock = std::chrono::steady_clock;
  auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  TextModel<Block> model(job, config);
  const auto start = Clock::now();
  const sw::Index bytes = sw::load_llama(job, model.stages(), options.weights);
  if (prints) {
    std::printf("%.2f million parameters on %stp %d x kvr %d; this rank read %.2f MB in %.2f s\n",
                static_cast<double>(config.parameters()) * 1e-6,
                options.pp > 1 ? ("pp " + std::to_string(options.pp) + " x ").c_str() : "",
                job.size<sw::tp>(), job.size<sw::kvr>(), static_cast<double>(bytes) * 1e-6,
                seconds_since(start));
    if (const sw::Hosts& hosts = sw::world().hosts(); hosts.count() > 1)
      std::printf("%s\n", axes_on_hosts(sizes, [&](int rank) { return hosts.of(rank); }).c_str());
    print_plan_of_token(sizes, config);
  }
  if (!options.dump_logits.empty()) {
    const auto ids = batch_of(model.mesh(), prompt);
    model.each(ids, [&](const auto& logits) {
      sw::write_tensors(options.dump_logits, {{"input_ids", ids}, {"logits", logits}});
    });
    if (prints) std::printf("logits written to %s\n", options.dump_logits.c_str());
  }

  std::vector<std::int32_t> written;
  const auto begin = Clock::now();
  const sw::Index known = tokenizer ? tokenizer->vocabulary() : config.vocabulary;
  std::vector<std::int32_t> ends = sw::read_llama_tokens(options.weights).ends;
  if (tokenizer && tokenizer->end_token()) ends.push_back(*tokenizer->end_token());
  generate(model, prompt, options, known, [&](std::int32_t id) {
    written.push_back(id);
    return std::find(ends.begin(), ends.end(), id) == ends.end();
  });
  const double seconds = seconds_since(begin);
  if (!prints || written.empty()) return;
  if (tokenizer) {
    std::printf("---- text written by the model ----\n%s\n----\n",
                printable(continued(*tokenizer, options.prompt, prompt, written)).c_str());
  } else {
    std::printf("---- tokens written by the model ----\n");
    for (std::int32_t id : written) std::printf("%d ", id);
    std::printf("\n----\n");
  }
  std::printf("%zu tokens, %.0f per second\n", written.size(), static_cast<double>(written.size()) / seconds);
}

}  // namespace

void write_text(const TextOptions& options) {
  if (options.weight_bits == 8) return write_text_with<sw::Block8>(options);
  if (options.weight_bits == 4) return write_text_with<sw::Block4>(options);
  write_text_with<void>(options);
}

}  // namespace tools
