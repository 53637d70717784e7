// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Causal multi-head self-attention, split by whole heads, evenly or not. The projections of queries, keys and values
/// share one input edge: one all-reduce forward and one backward.

#include <cmath>

#include "layer_program.hpp"

namespace sw = shardwise;
using examples::compiled_plan, examples::dense, examples::Dense, examples::Whole;
using sw::Collective, sw::Phase;

namespace {

struct AttentionSizes {
  sw::Index batch = 4, sequence = 256, features = 512, heads = 8;
  friend bool operator==(const AttentionSizes&, const AttentionSizes&) = default;
};

/// The same computed densely, in double: [batch * sequence, features] matrices.
class DenseAttention {
 public:
  template <class M>
  DenseAttention(const M& model, const Dense& x, const AttentionSizes& o)
      : options_(o),
        size_(o.features / o.heads),
        x_(x),
        wq_(weight(model.wq)),
        wk_(weight(model.wk)),
        wv_(weight(model.wv)),
        wo_(dense(model.wo.weight.value())) {
    wo_.resize(o.features, o.features);
    q = project(wq_, model.wq), k = project(wk_, model.wk), v = project(wv_, model.wv);
    mixed_ = dq = dk = dv = Dense::Zero(x.rows(), x.cols());
    for_each_head([&](sw::Index row, sw::Index column) {
      block(mixed_, row, column) = probabilities(row, column) * block(v, row, column);
    });
    output = (mixed_ * wo_.transpose()).rowwise() + dense(model.wo.bias.value()).col(0).transpose();
    backward();
  }

  Dense q, k, v, output, dq, dk, dv, dx, dwq, dwk, dwv, dwo;

 private:
  template <class Layer>
  Dense weight(const Layer& layer) const {
    Dense w = dense(layer.weight.value());
    w.resize(options_.features, options_.features);
    return w;
  }
  template <class Layer>
  Dense project(const Dense& w, const Layer& layer) const {
    Dense bias = dense(layer.bias.value());
    bias.resize(1, options_.features);
    return (x_ * w.transpose()).rowwise() + bias.row(0);
  }
  Eigen::Block<Dense> block(Dense& m, sw::Index row, sw::Index column) const {
    return m.block(row, column, options_.sequence, size_);
  }
  template <class F>
  void for_each_head(F f) const {
    for (sw::Index b = 0; b < options_.batch; ++b) {
      for (sw::Index h = 0; h < options_.heads; ++h) f(b * options_.sequence, h * size_);
    }
  }
  /// The softmax of each query's scores over the keys up to it.
  Dense probabilities(sw::Index row, sw::Index column) {
    Dense p =
        block(q, row, column) * block(k, row, column).transpose() / std::sqrt(static_cast<double>(size_));
    for (sw::Index i = 0; i < p.rows(); ++i) {
      const double maximum = p.row(i).head(i + 1).maxCoeff();
      for (sw::Index j = 0; j < p.cols(); ++j) p(i, j) = j <= i ? std::exp(p(i, j) - maximum) : 0;
      p.row(i) /= p.row(i).sum();
    }
    return p;
  }
  void backward() {
    const Dense dy = output / static_cast<double>(output.size());
    Dense dmixed = dy * wo_;
    for_each_head([&](sw::Index row, sw::Index column) {
      const Dense p = probabilities(row, column), d = block(dmixed, row, column);
      const Dense dp = d * block(v, row, column).transpose();
      const Eigen::VectorXd inner = dp.cwiseProduct(p).rowwise().sum();
      const Dense ds = p.cwiseProduct(dp.colwise() - inner) / std::sqrt(static_cast<double>(size_));
      block(dv, row, column) = p.transpose() * d;
      block(dq, row, column) = ds * block(k, row, column);
      block(dk, row, column) = ds.transpose() * block(q, row, column);
    });
    dx = dq * wq_ + dk * wk_ + dv * wv_;
    dwq = dq.transpose() * x_, dwk = dk.transpose() * x_, dwv = dv.transpose() * x_;
    dwo = dy.transpose() * mixed_;
  }

