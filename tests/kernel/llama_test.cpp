// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/activations.hpp"
#include "shardwise/kernel/normalise.hpp"
#include "shardwise/llm/models/rope_kernel.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

template <class T>
void check_rms_norm(double tolerance, double offset) {
  const Index rows = 3, cols = 37;
  const auto x = numbers<T>(rows * cols, 1), weight = numbers<T>(cols, 2), dy = numbers<T>(rows * cols, 3);
  Vector expected;
  for (Index r = 0; r < rows; ++r) {
    double squares = 0;
    for (Index c = 0; c < cols; ++c) squares += std::pow(static_cast<double>(x[at(r * cols + c)]), 2);
    for (Index c = 0; c < cols; ++c) {
      expected.push_back(static_cast<double>(x[at(r * cols + c)]) / std::sqrt(squares / cols + 0.1) *
                         (offset + static_cast<double>(weight[at(c)])));
    }
  }
  std::vector<T> y(x.size()), in_place = x, dx(x.size()), dx_alone = dy, dweight(weight.size()),
                              alone = dweight;
  std::vector<kernel::compute_t<T>> scales(at(rows));
  kernel::rms_norm(rows, cols, x.data(), weight.data(), 0.1, offset, y.data(), scales.data());
  CHECK(distance(y, expected) < tolerance);
  kernel::rms_norm(rows, cols, in_place.data(), weight.data(), 0.1, offset, in_place.data(), scales.data());
  CHECK(in_place == y);
  const auto backward = [&](const T* upstream, T* to_x, T* to_weight) {
    kernel::rms_norm_backward(rows, cols, x.data(), weight.data(), offset, scales.data(), upstream, to_x,
                              to_weight);
  };
  backward(dy.data(), dx.data(), dweight.data());
  backward(dx_alone.data(), dx_alone.data(), static_cast<T*>(nullptr));
  backward(dy.data(), nullptr, alone.data());
  CHECK(distance(dx_alone, dx) < tolerance);  // flags that regroup sums may round the two otherwise
  CHECK(alone == dweight);
}

TEST_CASE("rms_norm") {
  for (const double offset : {0., 1.}) {
    check_rms_norm<double>(1e-14, offset);
    check_rms_norm<float>(1e-6, offset);
    check_rms_norm<Eigen::bfloat16>(1. / 200, offset);
  }
}

/// `activation`: what F computes.
template <class F, class T>
void check_gated(double tolerance, double (*activation)(double)) {
  const Index n = 1003;
  const auto gate = numbers<T>(n, 1, 6), up = numbers<T>(n, 2), dy = numbers<T>(n, 3);
  std::vector<T> y(gate.size()), dgate = y, dup = y, dgate_alone = y, dup_alone = y;
  Vector expected, expected_gate, expected_up;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(gate[i]), u = static_cast<double>(up[i]),
                 d = static_cast<double>(dy[i]);
    expected.push_back(activation(g) * u);
    expected_gate.push_back(d * u * (activation(g + 1e-5) - activation(g - 1e-5)) / 2e-5);
    expected_up.push_back(d * activation(g));
  }
  kernel::gated<F>(n, gate.data(), up.data(), y.data());
  kernel::gated_backward<F>(n, gate.data(), up.data(), dy.data(), dgate.data(), dup.data());
  CHECK(distance(y, expected) < tolerance);
  CHECK(distance(dgate, expected_gate) < std::max(tolerance, 1e-8));
  CHECK(distance(dup, expected_up) < tolerance);
  kernel::gated_backward<F>(n, gate.data(), up.data(), dy.data(), dgate_alone.data(),
                            static_cast<T*>(nullptr));
  kernel::gated_backward<F>(n, gate.data(), up.data(), dy.data(), static_cast<T*>(nullptr), dup_alone.data());
  CHECK(distance(dgate_alone, dgate) <= tolerance);
  CHECK(distance(dup_alone, dup) <= tolerance);
}

template <class F>
void check_gated(double (*activation)(double)) {
  check_gated<F, double>(1e-14, activation);
  check_gated<F, float>(1e-6, activation);
  check_gated<F, Eigen::bfloat16>(1. / 200, activation);
}

TEST_CASE("gated activations") {
  check_gated<kernel::Silu>([](double x) { return x / (1 + std::exp(-x)); });
  check_gated<kernel::GeluTanh>(
      [](double x) { return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); });
}

