// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/random.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Philox4x32-10 gives the published answers") {  // kat_vectors of Random123
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t ones = 0xffffffffu;
  CHECK(kernel::philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(kernel::philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(kernel::philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}) ==
        Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

constexpr std::uint64_t seed = 0x123456789abcdef0u;
constexpr std::uint64_t far = (std::uint64_t{1} << 34) - 5;  // a block number that crosses 2^32

template <class T>
void check_runs() {
  constexpr Index n = 5000;
  std::vector<T> uniforms(at(n)), normals(at(n)), pieces(at(n)), normal_pieces(at(n));
  kernel::fill_uniform(n, seed, far, -2., 3., uniforms.data());
  kernel::fill_normal(n, seed, far, 1., 0.5, normals.data());
  for (Index begin = 0, length = 0; begin < n; begin += length, length = length % 1500 + 7) {
    const Index count = std::min(length, n - begin);
    kernel::fill_uniform(count, seed, far + static_cast<std::uint64_t>(begin), -2., 3.,
                         pieces.data() + begin);
    kernel::fill_normal(count, seed, far + static_cast<std::uint64_t>(begin), 1., 0.5,
                        normal_pieces.data() + begin);
  }
  CHECK(uniforms == pieces);
  CHECK(normals == normal_pieces);
  for (Index j = 0; j < n; ++j) {
    const std::uint64_t index = far + static_cast<std::uint64_t>(j);
    const auto rounded = [](double x) { return kernel::narrow<T>(static_cast<kernel::compute_t<T>>(x)); };
    CHECK(
        static_cast<double>(uniforms[at(j)]) ==
        doctest::Approx(static_cast<double>(rounded(-2 + 5 * kernel::uniform(seed, index)))).epsilon(1e-12));
    CHECK(
        static_cast<double>(normals[at(j)]) ==
        doctest::Approx(static_cast<double>(rounded(1 + 0.5 * kernel::normal(seed, index)))).epsilon(1e-12));
  }
}

TEST_CASE("a number depends on seed and index only, however a range is cut") {
  check_runs<double>();
  check_runs<float>();
  check_runs<Eigen::bfloat16>();
}

/// Mean, variance and fourth moment of numbers, and the mean product of neighbours, against what they should
/// be.
void check_moments(const std::vector<double>& x, double mean, double variance, double fourth) {
  double m = 0, v = 0, f = 0, product = 0;
  const double n = static_cast<double>(x.size());
  for (double value : x) m += value / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    v += std::pow(x[i] - m, 2) / n;
    f += std::pow(x[i] - m, 4) / n;
    product += (x[i] - m) * (x[i ^ 1] - m) / n;
  }
  CHECK(std::abs(m - mean) < 0.005);
  CHECK(std::abs(v - variance) < 0.005);
  CHECK(std::abs(f - fourth) < 0.05 * fourth);
  CHECK(std::abs(product) < 0.005);
}

TEST_CASE("all 64 bits of seed and index count, and kinds of numbers do not share them") {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flipped = std::uint64_t{1} << bit;
    CHECK(kernel::uniform(seed, 1) != kernel::uniform(seed ^ flipped, 1));
    CHECK(kernel::uniform(seed, 1) != kernel::uniform(seed, 1 ^ flipped));
  }
  const auto first = [](kernel::RandomStream stream) { return kernel::random_block(seed, stream, 0)[0]; };
  CHECK(first(kernel::RandomStream::uniform) != first(kernel::RandomStream::normal));
  CHECK(first(kernel::RandomStream::uniform) != first(kernel::RandomStream::dropout));
}

TEST_CASE("moments of the distributions") {
  constexpr Index n = 1 << 20;
  std::vector<double> x(at(n));
  kernel::fill_uniform(n, 1, 0, 0., 1., x.data());
  check_moments(x, 0.5, 1. / 12, 1. / 80);
  CHECK(*std::min_element(x.begin(), x.end()) >= 0);
  CHECK(*std::max_element(x.begin(), x.end()) < 1);
  kernel::fill_normal(n, 1, 0, 0., 1., x.data());
  check_moments(x, 0, 1, 3);
  std::vector<double> other(at(n));
  kernel::fill_normal(n, 2, 0, 0., 1., other.data());
  CHECK(x != other);
}