  const AttentionSizes& options_;
  sw::Index size_;  // of a head
  Dense x_, wq_, wk_, wv_, wo_, mixed_;
};

struct AttentionLayer : AttentionSizes {
  friend bool operator==(const AttentionLayer&, const AttentionLayer&) = default;

  template <class Mesh, class Output>
  using Model = sw::Attention<Mesh, float, sw::ColwiseParallel<sw::tp>, sw::RowwiseParallel<sw::tp, Output>>;
  using Blocks = sw::output<sw::Shard<1>>;  // positions of the sequence

  template <class Output, class Mesh>
  constexpr auto model(const Mesh& mesh) const {
    return Model<Mesh, Output>(mesh, features, heads);
  }
  template <class Mesh>
  constexpr auto input(const Mesh& mesh, std::uint64_t seed) const {
    return sw::randn<float, sw::Replicate>(mesh, {batch, sequence, features}, seed);
  }

  void add_options(CLI::App& app) {
    app.add_option("--batch", batch, "sequences")->check(CLI::Range(1, 1 << 20));
    app.add_option("--sequence", sequence, "tokens in a sequence")->check(CLI::Range(1, 1 << 20));
    app.add_option("--features", features, "of each token; a multiple of --heads")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--heads", heads, "attention heads, at least one per rank")->check(CLI::Range(1, 1 << 16));
  }
  std::string title() const {
    return "attention, " + std::to_string(heads) + " heads, " + std::to_string(features) + " features, " +
           std::to_string(batch) + " sequences of " + std::to_string(sequence) + " tokens";
  }

  template <class M, class X, class Y>
  void compare(const M& model, const X& x, const Y& y, examples::Comparison& comparison) const {
    const DenseAttention expected(model, dense(x.value()), *this);
    const Dense dy = expected.output / static_cast<double>(expected.output.size());
    auto square = [&](const auto& weight) {
      Dense m = dense(weight.gradient());
      m.resize(features, features);
      return m;
    };
    auto column = [](const auto& bias) {
      Dense m = dense(bias.gradient());
      m.resize(m.size(), 1);
      return m;
    };
    auto sums = [](const Dense& m) { return Dense(m.colwise().sum().transpose()); };
    comparison.add("output", dense(y.value()), expected.output);
    comparison.add("gradient of the input", dense(x.gradient()), expected.dx);
    comparison.add("gradient of wq.weight", square(model.wq.weight), expected.dwq);
    comparison.add("gradient of wk.weight", square(model.wk.weight), expected.dwk);
    comparison.add("gradient of wv.weight", square(model.wv.weight), expected.dwv);
    comparison.add("gradient of wo.weight", square(model.wo.weight), expected.dwo);
    comparison.add("gradient of wq.bias", column(model.wq.bias), sums(expected.dq));
    comparison.add("gradient of wv.bias", column(model.wv.bias), sums(expected.dv));
    comparison.add("gradient of wo.bias", column(model.wo.bias), sums(dy));
    // The gradient of the keys' bias is zero but for rounding, as softmax does not see a shift: its scale is dk's.
    const Dense scale = Dense::Constant(features, 1, expected.dk.cwiseAbs().maxCoeff());
    comparison.add("gradient of wk.bias", column(model.wk.bias) + scale, sums(expected.dk) + scale);
  }
};

constexpr auto& whole = compiled_plan<AttentionLayer, Whole>;
static_assert(whole.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(whole.count(Collective::all_reduce, Phase::backward) == 1);
static_assert(whole.collectives() == 2);
static_assert(whole.bytes<sw::tp>() == 2 * 4 * 256 * 512 * sizeof(float));

/// With positions out: a reduce-scatter forward and an all-gather backward; the loss is the sum of the ranks' terms.
constexpr auto& positions = compiled_plan<AttentionLayer, AttentionLayer::Blocks>;
static_assert(positions.count(Collective::reduce_scatter, Phase::forward) == 1);
static_assert(positions.count(Collective::all_gather, Phase::backward) == 1);
static_assert(positions.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(positions.collectives() == 4);

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    return examples::layer_program<AttentionLayer>(
        argc, argv, "attention",
        "Runs an attention block whose heads are split over all ranks, and shows its communication.");
  });
}
