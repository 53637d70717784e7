// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/cross_entropy.hpp"
#include "shardwise/kernel/normalise.hpp"
#include "shardwise/kernel/reduce.hpp"
#include "shardwise/kernel/softmax.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

struct Extents {
  Index outer, n, inner;
};
const Extents all_extents[] = {{1, 1, 1}, {3, 150, 1}, {2, 5, 7}, {2, 131, 300},
                               {0, 4, 3}, {2, 0, 3},   {2, 4, 0}, {4, 0, 1}};
const Extents small_extents[] = {{3, 9, 1}, {2, 5, 4}};

/// Calls f(o, i, elements over the middle extent) and collects what it returns.
template <class T, class F>
Vector naive(const Extents& e, const std::vector<T>& x, F f) {
  Vector result;
  for (Index o = 0; o < e.outer; ++o) {
    for (Index i = 0; i < e.inner; ++i) {
      Vector line;
      for (Index k = 0; k < e.n; ++k) line.push_back(static_cast<double>(x[at((o * e.n + k) * e.inner + i)]));
      result.push_back(f(line));
    }
  }
  return result;
}

double plain_sum(const Vector& x) {
  double total = 0;
  for (double v : x) total += v;
  return total;
}
double plain_squares(const Vector& x) {
  double total = 0;
  for (double v : x) total += v * v;
  return total;
}
double plain_norm(const Vector& x) { return std::sqrt(plain_squares(x)); }
double plain_max(const Vector& x) {
  double largest = -HUGE_VAL;
  for (double v : x) largest = std::max(largest, v);
  return largest;
}

template <class T>
void check_reductions(double tolerance) {
  for (const Extents& e : all_extents) {
    CAPTURE(e.n);
    CAPTURE(e.inner);
    const auto x = numbers<T>(e.outer * e.n * e.inner, 5);
    std::vector<T> y(at(e.outer * e.inner));
    kernel::sum(e.outer, e.n, e.inner, x.data(), y.data());
    CHECK(distance(y, naive(e, x, plain_sum)) <= tolerance);
    kernel::sum_squares(e.outer, e.n, e.inner, x.data(), y.data());
    CHECK(distance(y, naive(e, x, plain_squares)) <= tolerance);
    kernel::norm(e.outer, e.n, e.inner, x.data(), y.data());
    CHECK(distance(y, naive(e, x, plain_norm)) <= tolerance);
    kernel::max(e.outer, e.n, e.inner, x.data(), y.data());
    const Vector largest = naive(e, x, plain_max);
    CHECK(std::equal(y.begin(), y.end(), largest.begin(),
                     [](T p, double q) { return static_cast<double>(p) == q; }));
  }
}

TEST_CASE("sum, squares, norm and max agree with plain loops") {
  check_reductions<double>(1e-14);
  check_reductions<float>(1e-6);
  check_reductions<Eigen::bfloat16>(1. / 250);
}

/// x: [2, n, inner] with a NaN of either sign at each place in turn; the two results, and the gradients, of that line.
template <class T>
void check_max_of_nan(Index n, Index inner) {
  CAPTURE(n);
  CAPTURE(inner);
  const double inf = std::numeric_limits<double>::infinity();
  for (Index place = 0; place < n; ++place) {
    const double nan =
        place % 2 ? -std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::quiet_NaN();
    auto x = numbers<T>(2 * n * inner, 5);
    x[at(0)] = static_cast<T>(inf);
    x[at(place * inner)] = static_cast<T>(nan);
    std::vector<T> y(at(2 * inner)), dx(x.size());
    const std::vector<T> dy(y.size(), static_cast<T>(5));
    kernel::max(2, n, inner, x.data(), y.data());
    Index nans = 0;
    for (const T value : y) nans += value != value;
    CHECK(y[0] != y[0]);
    CHECK(nans == 1);
    kernel::max_backward(2, n, inner, x.data(), y.data(), dy.data(), dx.data());
    CHECK(dx[at(place * inner)] == static_cast<T>(5));
    CHECK(std::count(dx.begin(), dx.end(), static_cast<T>(5)) == 2 * inner);
  }
}

