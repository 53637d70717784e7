// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Compares a Llama, a Qwen, a Gemma or a DeepSeek with what PyTorch computed (tests/reference/generate.py): logits, loss and every
/// gradient, losses of some steps of AdamW, and the weights after them. Later steps compute the loss in pieces.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/reduce_gradients.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include "llama_support.hpp"

namespace shardwise::testing {

/// This rank's block of a tensor of a file, or of several with names in braces, as that of `like`.
inline detail::AnyTensor read_as(const Weights& file, std::string_view name, const detail::AnyTensor& like) {
  const detail::AnyTensor block = like.unwritten(like.layout, MemoryUse::activation);
  const std::vector<std::string> names = expanded_names(name);
  const auto rank = static_cast<int>(detail::shape_of_blocks(like.extents(), std::ssize(names)).size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    file.read_bytes(names[i], detail::block_here(block, static_cast<Index>(i), std::ssize(names)), rank,
                    like.type, nullptr);
  }
  return block;
}

/// The configuration of a reference. Some of DeepSeek's type lack the experts that all such models have.
inline llm::LlamaConfig reference_config(const std::filesystem::path& folder) {
  const Json json = read_json(folder / "config.json");
  if (json.at("model_type") != "deepseek_v3" || json.contains("n_routed_experts"))
    return llm::read_llama_config(folder / "config.json");
  Json plain = json;
  for (const char* key : {"qk_nope_head_dim", "qk_rope_head_dim", "rope_interleave"}) plain.erase(key);
  plain.update(Json{{"model_type", "llama"}, {"architectures", {"LlamaForCausalLM"}}});
  llm::LlamaConfig config = llm::parse_llama_config(plain);
  llm::detail::read_latent(JsonPart(json), config);
  return config.checked();
}

/// One plan in one precision, whose tolerance is for one pass; the steps of AdamW amplify rounding. The ranks split the
/// model, or all of them the samples.
template <class PlanType, class T>
void check_reference(const std::string& name, double tolerance, double tolerance_after_steps,
                     bool splits_model = true) {
  CAPTURE(name);
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / name;
  const llm::LlamaConfig config = reference_config(folder);
  const int tensor = splits_model ? llm::key_value_ranks(world().size(), config.kv_heads) : 1;
  int replicas = splits_model ? world().size() / tensor : 1;
  while (tensor * replicas > config.heads || world().size() % (tensor * replicas) != 0) --replicas;
  const LlamaMesh mesh(world(), {any, tensor, replicas});
  const Weights file(folder / (std::is_same_v<T, float> ? "f32.safetensors" : "f64.safetensors"));
  const auto error_of = [&](const detail::AnyTensor& found, const std::string& tensor_name) {
    return relative_error(found, read_as(file, tensor_name, found));
  };
  const auto ids_of = [&](const char* ids) {
    return read_tensor<std::int64_t, 2, Shard<0>, Replicate, Replicate>(mesh, file.path(), ids);
  };
  const auto ids = ids_of("input_ids"), targets = ids_of("targets");
  const Json settings = read_json(folder / "config.json").at("reference");
  std::vector<double> losses(settings.at("steps").get<std::size_t>());
  const auto steps = static_cast<Index>(losses.size());
  file.read_block("losses", View<double, 1>{losses.data(), {steps}, {0}, {steps}});

  const auto name_of = llm::hugging_face_names(config);
  llm::Llama<LlamaMesh, PlanType, T> model(mesh, config);
  llm::load_llama(model, folder / "model.safetensors");
  AdamW adamw({.rate = settings.at("lr").get<double>(), .weight_decay = settings.at("wd").get<double>()});
  for (std::size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    Tape tape;
    auto loss = [&] {
      if (step > 0) return model(tape.constant(ids), targets, LinearCrossEntropyLoss());
      auto logits = model(tape.constant(ids));
      CHECK(error_of(detail::AnyTensor(logits.value()), "logits") <= tolerance);
      return CrossEntropyLoss()(std::move(logits), targets);
    }();
    const double error = std::abs(static_cast<double>(item(loss.value())) - losses[step]);
    CHECK(error <= (step == 0 ? tolerance : tolerance_after_steps) * std::abs(losses[step]));
    tape.backward(loss);
    reduce_gradients(model);
    if (step == 0) {
      for (const auto& [path, cell] : detail::named_parameters_of(model)) {
        if (!cell->layouts.trained()) continue;
        const std::string theirs = name_of(path);
        CAPTURE(theirs);
        CHECK(error_of(cell->finished_gradient(), "grad." + theirs) <= tolerance);
      }
    }
    adamw.step(model);
  }
  for (const auto& [path, cell] : detail::named_parameters_of(model)) {
    const std::string theirs = name_of(path);
    CAPTURE(theirs);
    CHECK(error_of(cell->stored, "final." + theirs) <= tolerance_after_steps);
  }
}

template <class T>
void check_references(double tolerance, double tolerance_after_steps) {
  for (const char* name :
       {"grouped", "uneven", "tied", "qwen2", "qwen3", "gemma2", "gemma3", "deepseek", "deepseek_lite"}) {
    check_reference<TensorPlan, T>(name, tolerance, tolerance_after_steps);
    check_reference<SequencePlan, T>(name, tolerance, tolerance_after_steps);
  }
}

}  // namespace shardwise::testing
