// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a small transformer to predict the next character of real text. The ranks form `--dp` groups that
/// work on sequences of their own; within a group, heads and features are split. Then it writes text itself,
/// and shows what was planned beside what was communicated.

#include <cmath>

#include <shardwise/data/sampling.hpp>
#include <shardwise/data/text.hpp>

#include "progress.hpp"
#include "support.hpp"

namespace sw = shardwise;
using sw::Collective, sw::Phase;

namespace {

/// What decides the communication of a step.
struct Job {
  sw::LanguageModelConfig model{.vocabulary = sw::TextCorpus::vocabulary,
                                .context = 64,
                                .features = 128,
                                .heads = 8,
                                .hidden = 512,
                                .layers = 4};
  sw::Index batch = 32;  ///< sequences, of all groups together
};

struct Options {
  Job job;
  std::vector<std::filesystem::path> text{"include", "docs"};
  int steps = 1000, dp = 1, characters = 400;
  double rate = 1.5e-3, temperature = 0.7;
  std::uint64_t seed = 1;
  std::string prompt = "/// ", progress = "plain";
};

template <class Mesh>
using Model = sw::LanguageModel<Mesh, float>;
/// Token ids [sequences, context]; each group has its own sequences.
template <class Mesh>
using Ids = sw::Tensor<std::int32_t, 2, Mesh, sw::Shard<0>, sw::Replicate>;

/// One training step. The loss is the mean over the global batch.
template <class Mesh>
constexpr auto train_step(Model<Mesh>& model, sw::AdamW& optimizer, const Ids<Mesh>& inputs,
                          const Ids<Mesh>& targets) {
  sw::Tape tape;
  auto groups_share = sw::cross_entropy(model(tape.constant(inputs)), tape.constant(targets));
  auto loss = sw::redistribute<sw::Replicate, sw::Replicate>(groups_share);
  tape.backward(loss);
  optimizer.step(model);
  return loss.value();
}

/// What one step does, counted on a dry mesh.
constexpr auto plan(const std::array<int, 2>& sizes, const Job& job,
                    const std::array<int, 2>& coordinates = {}) {
  using Mesh = sw::DryMesh<sw::dp, sw::tp>;
  auto step = [&](const Mesh& mesh) {
    Model<Mesh> model(mesh, job.model);
    sw::AdamW optimizer;
    const Ids<Mesh> inputs(mesh, {job.batch, job.model.context}),
        targets(mesh, {job.batch, job.model.context});
    train_step(model, optimizer, inputs, targets);
  };
  return sw::trace<Mesh>(sizes, step, coordinates);
}

/// Two ranks that split everything: each of the four blocks reduces twice forward and twice backward; beside
/// them there are one all-reduce for the embedding, one before the head's gradient, one all-gather of the
/// logits, and nothing for the optimizer.
constexpr auto compiled = plan({1, 2}, Job{});
static_assert(compiled.count(Collective::all_reduce, Phase::forward) == 2 * 4 + 1);
static_assert(compiled.count(Collective::all_reduce, Phase::backward) == 2 * 4 + 1);
static_assert(compiled.count(Collective::all_gather, Phase::forward) == 1);
static_assert(compiled.collectives() == 19 && compiled.collectives(Phase::optimizer) == 0);

/// This rank's part of a batch.
template <class Mesh>
Ids<Mesh> distribute_ids(const Mesh& mesh, sw::Index sequences, const std::vector<std::int32_t>& ids) {
  const auto length = static_cast<sw::Index>(ids.size()) / sequences;
  return sw::distribute<sw::Shard<0>, sw::Replicate>(mesh, sw::Shape<2>{sequences, length}, std::span(ids));
}

/// The text with a question mark for each byte that is no part of a UTF-8 character.
std::string printable(std::string text) {
  for (std::size_t bad = 0; (bad = sw::first_non_text(text, bad)) < text.size();) text[bad] = '?';
  return text;
}

/// Continues the prompt. Every group writes the same text, with a sequence each.
template <class Mesh>
std::string generate(const Model<Mesh>& model, const Mesh& mesh, const Options& options) {
  const auto context = static_cast<std::size_t>(options.job.model.context);
  const sw::Index groups = mesh.template size<sw::dp>();
  std::string text = options.prompt;
  for (int i = 0; i < options.characters; ++i) {
    const std::size_t known = std::min(text.size(), context);
    std::vector<std::int32_t> ids;  // what is known, then padding that no known position sees
    for (sw::Index group = 0; group < groups; ++group) {
      for (char c : text.substr(text.size() - known)) ids.push_back(static_cast<unsigned char>(c));
      ids.resize(static_cast<std::size_t>(group + 1) * context);
    }
    const auto logits = model(distribute_ids(mesh, groups, ids));
    const auto vocabulary = static_cast<std::size_t>(options.job.model.vocabulary);
    const std::span<const float> next(logits.data() + (known - 1) * vocabulary, vocabulary);
    text += static_cast<char>(
        sw::sample(next, {.temperature = options.temperature}, options.seed, static_cast<std::uint64_t>(i)));
  }
  return text;
}

bool run(const Options& options, bool default_job) {
  using Mesh = sw::Mesh<sw::dp, sw::tp>;
  const Mesh mesh(sw::world(), {options.dp, sw::any});
  const int dp = mesh.size<sw::dp>(), tp = mesh.size<sw::tp>();
  const bool prints = mesh.rank() == 0;
  const sw::TextCorpus text(options.text);
  const sw::LanguageModelConfig& config = options.job.model;
  sw::Recording recording(mesh);
  Model<Mesh> model(mesh, config);
  sw::initialize(model, options.seed);
  sw::AdamW optimizer({.rate = options.rate});
  if (prints) {
    std::printf("%td characters of text; a transformer of %td layers with %.2f million parameters\n",
                text.size(), config.layers, static_cast<double>(sw::parameter_count(model)) * 1e-6);
    std::printf("dp %d x tp %d; %td sequences of %td characters a step; matrix products by %s\n", dp, tp,
                options.job.batch, config.context, sw::kernel::gemm_name());
  }

  examples::Progress progress(prints, options.progress, options.steps, options.job.batch * config.context);
  for (int step = 1; step <= options.steps; ++step) {
    const auto batch = sw::sample_batch(text, options.seed, step, options.job.batch, config.context);
    recording.restart();
    const double loss = static_cast<double>(
        sw::item(train_step(model, optimizer, distribute_ids(mesh, options.job.batch, batch.inputs),
                            distribute_ids(mesh, options.job.batch, batch.targets))));
    if (!std::isfinite(loss)) {
      throw std::runtime_error("the loss is " + std::to_string(loss) + " at step " + std::to_string(step) +
                               "; try a smaller --rate");
    }
    progress.show(step, loss);
  }
  const auto recorded = recording.plan();

  const std::string written = generate(model, mesh, options);
  const bool use_compiled = default_job && dp == 1 && tp == 2;
  const auto planned =
      use_compiled ? compiled : plan({dp, tp}, options.job, {mesh.rank<sw::dp>(), mesh.rank<sw::tp>()});
  if (prints)
    std::printf("---- text written by the model ----\n%s\n----\none training step:\n",
                printable(written).c_str());
  return examples::report(prints, use_compiled ? "planned by the compiler" : "planned by a dry run", planned,
                          recorded);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    Job& job = options.job;
    CLI::App app("Trains a small transformer on text, character by character, over all ranks.", "train");
    app.option_defaults()->always_capture_default();
    app.add_option("--text", options.text, "files or folders to learn from")->take_all();
    app.add_option("--steps", options.steps, "training steps")->check(CLI::Range(1, 100000000));
    app.add_option("--rate", options.rate, "learning rate")->check(CLI::PositiveNumber);
    app.add_option("--dp", options.dp, "data-parallel groups; the ranks are a multiple")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--batch", job.batch, "sequences in a step, of all groups together")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--context", job.model.context, "characters in a sequence")->check(CLI::Range(1, 1 << 20));
    app.add_option("--layers", job.model.layers, "transformer blocks")->check(CLI::Range(1, 10000));
    app.add_option("--features", job.model.features, "of each character; a multiple of --heads")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--heads", job.model.heads, "attention heads, at least one per rank of a group")
        ->check(CLI::Range(1, 1 << 16));
    app.add_option("--hidden", job.model.hidden, "features within the MLPs")->check(CLI::Range(1, 1 << 24));
    app.add_option("--seed", options.seed, "of the weights, the batches and the text written");
    app.add_option("--prompt", options.prompt, "how the text begins")->check([](const std::string& text) {
      return text.empty() ? std::string("it needs at least one character") : std::string();
    });
    app.add_option("--characters", options.characters, "to write")->check(CLI::Range(0, 1000000));
    app.add_option("--temperature", options.temperature, "of the choice of characters; 0 takes the likeliest")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--progress", options.progress,
                   "a line that is written over, or a plain line now and then")
        ->check(CLI::IsMember({"line", "plain"}));
    if (auto code = examples::parse(app, argc, argv)) return *code;
    bool default_job = true;
    for (const char* name : {"--batch", "--context", "--layers", "--features", "--heads", "--hidden"}) {
      default_job = default_job && app.count(name) == 0;
    }
    return run(options, default_job) ? 0 : 1;
  });
}
