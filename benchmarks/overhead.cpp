// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What Shardwise costs: its MLP and its attention block against the same ones written by hand, as an expert
/// would, with raw MPI, buffers that are allocated once, in place where that is possible, and the same
/// kernels. Both start from the same parameters; outputs and gradients are compared after the first step,
/// parameters after the last.

#include <cmath>
#include <string>

#include "support.hpp"

namespace sw = shardwise;
namespace kernel = shardwise::kernel;
using sw::Index;

namespace {

using Mesh = sw::Mesh<sw::tp>;
using Matrix = sw::RowMajorMatrix<float>;
constexpr double rate = 0.1;

struct Options {
  std::vector<Index> tokens{2048, 128}, batch{4, 1};
  Index hidden = 1024, ffn = 4096, sequence = 256, features = 1024, heads = 16;
  int repetitions = 60;
  double tolerance = 1e-4;
};

// ---- By hand
// -------------------------------------------------------------------------------------------------

/// This rank's part of a layer's parameters, and their gradients.
struct Layer {
  Matrix weight, bias, weight_gradient, bias_gradient;

  template <class Linear>
  Layer(const Linear& linear, Index in)
      : weight(local(linear.weight, in)),
        bias(local(linear.bias, weight.rows())),
        weight_gradient(weight.rows(), weight.cols()),
        bias_gradient(1, bias.cols()) {}

  template <class Parameter>
  static Matrix local(const Parameter& parameter, Index columns) {
    const auto block = parameter.value().view();
    return Eigen::Map<const Matrix>(block.data, block.elements() / columns, columns);
  }

  Index in() const { return weight.cols(); }
  Index out() const { return weight.rows(); }

  /// y = x · wᵀ
  void multiply(const Matrix& x, Matrix& y) const {
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::yes, x.rows(), out(), in(), x.data(), in(),
                 weight.data(), in(), y.data(), out(), false);
  }
  void add_bias(Matrix& y) const { kernel::add(y.cols(), y.data(), bias.data(), y.data(), y.rows()); }

  /// Those of weight and bias.
  void gradients(const Matrix& dy, const Matrix& x) {
    kernel::gemm(kernel::Transpose::yes, kernel::Transpose::no, out(), in(), x.rows(), dy.data(), out(),
                 x.data(), in(), weight_gradient.data(), in(), false);
    kernel::sum_rows(dy.rows(), dy.cols(), dy.data(), bias_gradient.data(), false);
  }
  /// dx (+)= dy · w
  void input_gradient(const Matrix& dy, Matrix& dx, bool accumulate = false) const {
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, dy.rows(), in(), out(), dy.data(), out(),
                 weight.data(), in(), dx.data(), in(), accumulate);
  }
  void update() {
    const kernel::SgdFactors<float> factors{.rate = static_cast<float>(rate)};
    kernel::sgd_update(weight.size(), {weight.data()}, weight_gradient.data(), nullptr, factors);
    kernel::sgd_update(bias.size(), {bias.data()}, bias_gradient.data(), nullptr, factors);
  }
};

