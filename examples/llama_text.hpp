// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Text from a Llama: tokens are drawn one by one, with a cache of keys and values that is sharded as the heads
/// are.

#include <charconv>
#include <chrono>
#include <fstream>

#include <shardwise/data/sampling.hpp>
#include <shardwise/data/text.hpp>
#include <shardwise/data/tokenizer.hpp>
#include <shardwise/io/llama_files.hpp>

#include "llama_model.hpp"

namespace examples {

struct TextOptions {
  std::filesystem::path weights, tokens, dump_logits;
  std::string prompt;
  sw::Index new_tokens = 200;
  sw::SamplingOptions sampling{.temperature = 0.8, .top_k = 40};
  std::uint64_t seed = 1;
};

/// tokenizer.json of the folder, or bytes.
inline sw::Tokenizer tokenizer_of(const std::filesystem::path& folder) {
  const auto file = folder / "tokenizer.json";
  return std::filesystem::exists(file) ? sw::Tokenizer::from_file(file) : sw::Tokenizer::bytes();
}

/// The token ids in a file, with white space between them.
inline std::vector<std::int32_t> read_tokens(const std::filesystem::path& path, sw::Index vocabulary) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  std::vector<std::int32_t> ids;
  for (std::string word; file >> word;) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocabulary) {
      throw std::runtime_error(path.string() + ": \"" + word + "\" is no token id from 0 to " +
                               std::to_string(vocabulary - 1));
    }
    ids.push_back(id);
  }
  return ids;
}

/// One sequence, which every rank knows.
template <class MeshType>
auto sequence_of(const MeshType& mesh, std::span<const std::int32_t> ids) {
  return sw::distribute<sw::Replicate, sw::Replicate, sw::Replicate>(
      mesh, sw::Shape<2>{1, static_cast<sw::Index>(ids.size())}, ids);
}

/// Calls f(id) for each new token until it returns false; all ranks get the same tokens.
template <class Model, class MeshType, class F>
void generate(const Model& model, const MeshType& mesh, std::span<const std::int32_t> prompt,
              const TextOptions& options, F f) {
  auto ids = sequence_of(mesh, prompt);
  auto cache = model.make_cache(ids, ids.shape()[1] + options.new_tokens);
  for (sw::Index i = 0; i < options.new_tokens; ++i) {
    // The logits of one token are small: gathered, they are the same on every rank, and so is the draw.
    const auto logits = sw::redistribute<sw::Replicate, sw::Replicate, sw::Replicate>(model.next(ids, cache));
    const std::span<const float> row(logits.data(), static_cast<std::size_t>(logits.shape()[2]));
    const std::int32_t id = sw::sample(row, options.sampling, options.seed, static_cast<std::uint64_t>(i));
    if (!f(id)) return;
    ids = sequence_of(mesh, std::span(&id, 1));
  }
}

/// What generating a token communicates.
inline void print_plan_of_token(const LlamaMesh<sw::Mesh>& mesh, const sw::LlamaConfig& config) {
  using MeshType = LlamaMesh<sw::DryMesh>;
  const auto plan = sw::trace<MeshType>(
      {mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>()}, [&](const MeshType& dry) {
        const sw::Llama<MeshType, TensorParallel> model(dry, config);
        const auto id = sw::empty<std::int32_t, sw::Replicate, sw::Replicate, sw::Replicate>(dry, {1, 1});
        auto cache = model.make_cache(id, config.context);
        sw::redistribute<sw::Replicate, sw::Replicate, sw::Replicate>(model.next(id, cache));
      });
  std::printf("a token: %lld all-reduces and %lld all-gather of %lld bytes in all\n",
              static_cast<long long>(plan.count(sw::Collective::all_reduce)),
              static_cast<long long>(plan.count(sw::Collective::all_gather)),
              static_cast<long long>(plan.bytes()));
}

/// Continues a prompt with the weights of a folder; writes the logits of the prompt if asked.
inline void write_text(const LlamaMesh<sw::Mesh>& mesh, const TextOptions& options) {
  const sw::LlamaConfig config = sw::read_llama_config(options.weights / "config.json");
  const bool from_file = !options.tokens.empty();
  const sw::Tokenizer tokenizer = tokenizer_of(options.weights);
  const bool speaks = tokenizer.vocabulary() <= config.vocabulary;
  if (!from_file && !speaks) {
    throw std::runtime_error(options.weights.string() + ": a tokenizer of " +
                             std::to_string(tokenizer.vocabulary()) + " tokens for a model of " +
                             std::to_string(config.vocabulary) + "; is a tokenizer.json missing?");
  }
  const std::vector<std::int32_t> prompt =
      from_file ? read_tokens(options.tokens, config.vocabulary) : tokenizer.encode(options.prompt);
  if (prompt.empty()) throw std::runtime_error("there is no token to begin with");

  using Clock = std::chrono::steady_clock;
  sw::Llama<LlamaMesh<sw::Mesh>, TensorParallel> model(mesh, config);
  const auto start = Clock::now();
  const sw::Index bytes = sw::load_llama(model, options.weights);
  const bool prints = mesh.rank() == 0;
  if (prints) {
    std::printf("%.2f million parameters on tp %d x kvr %d; this rank read %.2f MB in %.2f s\n",
                static_cast<double>(sw::parameter_count(model)) * 1e-6, mesh.size<sw::tp>(),
                mesh.size<sw::kvr>(), static_cast<double>(bytes) * 1e-6,
                std::chrono::duration<double>(Clock::now() - start).count());
    print_plan_of_token(mesh, config);
  }
  if (!options.dump_logits.empty()) {
    const auto ids = sequence_of(mesh, prompt);
    sw::write_tensors(options.dump_logits, {{"input_ids", ids}, {"logits", model(ids)}});
    if (prints) std::printf("logits written to %s\n", options.dump_logits.c_str());
  }

  std::vector<std::int32_t> written;
  const auto begin = Clock::now();
  generate(model, mesh, prompt, options, [&](std::int32_t id) {
    written.push_back(id);
    return id != tokenizer.end_token();
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!prints || written.empty()) return;
  if (speaks) {
    std::printf("---- text written by the model ----\n%s%s\n----\n", options.prompt.c_str(),
                tokenizer.decode(written).c_str());
  } else {
    std::printf("---- tokens written by the model ----\n");
    for (std::int32_t id : written) std::printf("%d ", id);
    std::printf("\n----\n");
  }
  std::printf("%zu tokens, %.0f per second\n", written.size(), static_cast<double>(written.size()) / seconds);
}

}  // namespace examples
