// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What Shardwise costs: its MLP and its attention block against the same ones written by hand, as an expert
/// would, with raw MPI, buffers that are allocated once, in place where that is possible, and the same kernels.
/// Both start from the same parameters; in the end their outputs, gradients and parameters are compared.

#include <cmath>
#include <string>

#include "support.hpp"

namespace sw = shardwise;
namespace kernel = shardwise::kernel;
using sw::Index;

namespace {

using Mesh = sw::Mesh<sw::tp>;
using Matrix = sw::RowMajorMatrix<float>;
constexpr float rate = 0.1f;

// ---- By hand ---------------------------------------------------------------------------------------------------

/// A layer's parameters and their gradients, as plain matrices.
struct Layer {
  Matrix weight, bias, weight_gradient, bias_gradient;

  template <class Linear>
  explicit Layer(const Linear& linear)
      : weight(local(linear.weight)),
        bias(local(linear.bias)),
        weight_gradient(weight.rows(), weight.cols()),
        bias_gradient(1, bias.cols()) {}

  /// The local block as [out, in], whatever number of dimensions each has.
  template <class Linear>
  static Layer of(const Linear& linear, Index in) {
    Layer layer(linear);
    layer.weight.resize(layer.weight.size() / in, in);
    layer.weight_gradient.resize(layer.weight.rows(), in);
    return layer;
  }

  Index in() const { return weight.cols(); }
  Index out() const { return weight.rows(); }

  /// y = x · wᵀ
  void multiply(const Matrix& x, Matrix& y) const {
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::yes, x.rows(), out(), in(), x.data(), in(),
                 weight.data(), in(), y.data(), out(), false);
  }
  void add_bias(Matrix& y) const { kernel::add_rows(y.rows(), y.cols(), bias.data(), y.data()); }

  /// The gradients of weight and bias.
  void gradients(const Matrix& dy, const Matrix& x) {
    kernel::gemm(kernel::Transpose::yes, kernel::Transpose::no, out(), in(), x.rows(), dy.data(), out(), x.data(),
                 in(), weight_gradient.data(), in(), false);
    kernel::sum_rows(dy.rows(), dy.cols(), dy.data(), bias_gradient.data(), false);
  }
  /// dx (+)= dy · w
  void input_gradient(const Matrix& dy, Matrix& dx, bool accumulate = false) const {
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, dy.rows(), in(), out(), dy.data(), out(),
                 weight.data(), in(), dx.data(), in(), accumulate);
  }
  void update() {
    kernel::sgd_update<float>(weight.size(), weight.data(), weight_gradient.data(), nullptr, rate, 0);
    kernel::sgd_update<float>(bias.size(), bias.data(), bias_gradient.data(), nullptr, rate, 0);
  }

 private:
  template <class Parameter>
  static Matrix local(const Parameter& parameter) {
    const auto& value = parameter.value();
    Matrix m = Eigen::Map<const Matrix>(value.data(), 1, value.view().elements());
    return m;
  }
};

void all_reduce(Matrix& m) {
  MPI_Allreduce(MPI_IN_PLACE, m.data(), static_cast<int>(m.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/// Half the mean square of y, and in dy its gradient.
float loss_of(const Matrix& y, Matrix& dy) {
  float squares = 0;
  kernel::sum_squares(1, y.size(), 1, y.data(), &squares);
  kernel::scale(y.size(), 1 / static_cast<float>(y.size()), y.data(), dy.data());
  return squares * 0.5f / static_cast<float>(y.size());
}

class MlpByHand {
 public:
  template <class Model>
  MlpByHand(const Model& model, const Matrix& input)
      : x(input),
        up(Layer::of(model.up, input.cols())),
        down(Layer::of(model.down, up.out())),
        h_(x.rows(), up.out()),
        a_(x.rows(), up.out()),
        y(x.rows(), down.out()),
        dy_(y.rows(), y.cols()),
        dh_(x.rows(), up.out()),
        dx(x.rows(), x.cols()) {}

  void forward() {
    up.multiply(x, h_);
    up.add_bias(h_);
    kernel::activate<kernel::Gelu>(h_.size(), h_.data(), h_.data());
    finish(h_);
  }
  float step() {
    up.multiply(x, h_);
    up.add_bias(h_);
    kernel::activate<kernel::Gelu>(h_.size(), h_.data(), a_.data());
    finish(a_);
    const float loss = loss_of(y, dy_);
    down.gradients(dy_, a_);
    down.input_gradient(dy_, dh_);
    kernel::activate_backward<kernel::Gelu>(h_.size(), h_.data(), dh_.data(), dh_.data());
    up.gradients(dh_, x);
    up.input_gradient(dh_, dx);
    all_reduce(dx);
    up.update();
    down.update();
    return loss;
  }

  const Matrix x;
  Layer up, down;

 private:
  void finish(const Matrix& a) {
    down.multiply(a, y);
    all_reduce(y);
    down.add_bias(y);
  }
  Matrix h_, a_;

 public:
  Matrix y;

 private:
  Matrix dy_, dh_;

 public:
  Matrix dx;
};
