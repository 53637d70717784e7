// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A block of attention whose heads are split over the ranks, evenly or not, against the same computed densely: output,
/// and the gradients of the input and of all parameters. And an encoder of BERT's shape against PyTorch's.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>
#include <shardwise/weights/load_weights.hpp>

#include <cmath>

namespace sw = shardwise;

namespace {

using Mesh = sw::Mesh<sw::tp>;
using Dense = sw::RowMajorMatrix<double>;

constexpr sw::Index batch = 2, sequence = 17, features = 24, heads = 6, size = features / heads;

struct Block : sw::Module<Block> {
  sw::Linear<Mesh, sw::ColwiseParallel<sw::tp>, double, 2, 1> wq, wk, wv;
  sw::Linear<Mesh, sw::RowwiseParallel<sw::tp>, double, 1, 2> wo;

  explicit Block(const Mesh& mesh)
      : wq(mesh, {features}, {heads, size}),
        wk(mesh, {features}, {heads, size}),
        wv(mesh, {features}, {heads, size}),
        wo(mesh, {heads, size}, {features}) {}
  auto forward(const auto& x) const {
    const auto [q, k, v] = sw::project(x, wq, wk, wv);
    return wo(sw::attention(q, k, v));
  }
  void visit(auto&& f) { f("wq", wq), f("wk", wk), f("wv", wv), f("wo", wo); }
};

/// The whole tensor, as a matrix of so many columns.
Dense whole(const auto& tensor, sw::Index columns) {
  Dense dense = sw::full_tensor(tensor);
  dense.resize(dense.size() / columns, columns);
  return dense;
}

/// Everything as [batch * sequence, features] matrices; the loss is half the sum of squares of the output.
class DenseAttention {
 public:
  DenseAttention(const Block& block, Dense input)
      : wq(whole(block.wq.weight.value(), features)),
        wk(whole(block.wk.weight.value(), features)),
        wv(whole(block.wv.weight.value(), features)),
        wo(whole(block.wo.weight.value(), features)),
        x(std::move(input)) {
    q = project(wq, block.wq), k = project(wk, block.wk), v = project(wv, block.wv);
    mixed = dq = dk = dv = Dense::Zero(x.rows(), x.cols());
    for_each_head([&](sw::Index row, sw::Index column) {
      head(mixed, row, column) = probabilities(row, column) * head(v, row, column);
    });
    output = (mixed * wo.transpose()).rowwise() + whole(block.wo.bias.value(), features).row(0);
    const Dense dmixed = output * wo;
    for_each_head([&](sw::Index row, sw::Index column) {
      const Dense p = probabilities(row, column), d = dmixed.block(row, column, sequence, size);
      const Dense dp = d * head(v, row, column).transpose();
      const Eigen::VectorXd inner = dp.cwiseProduct(p).rowwise().sum();
      const Dense ds = p.cwiseProduct(dp.colwise() - inner) / std::sqrt(double{size});
      head(dv, row, column) = p.transpose() * d;
      head(dq, row, column) = ds * head(k, row, column);
      head(dk, row, column) = ds.transpose() * head(q, row, column);
    });
  }

  Dense wq, wk, wv, wo, x, q, k, v, mixed, output, dq, dk, dv;

