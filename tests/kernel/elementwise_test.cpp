// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/activations.hpp"
#include "shardwise/kernel/arithmetic.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

namespace reference {
double cube(double x) { return x * x * x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double relu(double x) { return std::max(x, 0.); }
double gelu(double x) { return x / 2 * std::erfc(-x / std::sqrt(2.)); }
double gelu_tanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.)) * (x + 0.044715 * cube(x))));
}
double silu(double x) { return x * sigmoid(x); }
double softplus(double x) { return std::max(x, 0.) + std::log1p(std::exp(-std::abs(x))); }
}  // namespace reference

template <class T>
std::vector<T> grid(double low, double high, Index n) {
  std::vector<T> x(at(n));
  for (Index i = 0; i < n; ++i)
    x[at(i)] = static_cast<T>(low + (high - low) * static_cast<double>(i) / static_cast<double>(n - 1));
  return x;
}

template <class F, class T>
void check_activation(const char* name, double (*f)(double), double tolerance) {
  CAPTURE(std::string(name));
  for (double range : {0.01, 1., 5., 50.}) {
    const auto x = grid<T>(-range, range, 1003);
    std::vector<T> y(x.size()), dx(x.size());
    const auto dy = numbers<T>(1003, 4);
    Vector expected, gradient;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double value = static_cast<double>(x[i]), step = 1e-5 * std::max(1., range / 50);
      expected.push_back(f(value));
      gradient.push_back(static_cast<double>(dy[i]) * (f(value + step) - f(value - step)) / (2 * step));
    }
    const auto n = static_cast<Index>(x.size());
    kernel::activate<F>(n, x.data(), y.data());
    CAPTURE(range);
    CHECK(distance(y, expected) < tolerance);
    kernel::activate_backward<F>(n, F::saves_output ? y.data() : x.data(), dy.data(), dx.data());
    gradient[501] = static_cast<double>(dx[501]);  // x = 0, where relu has no derivative
    CHECK(distance(dx, gradient) < std::max(1e-8, 10 * tolerance));
    auto in_place = x;
    kernel::activate<F>(n, in_place.data(), in_place.data());
    CHECK(std::equal(y.begin(), y.end(), in_place.begin()));
    kernel::activate<F>(0, static_cast<const T*>(nullptr), static_cast<T*>(nullptr));
  }
}

template <class T>
void check_activations(double tolerance) {
  check_activation<kernel::Relu, T>("Relu", reference::relu, tolerance);
  check_activation<kernel::Tanh, T>(
      "Tanh", [](double x) { return std::tanh(x); }, tolerance);
  check_activation<kernel::Gelu, T>("Gelu", reference::gelu, tolerance);
  check_activation<kernel::GeluTanh, T>("GeluTanh", reference::gelu_tanh, tolerance);
  check_activation<kernel::Silu, T>("Silu", reference::silu, tolerance);
  check_activation<kernel::Sigmoid, T>("Sigmoid", reference::sigmoid, tolerance);
  check_activation<kernel::Softplus, T>("Softplus", reference::softplus, tolerance);
  check_activation<kernel::Abs, T>(
      "Abs", [](double x) { return std::abs(x); }, tolerance);
}

TEST_CASE("activations and their gradients") {
  check_activations<double>(2e-15);
  check_activations<float>(2.5e-7);
  check_activations<Eigen::bfloat16>(1. / 250);
}

TEST_CASE("activations of infinity and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  const Vector x{inf, std::nan("")};
  Vector y(2);
  const auto first = [&](auto activation) {
    kernel::activate<decltype(activation)>(2, x.data(), y.data());
    CHECK(std::isnan(y[1]));
    return y[0];
  };
  CHECK(first(kernel::Relu{}) == inf);
  CHECK(first(kernel::Tanh{}) == 1);
  CHECK(first(kernel::Gelu{}) == inf);
  CHECK(first(kernel::GeluTanh{}) == inf);
  CHECK(first(kernel::Silu{}) == inf);
  CHECK(first(kernel::Sigmoid{}) == 1);
  CHECK(first(kernel::Softplus{}) == inf);
  CHECK(first(kernel::Log{}) == inf);
  CHECK(kernel::softplus(-inf) == 0);
}

