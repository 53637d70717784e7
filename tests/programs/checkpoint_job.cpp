// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A job that checkpoint_tools_test.cpp starts: writes the checkpoint of a Llama on a mesh, or the logits of one that it
/// loads.
///
///     checkpoint_job write MODEL KIND DP FOLDER          MODEL: small, tied, large; KIND: tensor, sharded, bfloat16
///     checkpoint_job checkpoint MODEL DP FOLDER LOGITS   logits of the weights in a checkpoint
///     checkpoint_job folder MODEL DP FOLDER LOGITS       and in a folder in Hugging Face's form
///
/// The mesh has DP ranks on axis dp, and the rest of the job's on tp.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/shardwise.hpp>
#include <string>
#include <vector>

namespace {

namespace sw = shardwise;
using MeshType = sw::Mesh<sw::dp, sw::tp>;
using TensorParallel = sw::llm::LlamaTensorParallel<>;
using Sharded = sw::PlanWith<TensorParallel, sw::FullyShard<sw::dp>>;

/// Nothing is divided evenly by 2, 3 and 4 at once.
sw::llm::LlamaConfig config_of(const std::string& model) {
  if (model == "large") {
    return {.vocabulary = 16001, .features = 1024, .layers = 4, .heads = 16, .kv_heads = 16, .hidden = 2816};
  }
  return {.vocabulary = 37,
          .features = 22,
          .layers = 11,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 6,
          .hidden = 27,
          .context = 16,
          .tied = model == "tied"};
}

template <class PlanType, class T>
void write(const MeshType& mesh, const std::string& name, const std::string& folder) {
  sw::llm::Llama<MeshType, PlanType, T> model(mesh, config_of(name));
  sw::initialize(model, 5);
  sw::AdamW adamw;
  std::int64_t step = 12;
  sw::CheckpointContents run(mesh);
  run.add("model", model);
  if (name != "large") run.add("optimizer", adamw, model);
  run.add("step", step);
  const sw::llm::LlamaTokens tokens{.begin = 1, .ends = {2, 3}};
  const char* type = std::is_same_v<T, float> ? "float32" : "bfloat16";
  sw::save_checkpoint(
      folder, run,
      {{"llama_config", sw::Json::parse(sw::llm::llama_config_text(model.config(), type, tokens))},
       {"tokenizer", folder + "-tokenizer.json"}});
}

template <class Load>
void write_logits(const MeshType& mesh, const std::string& name, const std::string& file, Load load) {
  sw::llm::Llama<MeshType, TensorParallel> model(mesh, config_of(name));
  load(model);
  const std::vector<std::int32_t> ids{1, 36, 5, 7, 0, 11};
  const auto input = sw::distribute<sw::Replicate, sw::Replicate>(mesh, sw::Shape<2>{2, 3}, std::span(ids));
  sw::write_tensors(file, {{"input_ids", input}, {"logits", model(input)}});
}

int run(const std::vector<std::string>& words) {
  const std::string& what = words.at(0);
  const std::string& model = words.at(1);
  const MeshType mesh(sw::world(), {std::stoi(words.at(what == "write" ? 3 : 2)), sw::any});
  if (what == "write") {
    const std::string& kind = words.at(2);
    const std::string& folder = words.at(4);
    if (kind == "tensor") write<TensorParallel, float>(mesh, model, folder);
    if (kind == "sharded") write<Sharded, float>(mesh, model, folder);
    if (kind == "bfloat16") write<Sharded, Eigen::bfloat16>(mesh, model, folder);
    return 0;
  }
  write_logits(mesh, model, words.at(4), [&](auto& loaded) {
    if (what == "folder") {
      sw::llm::load_llama(loaded, words.at(3));
    } else {
      sw::CheckpointContents contents(mesh);
      contents.add("model", loaded);
      sw::load_checkpoint(words.at(3), contents, {.partial = true, .name_of = {}});
    }
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] { return run({argv + 1, argv + argc}); });
}
