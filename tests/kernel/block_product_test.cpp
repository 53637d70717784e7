// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/weight_blocks.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

using kernel::Block4;
using kernel::Block8;
using kernel::numbers_per_block;

template <class Block>
std::vector<Block> quantised(Index rows, Index groups, const std::vector<float>& x) {
  std::vector<Block> w(at(rows * groups));
  kernel::quantise(rows, groups, x.data(), groups * numbers_per_block, w.data(), groups);
  return w;
}

template <class Block>
std::vector<float> dequantised(Index rows, Index groups, const std::vector<Block>& w) {
  std::vector<float> x(at(rows * groups * numbers_per_block));
  kernel::dequantise(rows, groups, w.data(), groups, x.data(), groups * numbers_per_block);
  return x;
}

/// The bytes of a block: a scale, then one byte for each of `values`.
std::vector<unsigned char> bytes(unsigned scale, const std::vector<int>& values) {
  std::vector<unsigned char> result{static_cast<unsigned char>(scale & 255),
                                    static_cast<unsigned char>(scale >> 8)};
  for (int value : values) result.push_back(static_cast<unsigned char>(value));
  return result;
}

template <class Block>
std::vector<unsigned char> bytes_of(const std::vector<float>& x) {
  const auto w = quantised<Block>(1, 1, x);
  std::vector<unsigned char> result(sizeof(Block));
  std::memcpy(result.data(), w.data(), sizeof(Block));
  return result;
}

TEST_CASE("blocks of 8 bits have ggml's bytes") {
  std::vector<float> x(32, 0.f);
  std::vector<int> values(32, 0);
  CHECK(bytes_of<Block8>(x) == bytes(0, values));
  // The scale is -254 / 127 = 2, 0x4000 in 16 bits. Ties are rounded away from zero.
  const float numbers_there[] = {-254, 253, 252.9f, 1, -1, 3, -3, 0.99f, -0.99f};
  const int there[] = {-127, 127, 126, 1, -1, 2, -2, 0, 0};
  std::copy(std::begin(numbers_there), std::end(numbers_there), x.begin() + 5);
  std::copy(std::begin(there), std::end(there), values.begin() + 5);
  CHECK(bytes_of<Block8>(x) == bytes(0x4000, values));
  // 1 / 127 is 0x1.0204p-7 and is rounded to 0x1.02p-7, after the division.
  x.assign(32, 0.f);
  values.assign(32, 0);
  x[31] = 1;
  values[31] = 127;
  x[0] = 0.5f;  // 63.5
  values[0] = 64;
  CHECK(bytes_of<Block8>(x) == bytes(0x2008, values));
}

TEST_CASE("blocks of 4 bits have ggml's bytes") {
  std::vector<float> x(32, 0.f);
  std::vector<int> pairs(16, 0x88);
  CHECK(bytes_of<Block4>(x) == bytes(0x8000, pairs));  // -0: zero divided by -8
  // The number of largest magnitude becomes -8: the scale is 12 / -8 = -1.5, 0xbe00 in 16 bits.
  x[3] = 12, x[3 + 16] = -12;  // -8, and 8, of which 7 is the nearest
  pairs[3] = 0xf0;
  x[4] = 1.5f, x[4 + 16] = -1.5f;
  pairs[4] = 0x97;
  x[5] = -0.75f, x[5 + 16] = 0.75f;  // ties: up
  pairs[5] = 0x89;
  x[15] = -10.5f, x[31] = 6;
  pairs[15] = 0x4f;
  CHECK(bytes_of<Block4>(x) == bytes(0xbe00, pairs));
  x.assign(32, 0.f);
  pairs.assign(16, 0x88);
  x[0] = -16, x[16] = 16;  // the first of several
  pairs[0] = 0xf0;
  CHECK(bytes_of<Block4>(x) == bytes(0x4000, pairs));
  x[0] = 0, x[16] = 0;
  x[15] = -2, x[20] = 16;  // the sign is that of the largest
  pairs[0] = 0x88, pairs[15] = 0x89, pairs[4] = 0x08;
  CHECK(bytes_of<Block4>(x) == bytes(0xc000, pairs));
}

TEST_CASE("blocks that a file has are read byte for byte") {
  Block8 eight;
  const auto of_eight = bytes(0x3800, {-128, 127, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                       0,    0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -3});
  std::memcpy(&eight, of_eight.data(), sizeof eight);
  std::vector<float> expected(32, 0.f);
  expected[0] = -64, expected[1] = 63.5f, expected[2] = 0.5f, expected[31] = -1.5f;
  CHECK(dequantised<Block8>(1, 1, {eight}) == expected);

  Block4 four;
  std::vector<int> pairs(16, 0x88);
  pairs[0] = 0xf0, pairs[15] = 0x19;
  const auto of_four = bytes(0xc000, pairs);  // -2
  std::memcpy(&four, of_four.data(), sizeof four);
  expected.assign(32, 0.f);
  expected[0] = 16, expected[16] = -14, expected[15] = -2, expected[31] = 14;
  CHECK(dequantised<Block4>(1, 1, {four}) == expected);
}

TEST_CASE_TEMPLATE("quantised numbers are within half a scale", Block, Block8, Block4) {
  const Index rows = 3, groups = 50;
  for (const double bound : {1e-9, 1e-3, 1., 4e5}) {
    CAPTURE(bound);
    const auto x = numbers<float>(rows * groups * numbers_per_block, 1, bound);
    const auto y = dequantised(rows, groups, quantised<Block>(rows, groups, x));
    Index wrong = 0;
    for (Index g = 0; g < rows * groups; ++g) {
      double largest = 0;
      const auto number = [&](Index i) { return at(g * numbers_per_block + i); };
      for (Index i = 0; i < numbers_per_block; ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(x[number(i)])));
      }
      // The scale has 11 bits, or is a multiple of 2^-24. The largest number of the other sign may be a scale off.
      const bool eight = std::is_same_v<Block, Block8>;
      const double scale = largest / (eight ? 127 : 8);
      const double rounding = std::max(largest / 2048, (eight ? 127 : 8) * 0x1p-25);
      for (Index i = 0; i < numbers_per_block; ++i) {
        const double error = std::abs(static_cast<double>(x[number(i)]) - static_cast<double>(y[number(i)]));
        wrong += !(error <= scale * (eight ? 0.5001 : 1.0001) + rounding);
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