 private:
  Dense project(const Dense& weight, const auto& layer) const {
    return (x * weight.transpose()).rowwise() + whole(layer.bias.value(), features).row(0);
  }
  static Eigen::Block<Dense> head(Dense& m, sw::Index row, sw::Index column) {
    return m.block(row, column, sequence, size);
  }
  static void for_each_head(auto f) {
    for (sw::Index b = 0; b < batch; ++b) {
      for (sw::Index h = 0; h < heads; ++h) f(b * sequence, h * size);
    }
  }
  /// The softmax of each query's scores over the keys up to it.
  Dense probabilities(sw::Index row, sw::Index column) {
    Dense p = head(q, row, column) * head(k, row, column).transpose() / std::sqrt(double{size});
    for (sw::Index i = 0; i < p.rows(); ++i) {
      const double maximum = p.row(i).head(i + 1).maxCoeff();
      for (sw::Index j = 0; j < p.cols(); ++j) p(i, j) = j <= i ? std::exp(p(i, j) - maximum) : 0;
      p.row(i) /= p.row(i).sum();
    }
    return p;
  }
};

void check(const char* what, const Dense& found, const Dense& expected, double scale) {
  CAPTURE(what);
  CHECK((found - expected).cwiseAbs().maxCoeff() <= 1e-12 * scale);
}
void check(const char* what, const Dense& found, const Dense& expected) {
  check(what, found, expected, expected.cwiseAbs().maxCoeff());
}
Dense sums(const Dense& m) { return m.colwise().sum(); }

TEST_CASE("output and gradients of attention are the dense ones") {
  const Mesh mesh(sw::world(), {sw::any});
  Block block(mesh);
  sw::initialize(block, 1);
  sw::Tape tape;
  const auto x = tape.input(sw::randn<double, sw::Replicate>(mesh, {batch, sequence, features}, 2));
  const auto y = block(x);
  tape.backward(sw::scale(sw::sum_of_squares(y), 0.5));

  const DenseAttention dense(block, whole(x.value(), features));
  const Dense& dy = dense.output;
  check("output", whole(y.value(), features), dense.output);
  check("input", whole(x.gradient(), features),
        dense.dq * dense.wq + dense.dk * dense.wk + dense.dv * dense.wv);
  const auto gradient = [](const auto& parameter) { return whole(parameter.gradient(), features); };
  check("wq.weight", gradient(block.wq.weight), dense.dq.transpose() * dense.x);
  check("wk.weight", gradient(block.wk.weight), dense.dk.transpose() * dense.x);
  check("wv.weight", gradient(block.wv.weight), dense.dv.transpose() * dense.x);
  check("wo.weight", gradient(block.wo.weight), dy.transpose() * dense.mixed);
  check("wq.bias", gradient(block.wq.bias), sums(dense.dq));
  check("wv.bias", gradient(block.wv.bias), sums(dense.dv));
  check("wo.bias", gradient(block.wo.bias), sums(dy));
  // Softmax does not see a shift of the keys, so this is zero but for rounding.
  check("wk.bias", gradient(block.wk.bias), sums(dense.dk), dense.dk.cwiseAbs().maxCoeff());
}

/// As in BERT (Devlin et al., 2019): norms behind the residual connections, and a token sees those on both sides.
struct EncoderLayer : sw::Module<EncoderLayer> {
  sw::Attention<Mesh, double> attention;
  sw::LayerNorm<Mesh, sw::NoParallel, double> attention_norm, mlp_norm;
  sw::Mlp<Mesh, double> mlp;

  EncoderLayer(const Mesh& mesh, const sw::AttentionOptions& options)
      : attention(mesh, 15, 5, options),
        attention_norm(mesh, 15, 1e-12),
        mlp_norm(mesh, 15, 1e-12),
        mlp(mesh, 15, 22) {}
  auto forward(const auto& x, const auto&... documents_and_step) const {
    auto h = attention_norm(sw::add(x, attention(x, documents_and_step...)));
    return mlp_norm(sw::add(h, mlp(h)));
  }
  void visit(auto&& f) {
    f("attention", attention), f("attention_norm", attention_norm), f("mlp_norm", mlp_norm), f("mlp", mlp);
  }
};

struct Encoder : sw::Module<Encoder> {
  sw::Embedding<Mesh, sw::NoParallel, double> words, positions, segments;
  sw::LayerNorm<Mesh, sw::NoParallel, double> norm;
  sw::ModulesOf<EncoderLayer> layers;
  sw::Linear<Mesh, sw::NoParallel, double> head;