TEST_CASE("dropout keeps the mean, and backward drops the same elements") {
  constexpr Index n = 100000;
  const std::vector<float> x(at(n), 2.f);
  std::vector<float> y(at(n)), dy(at(n), 1.f);
  kernel::dropout(n, 0.3, seed, far, x.data(), y.data());
  kernel::dropout(n, 0.3, seed, far, dy.data(), dy.data());
  double mean = 0;
  for (Index i = 0; i < n; ++i) {
    const bool kept = kernel::dropout_keeps(0.3, seed, far + static_cast<std::uint64_t>(i));
    CHECK(y[at(i)] == (kept ? 2 * (1 / 0.7f) : 0.f));
    CHECK(dy[at(i)] == (kept ? 1 / 0.7f : 0.f));
    mean += static_cast<double>(y[at(i)]) / n;
  }
  CHECK(std::abs(mean - 2) < 0.03);
  std::vector<float> pieces(at(n));
  kernel::dropout(777, 0.3, seed, far, x.data(), pieces.data());
  kernel::dropout(n - 777, 0.3, seed, far + 777, x.data() + 777, pieces.data() + 777);
  CHECK(pieces == y);
  kernel::dropout(n, 0., seed, 0, x.data(), y.data());
  CHECK(y == x);
  const std::vector<float> infinite(at(n), std::numeric_limits<float>::infinity());
  kernel::dropout(n, 1., seed, 0, infinite.data(), y.data());
  CHECK(y == std::vector<float>(at(n)));
  kernel::dropout(0, 0.5, seed, 0, x.data(), y.data());
}

TEST_CASE("stochastic rounding goes to a neighbour, and keeps the mean") {
  constexpr Index n = 1 << 16;
  const auto rounded = [](float value, float second) {
    const std::vector<float> x(at(n), value), x2(at(n), second);
    std::vector<Eigen::bfloat16> y(at(n)), y2(at(n)), alone(at(n)), pieces(at(n));
    kernel::round_stochastically(n, seed, far, x.data(), y.data(), x2.data(), y2.data());
    kernel::round_stochastically(n, seed, far, x.data(), alone.data());
    kernel::round_stochastically(777, seed, far, x.data(), pieces.data());
    kernel::round_stochastically(n - 777, seed, far + 777, x.data() + 777, pieces.data() + 777);
    const auto same = [](const auto& a, const auto& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](auto p, auto q) { return p.value == q.value; });
    };
    CHECK(same(y, alone));
    CHECK(same(y, pieces));
    y.insert(y.end(), y2.begin(), y2.end());
    return y;
  };
  // A tenth, a half, and nearly all of the way from one neighbour to the next; a denormal, and a negative number.
  for (const double part : {0.1, 0.5, 0.999}) {
    for (const double low : {1., 1.9921875, 0x1p-20, 0x1p-130, -3., 1e30}) {
      const double below = kernel::widen(kernel::narrow<Eigen::bfloat16>(static_cast<float>(low)));
      const auto next =
          static_cast<std::uint16_t>(kernel::narrow<Eigen::bfloat16>(static_cast<float>(low)).value + 1);
      const double above = kernel::widen(Eigen::bfloat16(Eigen::bfloat16_impl::raw_uint16_to_bfloat16(next)));
      if (low == 0x1p-130 && below == 0) continue;  // this build flushes denormals to 0
      const auto x = static_cast<float>(below + part * (above - below));
      const auto y = rounded(x, -x);
      const double exact = (static_cast<double>(x) - below) / (above - below);
      for (int half = 0; half < 2; ++half) {  // the second is the negative number
        Index ups = 0, others = 0;
        for (Index i = 0; i < n; ++i) {
          const double value = (half == 0 ? 1 : -1) * static_cast<double>(kernel::widen(y[at(half * n + i)]));
          ups += value == above ? 1 : 0;
          others += value != above && value != below ? 1 : 0;
        }
        CHECK(others == 0);
        CHECK(std::abs(static_cast<double>(ups) - exact * n) <= 5 * std::sqrt(exact * (1 - exact) * n));
      }
    }
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto y = rounded(infinity, std::numeric_limits<float>::quiet_NaN()), exact = rounded(0.f, -1.5f);
  for (Index i = 0; i < n; ++i) {
    CHECK(kernel::widen(y[at(i)]) == infinity);
    CHECK(std::isnan(kernel::widen(y[at(n + i)])));
    CHECK(exact[at(i)].value == 0);
    CHECK(kernel::widen(exact[at(n + i)]) == -1.5f);
  }
}

}  // namespace
