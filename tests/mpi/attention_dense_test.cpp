// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A block of attention whose heads are split over the ranks, evenly or not, against the same computed densely: output,
/// and the gradients of the input and of all parameters.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

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

}  // namespace