void all_reduce(Matrix& m) {
  MPI_Allreduce(MPI_IN_PLACE, m.data(), static_cast<int>(m.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/// Half the mean square of y, and its gradient.
float loss_of(const Matrix& y, Matrix& dy) {
  float squares = 0;
  kernel::sum_squares(1, y.size(), 1, y.data(), &squares);
  kernel::scale(y.size(), 1 / static_cast<float>(y.size()), y.data(), dy.data());
  return squares * 0.5f / static_cast<float>(y.size());
}

struct MlpByHand {
  Matrix x;
  Layer up, down;
  Matrix h, a, y, dy, dh, dx;

  template <class Model>
  MlpByHand(const Model& model, const Matrix& input)
      : x(input),
        up(model.up, x.cols()),
        down(model.down, up.out()),
        h(x.rows(), up.out()),
        a(h.rows(), h.cols()),
        y(x.rows(), down.out()),
        dy(y.rows(), y.cols()),
        dh(h.rows(), h.cols()),
        dx(x.rows(), x.cols()) {}

  /// y from the activation, which may lie in `h`'s place if no gradient is wanted.
  void forward(Matrix& activation) {
    up.multiply(x, h);
    up.add_bias(h);
    kernel::activate<kernel::Gelu>(h.size(), h.data(), activation.data());
    down.multiply(activation, y);
    all_reduce(y);
    down.add_bias(y);
  }
  void forward() { forward(h); }

  float step() {
    forward(a);
    const float loss = loss_of(y, dy);
    down.gradients(dy, a);
    down.input_gradient(dy, dh);
    kernel::activate_backward<kernel::Gelu>(h.size(), h.data(), dh.data(), dh.data());
    up.gradients(dh, x);
    up.input_gradient(dh, dx);
    all_reduce(dx);
    up.update();
    down.update();
    return loss;
  }
};

struct AttentionByHand {
  kernel::AttentionShape shape;
  Matrix x;
  Layer wq, wk, wv, wo;
  Matrix q, k, v, mixed, lse, y, dy, dmixed, dq, dk, dv, dx;

  /// Rows are batch x sequence.
  template <class Model>
  AttentionByHand(const Model& model, const Matrix& input, const Options& o)
      : shape{.batch = input.rows() / o.sequence,
              .queries = o.sequence,
              .keys = o.sequence,
              .heads = model.wq.bias.value().local_shape()[0],
              .kv_heads = shape.heads,
              .head_dim = o.features / o.heads,
              .causal = true,
              .scale = 1 / std::sqrt(static_cast<double>(o.features) / static_cast<double>(o.heads))},
        x(input),
        wq(model.wq, x.cols()),
        wk(model.wk, x.cols()),
        wv(model.wv, x.cols()),
        wo(model.wo, wq.out()),
        q(x.rows(), wq.out()),
        k(q.rows(), q.cols()),
        v(q.rows(), q.cols()),
        mixed(q.rows(), q.cols()),
        lse(q.rows(), shape.heads),
        y(x.rows(), wo.out()),
        dy(y.rows(), y.cols()),
        dmixed(q.rows(), q.cols()),
        dq(q.rows(), q.cols()),
        dk(q.rows(), q.cols()),
        dv(q.rows(), q.cols()),
        dx(x.rows(), x.cols()) {}

  void project(const Layer& layer, Matrix& result) {
    layer.multiply(x, result);
    layer.add_bias(result);
  }
  void forward() {
    project(wq, q);
    project(wk, k);
    project(wv, v);
    kernel::attention(shape, q.data(), k.data(), v.data(), mixed.data(), lse.data());
    wo.multiply(mixed, y);
    all_reduce(y);
    wo.add_bias(y);
  }

  float step() {
    forward();
    const float loss = loss_of(y, dy);
    wo.gradients(dy, mixed);
    wo.input_gradient(dy, dmixed);
    kernel::attention_backward(shape, q.data(), k.data(), v.data(), mixed.data(), lse.data(), dmixed.data(),
                               dq.data(), dk.data(), dv.data());
    wq.gradients(dq, x);
    wk.gradients(dk, x);
    wv.gradients(dv, x);
    wq.input_gradient(dq, dx);
    wk.input_gradient(dk, dx, true);
    wv.input_gradient(dv, dx, true);
    all_reduce(dx);
    for (Layer* layer : {&wq, &wk, &wv, &wo}) layer->update();
    return loss;
  }
};

// ---- With Shardwise
// ------------------------------------------------------------------------------------------

template <class Model, class X>
struct WithShardwise {
  Model model;
  X x;
  sw::SGD sgd{{.rate = rate}};
  sw::cotangent_of<X> dx{};

  WithShardwise(Model m, X input) : model(std::move(m)), x(std::move(input)) { sw::initialize(model, 1); }

  auto forward() const { return model(x); }

  float step() {
    dx = {};
    sw::Tape tape;
    auto input = tape.input(x);
    auto y = model(input);
    auto loss = sw::scale(sw::sum_of_squares(y), 0.5 / static_cast<double>(sw::elements(y.shape())));
    tape.backward(loss);
    sgd.step(model);
    dx = input.gradient();
    return sw::item(loss.value());
  }
};

// ---- Side by side
// --------------------------------------------------------------------------------------------

class Report {
 public:
  Report(bool prints, const Options& options) : prints_(prints), options_(options) {
    if (prints_) {
      std::printf("%-40s %-9s %11s %11s %8s  %s\n", "", "", "shardwise", "by hand", "ratio", "its quartiles");
    }
  }

  template <class Ours, class Hand>
  void run(const std::string& what, Ours& ours, Hand& hand) {
    const float our_loss = ours.step(), hand_loss = hand.step();
    compare("losses", Matrix::Constant(1, 1, our_loss), Matrix::Constant(1, 1, hand_loss));
    compare("gradients of the input", ours.dx.local(), hand.dx);
    hand.forward();
    compare("outputs", ours.forward().local(), hand.y);
    print(
        what, "forward", [&] { ours.forward(); }, [&] { hand.forward(); });
    print(
        "", "training", [&] { ours.step(); }, [&] { hand.step(); });
  }

  /// Both must have come to the same.
  void compare(const char* what, const Matrix& ours, const Matrix& hand) {
    const float error = (ours - hand).cwiseAbs().maxCoeff() / hand.cwiseAbs().maxCoeff();
    if (error <= static_cast<float>(options_.tolerance)) return;  // never for NaN
    agree_ = false;
    std::fprintf(stderr, "the %s DIFFER: relative error %.2e\n", what, static_cast<double>(error));
  }
  template <class Linear>
  void compare(const char* what, const Linear& ours, const Layer& hand) {
    compare(what, Layer::local(ours.weight, hand.in()), hand.weight);
    compare(what, Layer::local(ours.bias, hand.out()), hand.bias);
  }
  bool agree() const { return agree_; }

 private:
  template <class Ours, class Hand>
  void print(const std::string& what, const char* which, Ours ours, Hand hand) const {
    const auto c = benchmarks::interleave(options_.repetitions, 1, ours, hand);
    if (!prints_) return;
    std::printf("%-40s %-9s %8.3f ms %8.3f ms %8.3f  %.3f to %.3f\n", what.c_str(), which, c.ours * 1e3,
                c.bare * 1e3, c.ratio, c.lower, c.upper);
    std::fflush(stdout);
  }

  bool prints_;
  const Options& options_;
  bool agree_ = true;
};

void mlp(Report& report, const Mesh& mesh, const Options& o, Index tokens) {
  WithShardwise ours(sw::Mlp(mesh, o.hidden, o.ffn),
                     sw::randn<float, sw::Replicate>(mesh, {tokens, o.hidden}, 2));
  MlpByHand hand(ours.model, ours.x.local());
  report.run("MLP " + std::to_string(o.hidden) + " -> " + std::to_string(o.ffn) + ", " +
                 std::to_string(tokens) + " tokens",
             ours, hand);
  report.compare("up layers", ours.model.up, hand.up);
  report.compare("down layers", ours.model.down, hand.down);
}

void attention(Report& report, const Mesh& mesh, const Options& o, Index batch) {
  WithShardwise ours(sw::Attention(mesh, o.features, o.heads),
                     sw::randn<float, sw::Replicate>(mesh, {batch, o.sequence, o.features}, 2));
  AttentionByHand hand(ours.model, ours.x.local(), o);
  report.run("attention " + std::to_string(o.heads) + " x " + std::to_string(o.features / o.heads) + ", " +
                 std::to_string(batch) + " x " + std::to_string(o.sequence) + " tokens",
             ours, hand);
  report.compare("query layers", ours.model.wq, hand.wq);
  report.compare("key layers", ours.model.wk, hand.wk);
  report.compare("value layers", ours.model.wv, hand.wv);
  report.compare("output layers", ours.model.wo, hand.wo);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times an MLP and an attention block against the same ones written by hand.", "overhead");
    app.option_defaults()->always_capture_default();
    app.add_option("--tokens", options.tokens, "rows of the MLP's input")->check(CLI::Range(1, 1 << 20));
    app.add_option("--hidden", options.hidden, "the MLP's features")->check(CLI::Range(1, 1 << 16));
    app.add_option("--ffn", options.ffn, "features between its layers")->check(CLI::Range(1, 1 << 16));
    app.add_option("--batch", options.batch, "sequences for the attention block")
        ->check(CLI::Range(1, 1 << 16));
    app.add_option("--sequence", options.sequence, "tokens in a sequence")->check(CLI::Range(1, 1 << 16));
    app.add_option("--features", options.features, "of each token; a multiple of --heads")
        ->check(CLI::Range(1, 1 << 16));
    app.add_option("--heads", options.heads, "at least one per rank")->check(CLI::Range(1, 1 << 12));
    app.add_option("--repetitions", options.repetitions, "of each way")->check(CLI::Range(1, 1000000));
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const Mesh mesh(sw::world(), {sw::any});
    if (mesh.rank() == 0) {
      std::printf("overhead: float, tp %d, matrix products by %s; medians of %d\n", mesh.size(),
                  kernel::gemm_name(), options.repetitions);
    }
    Report report(mesh.rank() == 0, options);
    for (Index tokens : options.tokens) mlp(report, mesh, options, tokens);
    for (Index batch : options.batch) attention(report, mesh, options, batch);
    const bool agree = sw::world().agree(report.agree());
    if (mesh.rank() == 0) std::printf("%s\n", agree ? "both ways computed the same" : "the two ways DIFFER");
    return agree ? 0 : 1;
  });
}