  explicit Encoder(const Mesh& mesh, double dropout = 0)
      : words(mesh, 17, 15),
        positions(mesh, 8, 15),
        segments(mesh, 2, 15),
        norm(mesh, 15, 1e-12),
        head(mesh, 15, 17) {
    for (std::uint64_t i = 0; i < 2; ++i) {
      layers.emplace_back(mesh, sw::AttentionOptions{.causal = false, .dropout = dropout, .seed = i});
    }
  }
  auto forward(const auto& ids, const auto& places, const auto& parts,
               const auto&... documents_and_step) const {
    const auto x = norm(sw::add(sw::add(words(ids), positions(places)), segments(parts)));
    return sw::repeat(x, layers.size(),
                      [&](const auto& in, std::size_t i) { return layers[i](in, documents_and_step...); });
  }
  void visit(auto&& f) {
    f("words", words), f("positions", positions), f("segments", segments), f("norm", norm),
        f("layers", layers);
    f("head", head);
  }
};

struct EncoderReference {
  std::filesystem::path path =
      std::filesystem::path(__FILE__).parent_path().parent_path() / "reference" / "encoder.safetensors";
  Mesh mesh{sw::world(), {sw::any}};

  auto integers(const char* name) const {
    return sw::read_tensor<std::int64_t, 2, sw::Replicate>(mesh, path, name);
  }
  void load(Encoder& encoder) const {
    sw::load_weights(encoder, path,
                     {.name_of = [](std::string_view name) { return "weight." + std::string(name); },
                      .may_be_surplus = [](std::string_view) { return true; }});
  }
};

TEST_CASE("an encoder of BERT's shape is PyTorch's") {
  if (sw::world().size() > 5) return;  // heads
  const EncoderReference reference;
  Encoder encoder(reference.mesh);
  reference.load(encoder);
  const sw::Weights file(reference.path);
  sw::Tape tape;
  const auto documents = reference.integers("documents");
  const auto ids = [&](const char* name) { return tape.constant(reference.integers(name)); };
  const auto hidden = encoder(ids("input_ids"), ids("position_ids"), ids("segment_ids"), documents);
  Dense found = whole(hidden.value(), 15);
  for (sw::Index i = 0; i < found.rows(); ++i) {
    if (documents.data()[i] < 0) found.row(i).setZero();
  }
  check("hidden", found,
        whole(sw::read_tensor<double, 3, sw::Replicate>(reference.mesh, reference.path, "hidden"), 15));
  const auto loss = sw::CrossEntropyLoss()(encoder.head(hidden), reference.integers("targets"));
  double expected = 0;
  file.read_block("loss", sw::View<double, 0>{&expected});
  CHECK(std::abs(sw::item(loss) - expected) <= 1e-12 * expected);
  tape.backward(loss);
  sw::reduce_gradients(encoder);
  double largest = 0;  // of all gradients: those of the keys' biases are zero but for rounding
  sw::for_each_named_parameter(encoder, [&](std::string_view, auto& parameter) {
    largest = std::max(largest, whole(parameter.finished_gradient(), 1).cwiseAbs().maxCoeff());
  });
  sw::for_each_named_parameter(encoder, [&](std::string_view name, auto& parameter) {
    const auto& gradient = parameter.finished_gradient();
    std::remove_cvref_t<decltype(gradient)> theirs(reference.mesh, gradient.shape());
    file.read_block("grad." + std::string(name), theirs.writable());
    check(std::string(name).c_str(), whole(gradient, 1), whole(theirs, 1), largest);
  });
}

TEST_CASE("what a layer of attention drops is a function of seed and step") {
  if (sw::world().size() > 5) return;
  const EncoderReference reference;
  const auto of = [&](const Mesh& mesh, double dropout, auto... step) {
    Encoder encoder(mesh, dropout);
    sw::initialize(encoder, 1);
    const auto ids = sw::zeros<std::int64_t, sw::Replicate>(mesh, {2, 8});
    return whole(encoder(ids, ids, ids, ids, step...), 15);
  };
  const std::uint64_t first = 1, second = 2;
  const Dense none = of(reference.mesh, 0), dropped = of(reference.mesh, 0.5, first);
  CHECK(of(reference.mesh, 0.5) == none);
  CHECK(of(reference.mesh, 0, first) == none);
  CHECK(dropped != none);
  CHECK(of(reference.mesh, 0.5, second) != dropped);
  check("on every mesh", dropped, of(Mesh(sw::self(), {1}), 0.5, first));
}

}  // namespace