TEST_CASE("the frequencies of rope") {
  CHECK(llm::kernel::rope_frequency(0, 64, 500000, {}) == 1);
  CHECK(llm::kernel::rope_frequency(16, 64, 10000, {}) == doctest::Approx(0.01));
  const llm::kernel::RopeScaling linear{.rope_type = llm::kernel::RopeType::linear, .factor = 4};
  CHECK(llm::kernel::rope_frequency(16, 64, 10000, linear) == doctest::Approx(0.0025));
  // The two ends of Llama 3.1's, and a wave that fits twice into the original positions: kept = (2 - 1) / 3.
  const llm::kernel::RopeScaling llama{.factor = 8};
  CHECK(llm::kernel::rope_frequency(0, 128, 500000, llama) == 1);
  CHECK(llm::kernel::rope_frequency(63, 128, 500000, llama) * 8 ==
        doctest::Approx(llm::kernel::rope_frequency(63, 128, 500000, {})));
  const double two_waves = 2 * 2 * std::acos(-1.) / 8192;
  CHECK(llm::kernel::rope_frequency(1, 2, std::pow(two_waves, -1.), llama) ==
        doctest::Approx(two_waves * (1. / 3 + 2. / 3 / 8)));
  // DeepSeek-V3: kept up to number 10, divided from number 23 on.
  const llm::kernel::RopeScaling yarn{.rope_type = llm::kernel::RopeType::yarn,
                                      .factor = 40,
                                      .original_max_position_embeddings = 4096,
                                      .mscale = 1,
                                      .mscale_all_dim = 1};
  const auto kept = [&](Index i) {
    return llm::kernel::rope_frequency(i, 64, 10000, yarn) / llm::kernel::rope_frequency(i, 64, 10000, {});
  };
  CHECK(kept(10) == 1);
  CHECK(kept(11) == doctest::Approx(12. / 13 + 1. / 13 / 40));
  CHECK(kept(23) == doctest::Approx(1. / 40));
  CHECK(yarn.amplitude() == 1);
  CHECK(llm::kernel::RopeScaling{.rope_type = llm::kernel::RopeType::yarn, .factor = 4}.amplitude() ==
        doctest::Approx(0.1 * std::log(4.) + 1));
}

template <class T>
void check_rope(double tolerance, Index first, double theta) {
  CAPTURE(first);
  const Index batch = 2, sequence = 5, heads = 3, d = 6;
  const auto x = numbers<T>(batch * sequence * heads * d, 1);
  Vector expected(x.size());
  for (Index row = 0; row < batch * sequence * heads; ++row) {
    for (Index i = 0; i < d / 2; ++i) {
      const double angle = static_cast<double>(first + row / heads % sequence) *
                           std::pow(theta, -2. * static_cast<double>(i) / static_cast<double>(d));
      const double a = static_cast<double>(x[at(row * d + i)]),
                   b = static_cast<double>(x[at(row * d + i + 3)]);
      expected[at(row * d + i)] = a * std::cos(angle) - b * std::sin(angle);
      expected[at(row * d + i + 3)] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  const auto turn = [&](llm::kernel::Rotation rotation, const T* from, T* to, bool accumulate) {
    llm::kernel::rope(batch, sequence, heads, {d, theta, {}}, first, rotation, from, to, accumulate);
  };
  auto y = x;
  turn(llm::kernel::Rotation::forward, y.data(), y.data(), false);
  CHECK(distance(y, expected) < tolerance);
  auto twice = y;
  turn(llm::kernel::Rotation::forward, x.data(), twice.data(), true);
  for (double& value : expected) value *= 2;
  CHECK(distance(twice, expected) < tolerance);
  turn(llm::kernel::Rotation::back, y.data(), y.data(), false);
  CHECK(distance(y, x) < 2 * tolerance);
}

TEST_CASE("rope: also when tables are made anew, extended, and replaced") {
  for (Index first : {0, 250, 256, 3, 100000, 0}) {
    for (double theta : {10000., 500., 100., 50., 20.}) {
      check_rope<double>(1e-13, first, theta);
      check_rope<float>(1e-6, first, theta);
    }
  }
  check_rope<Eigen::bfloat16>(1. / 100, 7, 10000);
  llm::kernel::rope<double>(0, 3, 2, {4, 100, {}}, 0, llm::kernel::Rotation::forward, nullptr, nullptr);
}

}  // namespace
