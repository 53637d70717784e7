// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Causal multi-head self-attention, split by whole heads, evenly or not. The projections of queries, keys
/// and values share one input edge: one all-reduce forward and one backward.

#include <cmath>

#include "support.hpp"

namespace sw = shardwise;
using sw::Collective, sw::Phase;

namespace {

struct Options {
  sw::Index batch = 4, sequence = 256, features = 512, heads = 8;
  int steps = 3;
  std::uint64_t seed = 1;
  bool forward_only = false, check = false;
};

/// `Output`: what the last projection gives. The whole result to every rank, or to each rank its positions.
using Whole = sw::output<sw::Replicate>;
using Positions = sw::output<sw::Shard<1>>;
template <class Mesh, class Output>
using Model = sw::Attention<Mesh, float, sw::ColwiseParallel<sw::tp>, sw::RowwiseParallel<sw::tp, Output>>;

template <class Mesh>
constexpr auto make_input(const Mesh& mesh, const Options& options) {
  return sw::randn<float, sw::Replicate>(mesh, {options.batch, options.sequence, options.features},
                                         options.seed + 1);
}

/// Half the mean square of the output: the same finished scalar on every rank.
template <class Y>
constexpr auto loss_of(const Y& y, const Options& options) {
  const auto count = static_cast<double>(options.batch * options.sequence * options.features);
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
    Model<Mesh, Output> model(mesh, options.features, options.heads);
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
static_assert(whole.bytes<sw::tp>() == 2 * 4 * 256 * 512 * sizeof(float));

/// With positions out: a reduce-scatter forward and an all-gather backward; the loss is the sum of the ranks'
/// terms.
constexpr auto positions = plan<Positions>(2, Options{});
static_assert(positions.count(Collective::reduce_scatter, Phase::forward) == 1);
static_assert(positions.count(Collective::all_gather, Phase::backward) == 1);
static_assert(positions.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(positions.collectives() == 4);

/// The same computed densely, in double: [batch * sequence, features] matrices.
class DenseAttention {
 public:
  using Dense = examples::Dense;

  template <class M>
  DenseAttention(const M& model, const Dense& x, const Options& o)
      : options_(o),
        size_(o.features / o.heads),
        x_(x),
        wq_(weight(model.wq)),
        wk_(weight(model.wk)),
        wv_(weight(model.wv)),
        wo_(examples::dense(model.wo.weight.value())) {
    wo_.resize(o.features, o.features);
    q = project(wq_, model.wq), k = project(wk_, model.wk), v = project(wv_, model.wv);
    mixed_ = dq = dk = dv = Dense::Zero(x.rows(), x.cols());
    for_each_head([&](sw::Index row, sw::Index column) {
      block(mixed_, row, column) = probabilities(row, column) * block(v, row, column);
    });
    output = (mixed_ * wo_.transpose()).rowwise() + examples::dense(model.wo.bias.value()).col(0).transpose();
    backward();
  }

  Dense q, k, v, output, dq, dk, dv, dx, dwq, dwk, dwv, dwo;

 private:
  template <class Layer>
  Dense weight(const Layer& layer) const {
    Dense w = examples::dense(layer.weight.value());
    w.resize(options_.features, options_.features);
    return w;
  }
  template <class Layer>
  Dense project(const Dense& w, const Layer& layer) const {
    Dense bias = examples::dense(layer.bias.value());
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

  const Options& options_;
  sw::Index size_;  // of a head
  Dense x_, wq_, wk_, wv_, wo_, mixed_;
};

/// Compares the output and all gradients with the dense computation.
template <class Mesh, class Output>
bool check(const Model<Mesh, Output>& model, const Mesh& mesh, const Options& options) {
  using examples::dense, examples::Dense;
  sw::Tape tape;
  auto x = tape.input(make_input(mesh, options));
  auto y = model(x);
  tape.backward(loss_of(y, options));

  const DenseAttention expected(model, dense(x.value()), options);
  auto square = [&](Dense m) {
    m.resize(options.features, options.features);
    return m;
  };
  auto column = [](Dense m) {
    m.resize(m.size(), 1);
    return m;
  };
  const Dense dy = expected.output / static_cast<double>(expected.output.size());
  auto sums = [](const Dense& m) { return Dense(m.colwise().sum().transpose()); };
  examples::Comparison comparison(mesh.rank() == 0, 1e-4);
  comparison.add("output", dense(y.value()), expected.output);
  comparison.add("gradient of the input", dense(x.gradient()), expected.dx);
  comparison.add("gradient of wq.weight", square(dense(model.wq.weight.gradient())), expected.dwq);
  comparison.add("gradient of wk.weight", square(dense(model.wk.weight.gradient())), expected.dwk);
  comparison.add("gradient of wv.weight", square(dense(model.wv.weight.gradient())), expected.dwv);
  comparison.add("gradient of wo.weight", square(dense(model.wo.weight.gradient())), expected.dwo);
  comparison.add("gradient of wq.bias", column(dense(model.wq.bias.gradient())), sums(expected.dq));
  comparison.add("gradient of wv.bias", column(dense(model.wv.bias.gradient())), sums(expected.dv));
  comparison.add("gradient of wo.bias", dense(model.wo.bias.gradient()), sums(dy));
  // The gradient of the keys' bias is zero but for rounding, as softmax does not see a shift: its scale is
  // dk's.
  const Dense wk_bias = column(dense(model.wk.bias.gradient()));
  const Dense scale = Dense::Constant(wk_bias.rows(), 1, expected.dk.cwiseAbs().maxCoeff());
  comparison.add("gradient of wk.bias", wk_bias + scale, sums(expected.dk) + scale);
  return comparison.within();
}

template <class Output>
bool run(const Options& options, bool compiled) {
  using Mesh = sw::Mesh<sw::tp>;
  Mesh mesh(sw::world(), {sw::any});
  const bool prints = mesh.rank() == 0;
  if (prints) {
    std::printf(
        "attention, %td heads of %td, %td sequences of %td tokens, float, tp %d; matrix products by %s\n",
        options.heads, options.features / options.heads, options.batch, options.sequence, mesh.size(),
        sw::kernel::gemm_name());
  }
  auto planned = plan<Output>(mesh.size(), options, mesh.rank());
  if (compiled && mesh.size() == 2) planned = std::is_same_v<Output, Whole> ? whole : positions;
  const char* title = compiled && mesh.size() == 2 ? "planned by the compiler" : "planned by a dry run";

  sw::Recording recording(mesh);
  Model<Mesh, Output> model(mesh, options.features, options.heads);
  sw::initialize(model, options.seed);
  if (options.check) return check<Mesh, Output>(model, mesh, options);
  if (options.forward_only) {
    auto y = model(make_input(mesh, options));
    if (prints) {
      std::printf("output: this rank holds [%td, %td, %td]\n", y.local_shape()[0], y.local_shape()[1],
                  y.local_shape()[2]);
    }
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
    CLI::App app("Runs an attention block whose heads are split over all ranks, and shows its communication.",
                 "attention");
    app.option_defaults()->always_capture_default();
    app.add_option("--batch", options.batch, "sequences")->check(CLI::Range(1, 1 << 20));
    app.add_option("--sequence", options.sequence, "tokens in a sequence")->check(CLI::Range(1, 1 << 20));
    app.add_option("--features", options.features, "of each token; a multiple of --heads")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--heads", options.heads, "attention heads, at least one per rank")
        ->check(CLI::Range(1, 1 << 16));
    app.add_option("--steps", options.steps, "training steps")->check(CLI::Range(1, 1000000));
    app.add_option("--seed", options.seed, "of weights and input");
    app.add_option("--output", output,
                   "what comes out: the whole result on every rank (an all-reduce), or on each "
                   "its positions of the sequence (a reduce-scatter)")
        ->check(CLI::IsMember({"replicate", "shard"}));
    auto* forward_only = app.add_flag("--forward-only", options.forward_only, "exactly one forward pass");
    app.add_flag("--check", options.check, "compare output and gradients with a dense computation")
        ->excludes(forward_only);
    if (auto code = examples::parse(app, argc, argv)) return *code;
    const Options defaults;
    const bool compiled = !options.forward_only && options.batch == defaults.batch &&
                          options.sequence == defaults.sequence && options.features == defaults.features &&
                          options.heads == defaults.heads;
    const bool good = output == "shard" ? run<Positions>(options, compiled) : run<Whole>(options, compiled);
    return good ? 0 : 1;
  });
}
