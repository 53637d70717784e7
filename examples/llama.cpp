// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Llama models: trains them on text, writes text with them (also with weights in Hugging Face's form), and
/// compares them with PyTorch.

#include "llama_reference.hpp"
#include "llama_train.hpp"
#include "options.hpp"

namespace {

namespace sw = shardwise;

/// `groups` of ranks work on different sequences; those of a group split the model, its key/value heads over as
/// many as divide them.
examples::LlamaMesh<sw::Mesh> mesh_for(const sw::LlamaConfig& config, int groups) {
  const int ranks = sw::world().size();
  if (ranks % groups != 0) {
    throw std::invalid_argument("--dp " + std::to_string(groups) + " groups cannot share " +
                                std::to_string(ranks) + " ranks");
  }
  const int tp = sw::key_value_ranks(ranks / groups, config.kv_heads);
  return {sw::world(), {groups, tp, sw::any}};
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    examples::TextOptions text;
    examples::TrainOptions train;
    std::filesystem::path reference;
    int dp = 1;
    CLI::App app("Trains a Llama on text, or writes text with one, or compares one with PyTorch.", "llama");
    app.option_defaults()->always_capture_default();

    auto* what = app.add_option_group("what to do", "One of these.");
    auto* training = what->add_option("--train", train.text, "learn from these files or folders")->take_all();
    auto* weights = what->add_option(
        "--weights", text.weights,
        "write with this model: config.json, model.safetensors, tokenizer.json if it has one");
    what->add_option("--reference", reference,
                     "compare with what PyTorch computed (tests/reference/generate.py)");
    what->require_option(1);

    auto* prompt = app.add_option("--prompt", text.prompt, "how the text begins")->needs(weights);
    app.add_option("--tokens", text.tokens, "how it begins: a file of token ids")
        ->needs(weights)
        ->excludes(prompt);
    app.add_option("--new-tokens", text.new_tokens, "to write")
        ->check(CLI::Range(0, 1 << 24))
        ->needs(weights);
    app.add_option("--temperature", text.sampling.temperature, "0 takes the likeliest token")
        ->check(CLI::NonNegativeNumber)
        ->needs(weights);
    app.add_option("--top-k", text.sampling.top_k, "choose among the k likeliest tokens; 0: among all")
        ->check(CLI::NonNegativeNumber)
        ->needs(weights);
    app.add_option("--top-p", text.sampling.top_p,
                   "and among the likeliest that have this probability together")
        ->check(CLI::Range(1e-9, 1.0))
        ->needs(weights);
    app.add_option("--dump-logits", text.dump_logits, "a safetensors file for the logits of the prompt")
        ->needs(weights);

    auto add_size = [&](const char* name, sw::Index& value, const char* text_of) {
      app.add_option(name, value, text_of)->check(CLI::Range(1, 1 << 24))->needs(training);
    };
    add_size("--layers", train.model.layers, "of the model to be trained");
    add_size("--features", train.model.features, "a multiple of --heads");
    add_size("--heads", train.model.heads, "at least one per rank of a group");
    add_size("--kv-heads", train.model.kv_heads, "key/value heads; divides --heads");
    add_size("--hidden", train.model.hidden, "features within the MLPs");
    add_size("--context", train.model.context, "tokens in a sequence");
    add_size("--batch", train.batch, "sequences in a step, of all groups together");
    app.add_flag("--tied", train.model.tied, "the head is the embedding's table")->needs(training);
    app.add_flag("--sequence-parallel", train.sequence_parallel, "shard the sequence between the layers")
        ->needs(training);
    app.add_option("--dp", dp, "data-parallel groups; the ranks are a multiple")
        ->check(CLI::Range(1, 1 << 20))
        ->needs(training);
    app.add_option("--steps", train.steps, "training steps")
        ->check(CLI::Range(1, 100000000))
        ->needs(training);
    app.add_option("--warmup", train.warmup, "steps in which the rate rises; a tenth if not given")
        ->check(CLI::Range(0, 100000000))
        ->needs(training);
    app.add_option("--rate", train.rate, "highest learning rate")
        ->check(CLI::PositiveNumber)
        ->needs(training);
    app.add_option("--max-norm", train.max_norm, "that gradients are clipped to")
        ->check(CLI::PositiveNumber)
        ->needs(training);
    app.add_option("--tokenizer", train.tokenizer, "a tokenizer.json; without it tokens are bytes")
        ->needs(training);
    app.add_option("--save", train.save, "a folder for the trained model")->needs(training);
    app.add_option("--progress", train.progress, "a line that is written over, or a plain line now and then")
        ->check(CLI::IsMember({"line", "plain"}))
        ->needs(training);
    app.add_option("--seed", text.seed, "of the weights, the batches and the text");
    if (auto code = examples::parse(app, argc, argv)) return *code;

    if (!train.text.empty()) {
      train.seed = text.seed;
      const auto mesh = mesh_for(train.model, dp);
      const bool as_planned = train.sequence_parallel
                                  ? examples::train<examples::SequenceParallel>(mesh, train)
                                  : examples::train<examples::TensorParallel>(mesh, train);
      return as_planned ? 0 : 1;
    }
    const auto folder = text.weights.empty() ? reference : text.weights;
    const auto mesh = mesh_for(sw::read_llama_config(folder / "config.json"), 1);
    if (reference.empty()) {
      examples::write_text(mesh, text);
      return 0;
    }
    return examples::compare_with_reference(mesh, reference) ? 0 : 1;
  });
}
