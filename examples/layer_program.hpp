// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program around one layer: it trains it for a few steps, runs it forward once, or compares it with a dense
/// computation; and shows what was planned beside what was recorded. The layer is a struct of sizes:
///
/// ```
/// struct Layer {
///   template <class Mesh, class Output> using Model = …;     // a module
///   using Blocks = sw::output<sw::Shard<…>>;                 // what `--output shard` gives
///   constexpr Model<Mesh, Output> model<Output>(const Mesh& mesh) const;
///   constexpr auto input(const Mesh& mesh, std::uint64_t seed) const;
///   void add_options(CLI::App& app);
///   std::string title() const;
///   void compare(const Model& model, const X& x, const Y& y, Comparison& comparison) const;
/// };
/// ```

#include <cstdio>
#include <string>

#include <shardwise/shardwise.hpp>

#include "comparison.hpp"
#include "options.hpp"
#include "report.hpp"

namespace examples {

/// "[2, 3, 4]"
template <int Rank>
std::string shape_text(const sw::Shape<Rank>& shape) {
  std::string text;
  for (sw::Index extent : shape) text += (text.empty() ? "[" : ", ") + std::to_string(extent);
  return text + "]";
}

/// What the last matrix product gives: the whole result on every rank.
using Whole = sw::output<sw::Replicate>;

struct LayerOptions {
  int steps = 3;
  std::uint64_t seed = 1;
  bool forward_only = false, check = false;
};

/// Half the mean square of the output: the same finished scalar on every rank.
template <class Y>
constexpr auto half_mean_square(const Y& y) {
  const auto count = static_cast<double>(sw::elements(y.shape()));
  return sw::redistribute<sw::tp, sw::Replicate>(sw::scale(sw::sum_of_squares(y), 0.5 / count));
}

/// One training step; the gradient of the input is computed too. Returns the loss.
template <class Model, class X>
constexpr auto train_step(Model& model, sw::SGD& sgd, const X& x) {
  sw::Tape tape;
  auto loss = half_mean_square(model(tape.input(x)));
  tape.backward(loss);
  sgd.step(model);
  return loss.value();
}

/// What the program does on its mesh, done on a dry one.
template <class Output, class Layer>
constexpr auto plan(const Layer& layer, int ranks, bool forward_only, int rank = 0) {
  using Mesh = sw::DryMesh<sw::tp>;
  auto job = [&](const Mesh& mesh) {
    auto model = layer.template model<Output>(mesh);
    sw::SGD sgd({.rate = 0.1});
    if (forward_only) {
      model(layer.input(mesh, 0));
    } else {
      train_step(model, sgd, layer.input(mesh, 0));
    }
  };
  return sw::trace<Mesh>({ranks}, job, {rank});
}

/// The plan of a training step with the default sizes on two ranks, made by the compiler.
template <class Layer, class Output>
inline constexpr auto compiled_plan = plan<Output>(Layer{}, 2, false);

/// Whether all went as planned and, with --check, as the dense computation says.
template <class Output, class Layer>
bool run_layer(const Layer& layer, const LayerOptions& options) {
  using Mesh = sw::Mesh<sw::tp>;
  const Mesh mesh(sw::world(), {sw::any});
  const bool prints = mesh.rank() == 0;
  if (prints) {
    std::printf("%s, float, tp %d; matrix products by %s\n", layer.title().c_str(), mesh.size(),
                sw::kernel::gemm_name());
  }
  sw::Recording recording(mesh);
  auto model = layer.template model<Output>(mesh);
  sw::initialize(model, options.seed);

  if (options.check) {
    sw::Tape tape;
    auto x = tape.input(layer.input(mesh, options.seed + 1));
    auto y = model(x);
    tape.backward(half_mean_square(y));
    Comparison comparison(prints, 1e-4);
    layer.compare(model, x, y, comparison);
    return comparison.within();
  }
  auto planned = plan<Output>(layer, mesh.size(), options.forward_only, mesh.rank());
  const bool compiled = !options.forward_only && layer == Layer{} && mesh.size() == 2;
  if (compiled) planned = compiled_plan<Layer, Output>;

  if (options.forward_only) {
    auto y = model(layer.input(mesh, options.seed + 1));
    if (prints) std::printf("output: this rank holds %s\n", shape_text(y.local_shape()).c_str());
  }
  sw::SGD sgd({.rate = 0.1});
  for (int step = 1; !options.forward_only && step <= options.steps; ++step) {
    recording.restart();
    const float loss = sw::item(train_step(model, sgd, layer.input(mesh, options.seed + 1)));
    if (prints) std::printf("step %d: loss %.6f\n", step, static_cast<double>(loss));
    if (prints && step == options.steps) std::printf("the last step:\n");
  }
  return report(prints, compiled ? "planned by the compiler" : "planned by a dry run", planned,
                recording.plan());
}

/// `main` without MPI: options, then the run.
template <class Layer>
int layer_program(int argc, char** argv, const char* name, const char* description) {
  Layer layer;
  LayerOptions options;
  std::string output = "replicate";
  CLI::App app(description, name);
  app.option_defaults()->always_capture_default();
  layer.add_options(app);
  app.add_option("--steps", options.steps, "training steps")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", options.seed, "of weights and input");
  app.add_option("--output", output,
                 "what comes out: the whole result on every rank (an all-reduce), or on each its block "
                 "(a reduce-scatter)")
      ->check(CLI::IsMember({"replicate", "shard"}));
  auto* forward_only = app.add_flag("--forward-only", options.forward_only, "exactly one forward pass");
  app.add_flag("--check", options.check, "compare output and gradients with a dense computation")
      ->excludes(forward_only);
  if (auto code = parse(app, argc, argv)) return *code;
  const bool good = output == "shard" ? run_layer<typename Layer::Blocks>(layer, options)
                                      : run_layer<Whole>(layer, options);
  return good ? 0 : 1;
}

}  // namespace examples
