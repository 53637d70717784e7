// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A tensor-parallel MLP: a column-wise layer, gelu, a row-wise layer. One all-reduce forward and one
/// backward; the compiler has asserted it before the program runs.

#include <cmath>
#include <numbers>

#include "support.hpp"

namespace sw = shardwise;
using sw::Collective, sw::Phase;

namespace {

struct Options {
  sw::Index tokens = 2048, hidden = 1024, ffn = 4096;
  int steps = 3;
  std::uint64_t seed = 1;
  bool forward_only = false, check = false;
};

/// `Output`: what the last layer gives. The whole result to every rank, or to each rank its rows.
using Whole = sw::output<sw::Replicate>;
using Rows = sw::output<sw::Shard<0>>;
template <class Mesh, class Output>
using Model = sw::Mlp<Mesh, float, sw::ColwiseParallel<sw::tp>, sw::RowwiseParallel<sw::tp, Output>>;

template <class Mesh>
constexpr auto make_input(const Mesh& mesh, const Options& options) {
  return sw::randn<float, sw::Replicate>(mesh, {options.tokens, options.hidden}, options.seed + 1);
}

/// Half the mean square of the output: the same finished scalar on every rank.
template <class Y>
constexpr auto loss_of(const Y& y, const Options& options) {
  const auto count = static_cast<double>(options.tokens * options.hidden);
  return sw::redistribute<sw::tp, sw::Replicate>(sw::scale(sw::sum_of_squares(y), 0.5 / count));
}

/// The loss of one training step.
template <class Mesh, class Output>
constexpr auto train_step(Model<Mesh, Output>& model, sw::SGD& sgd, const Mesh& mesh,
                          const Options& options) {
  sw::Tape tape;
  auto loss = loss_of(model(tape.input(make_input(mesh, options))), options);
  tape.backward(loss);
  sgd.step(model);
  return loss.value();
}

/// What the program does on its mesh, done on a dry one.
template <class Output>
constexpr auto plan(int ranks, const Options& options, int rank = 0) {
  using Mesh = sw::DryMesh<sw::tp>;
  auto job = [&](const Mesh& mesh) {
    Model<Mesh, Output> model(mesh, options.hidden, options.ffn);
    sw::SGD sgd({.rate = 0.1});
    if (options.forward_only) {
      model(make_input(mesh, options));
    } else {
      train_step<Mesh, Output>(model, sgd, mesh, options);
    }
  };
  return sw::trace<Mesh>({ranks}, job, {rank});
}

constexpr auto whole = plan<Whole>(2, Options{});
static_assert(whole.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(whole.count(Collective::all_reduce, Phase::backward) == 1);
static_assert(whole.collectives() == 2);
static_assert(whole.bytes<sw::tp>() == 2 * 2048 * 1024 * sizeof(float));

/// With rows out: a reduce-scatter forward and an all-gather backward, and the loss is the sum of the ranks'
/// terms.
constexpr auto rows = plan<Rows>(2, Options{});
static_assert(rows.count(Collective::reduce_scatter, Phase::forward) == 1);
static_assert(rows.count(Collective::all_gather, Phase::backward) == 1);
static_assert(rows.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(rows.collectives() == 4);

/// Compares the output and all gradients with the same MLP computed densely, in double.
template <class Mesh, class Output>
bool check(const Model<Mesh, Output>& model, const Mesh& mesh, const Options& options) {
  using examples::dense, examples::Dense;
  sw::Tape tape;
  auto x = tape.input(make_input(mesh, options));
  auto y = model(x);
  tape.backward(loss_of(y, options));

  const Dense input = dense(x.value()), w1 = dense(model.up.weight.value()),
              w2 = dense(model.down.weight.value());
  const Dense b1 = dense(model.up.bias.value()), b2 = dense(model.down.bias.value());
  const Dense h = (input * w1.transpose()).rowwise() + b1.col(0).transpose();
  const Dense probability = h.unaryExpr([](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); });
  const Dense density =
      h.unaryExpr([](double v) { return std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi); });
  const Dense a = h.cwiseProduct(probability);
  const Dense output = (a * w2.transpose()).rowwise() + b2.col(0).transpose();
  const Dense dy = output / static_cast<double>(output.size());
  const Dense dh = (dy * w2).cwiseProduct(probability + h.cwiseProduct(density));

  examples::Comparison comparison(mesh.rank() == 0, 1e-4);
  comparison.add("output", dense(y.value()), output);
  comparison.add("gradient of the input", dense(x.gradient()), dh * w1);
  comparison.add("gradient of up.weight", dense(model.up.weight.gradient()), dh.transpose() * input);
  comparison.add("gradient of up.bias", dense(model.up.bias.gradient()), dh.colwise().sum().transpose());
  comparison.add("gradient of down.weight", dense(model.down.weight.gradient()), dy.transpose() * a);
  comparison.add("gradient of down.bias", dense(model.down.bias.gradient()), dy.colwise().sum().transpose());
  return comparison.within();
}

template <class Output>
bool run(const Options& options, bool compiled) {
  using Mesh = sw::Mesh<sw::tp>;
  Mesh mesh(sw::world(), {sw::any});
  const bool prints = mesh.rank() == 0;
  if (prints) {
    std::printf("MLP %td -> %td -> %td, %td tokens, float, tp %d; matrix products by %s\n", options.hidden,
                options.ffn, options.hidden, options.tokens, mesh.size(), sw::kernel::gemm_name());
  }
  auto planned = plan<Output>(mesh.size(), options, mesh.rank());
  if (compiled && mesh.size() == 2) planned = std::is_same_v<Output, Whole> ? whole : rows;
  const char* title = compiled && mesh.size() == 2 ? "planned by the compiler" : "planned by a dry run";

  sw::Recording recording(mesh);
  Model<Mesh, Output> model(mesh, options.hidden, options.ffn);
  sw::initialize(model, options.seed);
  if (options.check) return check<Mesh, Output>(model, mesh, options);
  if (options.forward_only) {
    auto y = model(make_input(mesh, options));
    if (prints) std::printf("output: this rank holds [%td, %td]\n", y.local_shape()[0], y.local_shape()[1]);
    return examples::report(prints, title, planned, recording.plan());
  }
  sw::SGD sgd({.rate = 0.1});
  for (int step = 1; step <= options.steps; ++step) {
    recording.restart();
    const float loss = sw::item(train_step<Mesh, Output>(model, sgd, mesh, options));
    if (prints) std::printf("step %d: loss %.6f\n", step, static_cast<double>(loss));
  }
  if (prints) std::printf("the last step:\n");
  return examples::report(prints, title, planned, recording.plan());
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    std::string output = "replicate";
    CLI::App app("Runs an MLP whose two layers are split over all ranks, and shows its communication.",
                 "mlp");
    app.option_defaults()->always_capture_default();
    app.add_option("--tokens", options.tokens, "rows of the input")->check(CLI::Range(1, 1 << 24));
    app.add_option("--hidden", options.hidden, "features of input and output")->check(CLI::Range(1, 1 << 20));
    app.add_option("--ffn", options.ffn, "features between the layers")->check(CLI::Range(1, 1 << 20));
    app.add_option("--steps", options.steps, "training steps")->check(CLI::Range(1, 1000000));
    app.add_option("--seed", options.seed, "of weights and input");
    app.add_option("--output", output,
                   "what the last layer gives: the whole result to every rank (an all-reduce), or "
                   "to each its rows (a reduce-scatter)")
        ->check(CLI::IsMember({"replicate", "shard"}));
    auto* forward_only = app.add_flag("--forward-only", options.forward_only, "exactly one forward pass");
    app.add_flag("--check", options.check, "compare output and gradients with a dense computation")
        ->excludes(forward_only);
    if (auto code = examples::parse(app, argc, argv)) return *code;
    const Options defaults;
    const bool compiled = !options.forward_only && options.tokens == defaults.tokens &&
                          options.hidden == defaults.hidden && options.ffn == defaults.ffn;
    const bool good = output == "shard" ? run<Rows>(options, compiled) : run<Whole>(options, compiled);
    return good ? 0 : 1;
  });
}
