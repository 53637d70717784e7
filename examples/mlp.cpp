// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A tensor-parallel MLP: a column-wise layer, gelu, a row-wise layer. One all-reduce forward and one backward; the
/// compiler has asserted it before the program runs.

#include <cmath>
#include <numbers>

#include "layer_program.hpp"

namespace sw = shardwise;
using examples::compiled_plan, examples::dense, examples::Dense, examples::Whole;
using sw::Collective, sw::Phase;

namespace {

struct MlpLayer {
  sw::Index tokens = 2048, hidden = 1024, ffn = 4096;
  friend bool operator==(const MlpLayer&, const MlpLayer&) = default;

  template <class Mesh, class Output>
  using Model = sw::Mlp<Mesh, float, sw::ColwiseParallel<sw::tp>, sw::RowwiseParallel<sw::tp, Output>>;
  using Blocks = sw::output<sw::Shard<0>>;  // rows

  template <class Output, class Mesh>
  constexpr auto model(const Mesh& mesh) const {
    return Model<Mesh, Output>(mesh, hidden, ffn);
  }
  template <class Mesh>
  constexpr auto input(const Mesh& mesh, std::uint64_t seed) const {
    return sw::randn<float, sw::Replicate>(mesh, {tokens, hidden}, seed);
  }

  void add_options(CLI::App& app) {
    app.add_option("--tokens", tokens, "rows of the input")->check(CLI::Range(1, 1 << 24));
    app.add_option("--hidden", hidden, "features of input and output")->check(CLI::Range(1, 1 << 20));
    app.add_option("--ffn", ffn, "features between the layers")->check(CLI::Range(1, 1 << 20));
  }
  std::string title() const {
    return "MLP " + std::to_string(hidden) + " -> " + std::to_string(ffn) + " -> " + std::to_string(hidden) +
           ", " + std::to_string(tokens) + " tokens";
  }

  /// The same MLP and its gradients, computed densely.
  template <class M, class X, class Y>
  void compare(const M& model, const X& x, const Y& y, examples::Comparison& comparison) const {
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
    comparison.add("output", dense(y.value()), output);
    comparison.add("gradient of the input", dense(x.gradient()), dh * w1);
    comparison.add("gradient of up.weight", dense(model.up.weight.gradient()), dh.transpose() * input);
    comparison.add("gradient of up.bias", dense(model.up.bias.gradient()), dh.colwise().sum().transpose());
    comparison.add("gradient of down.weight", dense(model.down.weight.gradient()), dy.transpose() * a);
    comparison.add("gradient of down.bias", dense(model.down.bias.gradient()),
                   dy.colwise().sum().transpose());
  }
};

constexpr auto& whole = compiled_plan<MlpLayer, Whole>;
static_assert(whole.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(whole.count(Collective::all_reduce, Phase::backward) == 1);
static_assert(whole.collectives() == 2);
static_assert(whole.bytes<sw::tp>() == 2 * 2048 * 1024 * sizeof(float));

/// With rows out: a reduce-scatter forward and an all-gather backward, and the loss is the sum of the ranks' terms.
constexpr auto& rows = compiled_plan<MlpLayer, MlpLayer::Blocks>;
static_assert(rows.count(Collective::reduce_scatter, Phase::forward) == 1);
static_assert(rows.count(Collective::all_gather, Phase::backward) == 1);
static_assert(rows.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(rows.collectives() == 4);

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    return examples::layer_program<MlpLayer>(
        argc, argv, "mlp",
        "Runs an MLP whose two layers are split over all ranks, and shows its communication.");
  });
}
