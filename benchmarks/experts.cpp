// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A mixture of experts, forward and backward, beside a dense gated MLP with as many floating-point operations for each
/// token, in processor time. Both have the tokens of their rank; the experts are split over all ranks, the MLP is on
/// each. With `--step`, the training step of the mixture alone, which experts.py compares with PyTorch: a line of JSON.

#include <shardwise/nn/mixture_of_experts.hpp>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index;

namespace {

using Mesh = sw::Mesh<sw::ep>;
using Tokens = sw::Tensor<float, 2, Mesh, sw::Shard<0>>;
using Mixture = sw::MixtureOfExperts<Mesh, sw::ExpertParallel<sw::ep>>;

struct Sizes {
  Index experts = 8, choices = 2, features = 1024, hidden = 1024, tokens = 2048;  ///< tokens of all ranks
};

struct Dense : sw::Module<Dense> {
  using Weight = sw::Parameter<sw::Tensor<float, 2, Mesh, sw::Reduced>>;
  Weight gate, up, down;

  Dense(const Mesh& mesh, Index features, Index hidden)
      : gate(mesh, {hidden, features}, sw::Init::fan_in(features)),
        up(mesh, {hidden, features}, sw::Init::fan_in(features)),
        down(mesh, {features, hidden}, sw::Init::fan_in(hidden)) {}
  auto forward(const auto& x) const {
    return sw::linear(sw::swiglu(sw::linear(x, gate), sw::linear(x, up)), down);
  }
  void visit(auto&& f) { f("gate", gate), f("up", up), f("down", down); }
};

/// The forward and the backward pass of a model, without the reduction of gradients.
auto pass(auto& model, const Tokens& x, const Tokens& dy) {
  return [&] {
    sw::clear_gradients(model);
    sw::Tape tape;
    const auto y = model(tape.input(x));
    tape.backward(y, dy);
  };
}

void compare(const Mesh& mesh, const Sizes& s, int repetitions) {
  Mixture mixture(mesh, s.features, {.experts = s.experts, .hidden = s.hidden, .routing = {.k = s.choices}});
  Dense dense(mesh, s.features, s.choices * s.hidden);
  sw::initialize(mixture, 1);
  sw::initialize(dense, 2);
  const Tokens x = sw::randn<float, sw::Shard<0>>(mesh, {s.tokens, s.features}, 3),
               dy = sw::randn<float, sw::Shard<0>>(mesh, {s.tokens, s.features}, 4);
  const auto result = benchmarks::interleave(repetitions, 1, pass(mixture, x, dy), pass(dense, x, dy),
                                             benchmarks::cpu_seconds);
  if (mesh.rank() != 0) return;
  std::printf("%8td %8td %8td %8td %8td %12td %10.1f %10.1f %8.2f [%.2f, %.2f]\n", s.experts, s.choices,
              s.features, s.hidden, s.tokens, s.tokens * s.choices / s.experts, 1000 * result.ours,
              1000 * result.bare, result.ratio, result.lower, result.upper);
}

void step(const Mesh& mesh, const Sizes& s, int repetitions) {
  Mixture mixture(mesh, s.features, {.experts = s.experts, .hidden = s.hidden, .routing = {.k = s.choices}});
  sw::initialize(mixture, 1);
  sw::AdamW adamw;
  const Tokens x = sw::randn<float, sw::Shard<0>>(mesh, {s.tokens, s.features}, 3),
               dy = sw::randn<float, sw::Shard<0>>(mesh, {s.tokens, s.features}, 4);
  std::vector<double> times[2];
  for (int i = -2; i < repetitions; ++i) {
    sw::world().barrier();
    const double begin = MPI_Wtime();
    sw::Tape tape;
    const auto y = mixture(tape.input(x));
    tape.backward(y, dy);
    sw::reduce_gradients(mixture);
    const double passes = MPI_Wtime();
    adamw.step(mixture);
    if (i < 0) continue;
    times[0].push_back(MPI_Wtime() - begin);
    times[1].push_back(passes - begin);
  }
  double medians[]{benchmarks::median(times[0]), benchmarks::median(times[1])};
  sw::world().all_reduce(medians, medians, 2, sw::DataType::f64, sw::ReduceOp::max);
  if (mesh.rank() == 0) std::printf("{\"step\": %.5f, \"passes\": %.5f}\n", medians[0], medians[1]);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Sizes own;
    bool only_step = false;
    int repetitions = 15;
    CLI::App app("A mixture of experts beside a dense gated MLP of the same work, forward and backward.");
    app.option_defaults()->always_capture_default();
    const auto add = [&](const char* name, Index& value, const char* text) {
      return app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
    };
    const CLI::Option* const given[]{add("--experts", own.experts, "in all"),
                                     add("--choices", own.choices, "experts of a token"),
                                     add("--features", own.features, "of a token"),
                                     add("--hidden", own.hidden, "features within an expert"),
                                     add("--tokens", own.tokens, "of all ranks")};
    app.add_option("--repetitions", repetitions, "of each side")->check(CLI::Range(1, 1000));
    app.add_flag("--step", only_step, "the training step of the mixture alone, as JSON");
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Mesh mesh(sw::world(), {sw::any});
    if (only_step) {
      step(mesh, own, repetitions);
      return 0;
    }
    if (mesh.rank() == 0) {
      std::printf(
          "%d ranks; processor milliseconds of a mixture of experts, forward and backward, beside a dense "
          "MLP\n"
          "%8s %8s %8s %8s %8s %12s %10s %10s %8s\n",
          mesh.size(), "experts", "choices", "features", "hidden", "tokens", "tokens each", "mixture",
          "dense", "ratio");
    }
    if (std::any_of(std::begin(given), std::end(given), [](auto* option) { return option->count() > 0; })) {
      compare(mesh, own, repetitions);
      return 0;
    }
    for (const Index tokens : std::array<Index, 4>{256, 512, 1024, 2048}) {
      compare(mesh, {.features = 512, .tokens = tokens}, repetitions);
      compare(mesh, {.tokens = tokens}, repetitions);
    }
    for (const Index tokens : std::array<Index, 3>{512, 1024, 2048})
      compare(mesh, {64, 8, 1024, 256, tokens}, repetitions);
    return 0;
  });
}