TEST_CASE("max: NaN wherever an element is NaN, whose place gets the gradient") {
  for (const Extents& e : {Extents{2, 1, 1}, {2, 3, 1}, {2, 150, 1}, {2, 5, 7}, {2, 3, 300}}) {
    check_max_of_nan<double>(e.n, e.inner);
    check_max_of_nan<float>(e.n, e.inner);
    check_max_of_nan<Eigen::bfloat16>(e.n, e.inner);
  }
  const Vector nans(2100, std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(kernel::max(2100, nans.data())));
  Vector x(2100, 1.);  // more than one chunk
  x[3] = nans[0];
  CHECK(std::isnan(kernel::max(2100, x.data())));
}

TEST_CASE("softmax and cross entropy carry NaN") {
  for (const Index place : {0, 1, 2, 40}) {
    Vector x(50, 1.), y(50);
    x[at(place)] = std::numeric_limits<double>::quiet_NaN();
    kernel::softmax(1, 50, 1, x.data(), y.data());
    CHECK(std::isnan(y[0] + y[49]));
    kernel::softmax(1, 25, 2, x.data(), y.data());
    CHECK(std::isnan(y[at(place % 2)] + y[at(place % 2 + 48)]));
    CHECK(!std::isnan(y[at(1 - place % 2)]));
    CHECK(std::isnan(kernel::detail::maximum_and_sum(50, x.data()).sum));
  }
}

TEST_CASE("a long float sum loses no digits") {
  const std::vector<float> x(3000000, 0.1f);
  const double expected = 3e6 * static_cast<double>(0.1f);
  CHECK(std::abs(kernel::sum(3000000, x.data()) / expected - 1) < 1e-6);
  std::vector<float> y(3);
  kernel::sum(1, 1000000, 3, x.data(), y.data());
  CHECK(std::abs(static_cast<double>(y[2]) / expected * 3 - 1) < 1e-4);
}

TEST_CASE("gradients of reductions") {
  for (const Extents& e : small_extents) {
    const Index size = e.outer * e.n * e.inner, results = e.outer * e.inner;
    const Vector x = numbers(size, 6), dy = numbers(results, 7);
    Vector y(at(results)), dx(at(size));
    const auto by = [&](auto f) {
      return finite_differences(x, dy, [&](const Vector& v) {
        Vector out(at(results));
        f(v.data(), out.data());
        return out;
      });
    };
    kernel::sum_backward(e.outer, e.n, e.inner, dy.data(), 0.5, dx.data());
    CHECK(distance(dx, by([&](const double* v, double* out) {
                     kernel::sum(e.outer, e.n, e.inner, v, out);
                     kernel::scale(results, 0.5, out, out);
                   })) < 1e-8);
    kernel::sum_squares_backward(e.outer, e.n, e.inner, x.data(), dy.data(), 2, dx.data());
    CHECK(distance(dx, by([&](const double* v, double* out) {
                     kernel::sum_squares(e.outer, e.n, e.inner, v, out);
                   })) < 1e-8);
    kernel::norm(e.outer, e.n, e.inner, x.data(), y.data());
    kernel::norm_backward(e.outer, e.n, e.inner, x.data(), y.data(), dy.data(), dx.data());
    CHECK(distance(dx, by([&](const double* v, double* out) {
                     kernel::norm(e.outer, e.n, e.inner, v, out);
                   })) < 1e-8);
    kernel::max(e.outer, e.n, e.inner, x.data(), y.data());
    kernel::max_backward(e.outer, e.n, e.inner, x.data(), y.data(), dy.data(), dx.data());
    CHECK(distance(dx, by([&](const double* v, double* out) {
                     kernel::max(e.outer, e.n, e.inner, v, out);
                   })) < 1e-8);
  }
  const Vector x{1, 3, 3, 2}, one{5};
  const Vector largest{3};
  Vector dx(4);
  kernel::max_backward(1, 4, 1, x.data(), largest.data(), one.data(), dx.data());
  CHECK(dx == Vector{0, 5, 0, 0});
  const Vector zeros(4), zero(1);
  kernel::norm_backward(1, 4, 1, zeros.data(), zero.data(), one.data(), dx.data());
  CHECK(dx == zeros);
}