template <class C>
void check_elementary(double ulps) {
  const double unit = std::numeric_limits<C>::epsilon();
  const double range = std::is_same_v<C, float> ? 86 : 700;
  for (int i = -5000; i <= 5000; ++i) {
    const C x = static_cast<C>(range * i / 5000);
    const double wide = static_cast<double>(x);
    CHECK(std::abs(static_cast<double>(kernel::exp(x)) / std::exp(wide) - 1) < ulps * unit);
    for (const C of : {kernel::exp(x), 1 + x / static_cast<C>(1000 * range)}) {
      const double logarithm = std::log(static_cast<double>(of));
      CHECK(std::abs(static_cast<double>(kernel::log(of)) - logarithm) <= ulps * unit * std::abs(logarithm));
    }
    const double soft = reference::softplus(wide);
    CHECK(std::abs(static_cast<double>(kernel::softplus(x)) - soft) <= 2 * ulps * unit * soft);
    const C small = x / static_cast<C>(range / 4);
    CHECK(std::abs(static_cast<double>(kernel::tanh(small)) - std::tanh(static_cast<double>(small))) <=
          ulps * unit * std::abs(std::tanh(static_cast<double>(small))));
  }
  constexpr C inf = std::numeric_limits<C>::infinity();
  CHECK(kernel::exp(inf) == inf);
  CHECK(kernel::exp(-inf) == 0);
  CHECK(kernel::exp(C{0}) == 1);
  CHECK(std::isnan(kernel::exp(std::numeric_limits<C>::quiet_NaN())));
  CHECK(kernel::log(C{0}) == -inf);
  CHECK(kernel::log(C{1}) == 0);
  CHECK(std::isnan(kernel::log(C{-1})));
}

TEST_CASE("exp, log, softplus and tanh to a few units in the last place") {
  check_elementary<float>(2);
  check_elementary<double>(3);
}

TEST_CASE("arithmetic") {
  const Index n = 77;
  const Vector a = numbers(n, 1), b = numbers(n, 2);
  Vector y(at(n));
  const auto agrees = [&](const Vector& result, auto f) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (std::abs(result[i] - f(i)) > 1e-15) return false;
    }
    return true;
  };
  kernel::add(n, a.data(), b.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return a[i] + b[i]; }));
  kernel::accumulate(n, a.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return 2 * a[i] + b[i]; }));
  kernel::subtract(n, a.data(), b.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return a[i] - b[i]; }));
  kernel::accumulate_scaled(n, 3, b.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return a[i] + 2 * b[i]; }));
  kernel::multiply(n, a.data(), b.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return a[i] * b[i]; }));
  kernel::scale(n, -2, a.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return -2 * a[i]; }));
  kernel::fill(n, 7, y.data());
  CHECK(agrees(y, [&](std::size_t) { return 7.; }));
  kernel::copy(n, a.data(), y.data());
  CHECK(agrees(y, [&](std::size_t i) { return a[i]; }));
  for (const Index columns : {Index{11}, Index{1}}) {
    kernel::subtract(columns, a.data(), b.data(), y.data(), n / columns);
    CHECK(agrees(y, [&](std::size_t i) { return a[i] - b[i % at(columns)]; }));
  }
  kernel::copy(n, a.data(), y.data());
  kernel::add(11, y.data(), b.data(), y.data(), 7);
  CHECK(agrees(y, [&](std::size_t i) { return a[i] + b[i % 11]; }));
}

TEST_CASE("bfloat16 is rounded to nearest, ties to even, as Eigen does") {
  for (float x : {1.f, 1.00390625f, 1.01171875f, 1.0039063f, -3.3e38f, 3.4e38f, 1e-40f, 0.1f, -0.f}) {
    CHECK(kernel::narrow<Eigen::bfloat16>(x).value == Eigen::bfloat16(x).value);
    CHECK(kernel::widen(Eigen::bfloat16(x)) == static_cast<float>(Eigen::bfloat16(x)));
  }
  CHECK(std::isnan(kernel::widen(kernel::narrow<Eigen::bfloat16>(std::nanf("")))));
}

}  // namespace