template <class T>
void check_sum_rows(double tolerance) {
  for (Index rows : {0, 1, 3, 67, 200}) {
    for (Index cols : {0, 1, 9, 300}) {
      const auto dy = numbers<T>(rows * cols, 8);
      auto dbias = numbers<T>(cols, 9);
      Vector expected = naive({1, rows, cols}, dy, plain_sum), added = expected;
      for (Index c = 0; c < cols; ++c) added[at(c)] += static_cast<double>(dbias[at(c)]);
      kernel::sum_rows(rows, cols, dy.data(), dbias.data(), true);
      CHECK(distance(dbias, added) <= tolerance);
      kernel::sum_rows(rows, cols, dy.data(), dbias.data(), false);
      CHECK(distance(dbias, expected) <= tolerance);
    }
  }
}

TEST_CASE("sum_rows, written and added") {
  check_sum_rows<double>(1e-14);
  check_sum_rows<float>(1e-6);
  check_sum_rows<Eigen::bfloat16>(1. / 250);
}

template <class T>
void check_softmax(double tolerance) {
  for (const Extents& e : all_extents) {
    auto x = numbers<T>(e.outer * e.n * e.inner, 10);
    for (T& v : x)
      v = static_cast<T>(100 * static_cast<double>(v) + 1000);  // overflows unless the maximum is subtracted
    std::vector<T> y(x.size());
    kernel::softmax(e.outer, e.n, e.inner, x.data(), y.data());
    Vector expected(x.size());
    for (Index o = 0; o < e.outer; ++o) {
      for (Index i = 0; i < e.inner; ++i) {
        double total = 0, largest = -HUGE_VAL;
        const auto position = [&](Index k) { return at((o * e.n + k) * e.inner + i); };
        for (Index k = 0; k < e.n; ++k) largest = std::max(largest, static_cast<double>(x[position(k)]));
        for (Index k = 0; k < e.n; ++k) total += std::exp(static_cast<double>(x[position(k)]) - largest);
        for (Index k = 0; k < e.n; ++k)
          expected[position(k)] = std::exp(static_cast<double>(x[position(k)]) - largest) / total;
      }
    }
    CHECK(distance(y, expected) <= tolerance);
    kernel::softmax(e.outer, e.n, e.inner, x.data(), x.data());
    CHECK(std::equal(x.begin(), x.end(), y.begin()));
  }
}

TEST_CASE("softmax agrees with plain loops") {
  check_softmax<double>(1e-14);
  check_softmax<float>(1e-6);
  check_softmax<Eigen::bfloat16>(1. / 250);
}

TEST_CASE("softmax of masked rows") {
  const double inf = std::numeric_limits<double>::infinity();
  const Vector x{-inf, 0, -inf, 0, -inf, -inf, -inf, -inf};
  Vector y(8);
  kernel::softmax(2, 4, 1, x.data(), y.data());
  CHECK(y == Vector{0, 0.5, 0, 0.5, 0, 0, 0, 0});
  kernel::softmax(1, 2, 4, x.data(), y.data());
  CHECK(y == Vector{0, 1, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("the gradient of softmax") {
  for (const Extents& e : small_extents) {
    const Index size = e.outer * e.n * e.inner;
    const Vector x = numbers(size, 11), dy = numbers(size, 12);
    Vector y(at(size)), dx(at(size));
    kernel::softmax(e.outer, e.n, e.inner, x.data(), y.data());
    kernel::softmax_backward(e.outer, e.n, e.inner, y.data(), dy.data(), dx.data());
    CHECK(distance(dx, finite_differences(x, dy, [&](const Vector& v) {
                     Vector out(at(size));
                     kernel::softmax(e.outer, e.n, e.inner, v.data(), out.data());
                     return out;
                   })) < 1e-8);
  }
}

template <class T>
void check_layer_norm(double tolerance) {
  using C = kernel::compute_t<T>;
  for (Index rows : {0, 1, 5}) {
    for (Index cols : {0, 1, 7, 100}) {
      auto x = numbers<T>(rows * cols, 13);
      for (T& v : x) v = static_cast<T>(static_cast<double>(v) + 3);
      const auto gamma = numbers<T>(cols, 14), beta = numbers<T>(cols, 15);
      std::vector<T> y(x.size());
      std::vector<C> stats(at(3 * rows));
      kernel::layer_norm(rows, cols, x.data(), gamma.data(), beta.data(), static_cast<C>(1e-3), y.data(),
                         stats.data());
      Vector expected, expected_stats;
      for (Index r = 0; r < rows; ++r) {
        const auto element = [&](Index c) { return static_cast<double>(x[at(r * cols + c)]); };
        double mean = 0, variance = 0;
        for (Index c = 0; c < cols; ++c) mean += element(c) / static_cast<double>(cols);
        for (Index c = 0; c < cols; ++c)
          variance += std::pow(element(c) - mean, 2) / static_cast<double>(cols);
        const double deviation = std::sqrt(variance + static_cast<double>(static_cast<C>(1e-3)));
        for (Index c = 0; c < cols; ++c) {
          expected.push_back((element(c) - mean) / deviation * static_cast<double>(gamma[at(c)]) +
                             static_cast<double>(beta[at(c)]));
        }
        expected_stats.insert(expected_stats.end(), {mean, 0, 1 / deviation});
      }
      CHECK(distance(y, expected) <= tolerance);
      CHECK(distance(stats, expected_stats) <= tolerance);
    }
  }
}

TEST_CASE("layer_norm agrees with plain loops") {
  check_layer_norm<double>(1e-14);
  check_layer_norm<float>(2e-6);
  check_layer_norm<Eigen::bfloat16>(1. / 250);
}

TEST_CASE("the gradients of layer_norm") {
  const Index rows = 4, cols = 9;
  const Vector x = numbers(rows * cols, 16), gamma = numbers(cols, 17), beta = numbers(cols, 18),
               dy = numbers(rows * cols, 19);
  Vector y(x.size()), stats(at(3 * rows)), dx(x.size()), dgamma(at(cols)), dbeta(at(cols));
  const auto run = [&](const Vector& v, const Vector& g, const Vector& b) {
    Vector out(v.size());
    kernel::layer_norm(rows, cols, v.data(), g.data(), b.data(), 1e-3, out.data(), stats.data());
    return out;
  };
  y = run(x, gamma, beta);
  kernel::layer_norm_backward(rows, cols, x.data(), gamma.data(), stats.data(), dy.data(), dx.data(),
                              dgamma.data(), dbeta.data());
  const Vector saved = stats;
  CHECK(distance(dx, finite_differences(x, dy, [&](const Vector& v) { return run(v, gamma, beta); })) < 1e-8);
  CHECK(distance(dgamma, finite_differences(gamma, dy, [&](const Vector& v) { return run(x, v, beta); })) <
        1e-8);
  CHECK(distance(dbeta, finite_differences(beta, dy, [&](const Vector& v) { return run(x, gamma, v); })) <
        1e-8);
  double* const unwanted = nullptr;
  Vector again(x.size()), again_gamma(at(cols)), again_beta(at(cols));
  kernel::layer_norm_backward(rows, cols, x.data(), gamma.data(), saved.data(), dy.data(), again.data(),
                              unwanted, unwanted);
  kernel::layer_norm_backward(rows, cols, x.data(), gamma.data(), saved.data(), dy.data(), unwanted,
                              again_gamma.data(), unwanted);
  kernel::layer_norm_backward(rows, cols, x.data(), gamma.data(), saved.data(), dy.data(), unwanted, unwanted,
                              again_beta.data());
  CHECK(again == dx);
  CHECK(again_gamma == dgamma);
  CHECK(again_beta == dbeta);
}

/// Numbers that differ in their last few places: their deviations from the mean, exact in long double.
template <class T>
void check_last_places(const std::vector<T>& x) {
  using C = kernel::compute_t<T>;
  const Index n = std::ssize(x);
  CAPTURE(static_cast<double>(x[0]));
  long double mean = 0, squares = 0;
  for (const T value : x) mean += static_cast<long double>(value);
  mean /= n;
  Vector off, normal, slopes;
  for (const T value : x) off.push_back(static_cast<double>(static_cast<long double>(value) - mean));
  for (const double d : off) squares += d * d;
  const double expected = static_cast<double>(squares / n);
  for (const double d : off) {
    normal.push_back(expected == 0 ? 0 : d / std::sqrt(expected));
    slopes.push_back(2 / static_cast<double>(n) * d);
  }
  const double tolerance = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const Index inner : {1, 3}) {
    std::vector<T> columns, y(at(inner)), dx(at(inner * n));
    for (const T value : x) columns.insert(columns.end(), at(inner), value);
    std::vector<C> means(at(2 * inner));
    const std::vector<T> dy(y.size(), T{1});
    kernel::variance(1, n, inner, static_cast<double>(n), columns.data(), means.data(), y.data());
    CHECK(static_cast<double>(y[0]) == doctest::Approx(expected).epsilon(tolerance));
    kernel::variance_backward(1, n, inner, static_cast<double>(n), columns.data(), means.data(), dy.data(),
                              dx.data());
    double wrong = 0;
    for (Index k = 0; k < n; ++k)
      wrong = std::max(wrong, std::abs(static_cast<double>(dx[at(k * inner)]) - slopes[at(k)]));
    CHECK(wrong <= tolerance * 2 * std::sqrt(expected));
  }
  const std::vector<T> one(x.size(), T{1}), zero(x.size(), T{0});
  std::vector<T> y(x.size()), dx(x.size()), dgamma(x.size()), dbeta(x.size());
  std::vector<C> stats(3);
  kernel::layer_norm(1, n, x.data(), one.data(), zero.data(), C{0}, y.data(), stats.data());
  if (expected == 0) return;
  CHECK(distance(y, normal) <= tolerance);
  kernel::layer_norm_backward(1, n, x.data(), one.data(), stats.data(), one.data(), dx.data(), dgamma.data(),
                              dbeta.data());
  CHECK(distance(dgamma, normal) <= tolerance);
}

TEST_CASE("variance and layer_norm of numbers that differ in their last places") {
  check_last_places<float>({1e8f, 1e8f + 8, 1e8f - 8, 1e8f + 16});  // 80, not 96
  check_last_places<float>({-11, -11 + 2e-6f, -11, -11});
  std::vector<float> times;
  for (int minute = 0; minute < 10; ++minute) times.push_back(static_cast<float>(1.79e9 + 60. * minute));
  check_last_places(times);  // 32768, not 49152
  check_last_places(std::vector<float>(3000, 0.1f));
  std::vector<float> one_differs(3000, 1000.1f);
  one_differs[1700] = std::nextafter(1000.1f, 0.f);
  check_last_places(one_differs);
  check_last_places<double>({1e17, 1e17 + 16, 1e17 - 16, 1e17 + 32});
  check_last_places<double>({-11, -11 + 4e-15, -11, -11});
}

}  // namespace
