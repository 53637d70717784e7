// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/llm/decoding/block_product.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;
namespace kernel = shardwise::llm::kernel;

using kernel::Block16;
using kernel::Block4;
using kernel::Block8;
using kernel::Instructions;
using kernel::numbers_per_block;

/// The sets that this processor has.
std::vector<Instructions> all_instructions() {
  std::vector<Instructions> sets;
  for (auto set : {Instructions::portable, Instructions::avx2, Instructions::avx512_vnni}) {
    if (set <= kernel::best_instructions()) sets.push_back(set);
  }
  return sets;
}

template <class Block>
std::vector<Block> quantised(Index rows, Index groups, const std::vector<float>& x) {
  std::vector<Block> w(at(rows * groups));
  kernel::quantise(rows * groups, x.data(), w.data());
  return w;
}

template <class Block>
std::vector<float> dequantised(Index rows, Index groups, const std::vector<Block>& w) {
  std::vector<float> x(at(rows * groups * numbers_per_block));
  kernel::dequantise(rows * groups, w.data(), x.data());
  return x;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
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

TEST_CASE("16 bits are those of bfloat16") {
  std::vector<float> x(32, 0.f);
  x[0] = -1.5f;
  x[1] = 1 + 0x1p-8f;      // a tie: to even
  x[2] = 1 + 3 * 0x1p-8f;  // the other
  x[31] = 1e-40f;          // subnormal numbers count, too
  const auto w = quantised<Block16>(1, 1, x);
  CHECK(w[0].values[0] == Eigen::bfloat16(-1.5f));
  CHECK(w[0].values[1] == Eigen::bfloat16(1.f));
  CHECK(w[0].values[2] == Eigen::bfloat16(1 + 0x1p-6f));
  const auto numbers = dequantised<Block16>(1, 1, w);
  CHECK(numbers[0] == -1.5f);
  CHECK(std::abs(numbers[31] - 1e-40f) <= 5e-41f);
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

struct Product {
  Index rows, out, groups, gap = 0;
};

/// Rows of x, w and y are longer by `gap`, and the added elements of y must keep their value.
template <class Block>
std::vector<float> product(Instructions set, const Product& p, const std::vector<float>& x,
                           const std::vector<Block>& w) {
  const Index ldx = p.groups * numbers_per_block + p.gap, ldw = p.groups + p.gap, ldy = p.out + p.gap;
  std::vector<float> y(at(p.rows * ldy), 7.f);
  kernel::block_product(p.rows, p.out, p.groups, x.data(), ldx, w.data(), ldw, y.data(), ldy, set);
  return y;
}

/// In double, of the rounded x: [rows, out + gap].
template <class Block>
void check_product(const Product& p) {
  CAPTURE(p.rows);
  CAPTURE(p.out);
  CAPTURE(p.groups);
  CAPTURE(p.gap);
  const Index in = p.groups * numbers_per_block, ldx = in + p.gap, ldw = p.groups + p.gap,
              ldy = p.out + p.gap;
  const auto x = numbers<float>(p.rows * ldx, 1);
  const auto w = quantised<Block>(p.out, ldw, numbers<float>(p.out * ldw * numbers_per_block, 2));
  const auto wide = dequantised(p.out, ldw, w);
  const auto y = product(Instructions::portable, p, x, w);
  Index wrong = 0, written_beside = 0;
  for (Index r = 0; r < p.rows; ++r) {
    Vector rounded(at(in));
    for (Index g = 0; g < p.groups; ++g) {
      double largest = 0;
      for (Index i = g * numbers_per_block; i < (g + 1) * numbers_per_block; ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(x[at(r * ldx + i)])));
      }
      for (Index i = g * numbers_per_block; i < (g + 1) * numbers_per_block; ++i) {
        const double number = static_cast<double>(x[at(r * ldx + i)]);
        rounded[at(i)] =
            std::is_same_v<Block, Block16> ? number : std::round(number * 127 / largest) * largest / 127;
      }
    }
    for (Index o = 0; o < ldy; ++o) {
      const double got = static_cast<double>(y[at(r * ldy + o)]);
      if (o >= p.out) {
        written_beside += got != 7;
        continue;
      }
      double sum = 0, magnitude = 0;
      for (Index i = 0; i < in; ++i) {
        const double term = rounded[at(i)] * static_cast<double>(wide[at(o * ldw * numbers_per_block + i)]);
        sum += term;
        magnitude += std::abs(term);
      }
      wrong += !(std::abs(got - sum) <= 1e-6 * magnitude);
    }
  }
  CHECK(wrong == 0);
  CHECK(written_beside == 0);
  for (auto set : all_instructions()) {
    CAPTURE(static_cast<int>(set));
    CHECK(same_bits(product(set, p, x, w), y));
  }
}

TEST_CASE_TEMPLATE("products agree with double, and have the same bits by all instructions", Block, Block16,
                   Block8, Block4) {
  MESSAGE("instruction sets: " << all_instructions().size());
  for (const Index rows : {1, 2, 3, 4, 5, 7, 8, 13}) {
    for (const Index gap : {0, 3}) {
      for (const Index out : {1, 2, 3, 9, 21}) {
        for (const Index groups : {1, 2, 3, 64, 65}) check_product<Block>({rows, out, groups, gap});
      }
      check_product<Block>({rows, 5, 0, gap});
      check_product<Block>({rows, 0, 4, gap});
    }
  }
  check_product<Block>({0, 3, 2});
  check_product<Block>({2, 301, 173});
  check_product<Block>({75, 35, 17});
}

TEST_CASE_TEMPLATE("a row has the same bits alone and among others", Block, Block16, Block8, Block4) {
  const Product all{11, 21, 33};
  const Index in = all.groups * numbers_per_block;
  const auto x = numbers<float>(all.rows * in, 3);
  const auto w = quantised<Block>(all.out, all.groups, numbers<float>(all.out * in, 4));
  for (auto set : all_instructions()) {
    CAPTURE(static_cast<int>(set));
    const auto together = product(set, all, x, w);
    std::vector<float> rows, outputs(together.size());
    for (Index r = 0; r < all.rows; ++r) {
      const std::vector<float> row(x.begin() + r * in, x.begin() + (r + 1) * in);
      const auto alone = product(set, {1, all.out, all.groups}, row, w);
      rows.insert(rows.end(), alone.begin(), alone.end());
    }
    CHECK(same_bits(rows, together));
    for (Index o = 0; o < all.out; ++o) {
      const std::vector<Block> one(w.begin() + o * all.groups, w.begin() + (o + 1) * all.groups);
      const auto alone = product(set, {all.rows, 1, all.groups}, x, one);
      for (Index r = 0; r < all.rows; ++r) outputs[at(r * all.out + o)] = alone[at(r)];
    }
    CHECK(same_bits(outputs, together));
  }
}

/// All values of all blocks are `value`, and the scale is 1.
std::vector<Block8> constant(Block8, Index blocks, int value) {
  Block8 block{};
  block.scale = Eigen::half(1.f);
  std::fill_n(block.values, numbers_per_block, static_cast<std::int8_t>(value));
  return std::vector<Block8>(at(blocks), block);
}
std::vector<Block4> constant(Block4, Index blocks, int value) {
  Block4 block{};
  block.scale = Eigen::half(1.f);
  std::fill_n(block.pairs, numbers_per_block / 2, static_cast<std::uint8_t>((value + 8) * 17));
  return std::vector<Block4>(at(blocks), block);
}

TEST_CASE_TEMPLATE("the largest values do not overflow", Block, Block8, Block4) {
  const bool eight = std::is_same_v<Block, Block8>;
  const Index groups = 257, in = groups * numbers_per_block;
  for (const int value : {eight ? -128 : -8, eight ? 127 : 7}) {
    for (const float number : {-127.f, 127.f}) {  // with a scale of 1: all is exact below 2^24
      const std::vector<float> x(at(5 * in), number), y(5 * 17, number * static_cast<float>(value) * 128);
      const auto w = constant(Block{}, 17 * groups, value);
      CAPTURE(value);
      CAPTURE(number);
      for (auto set : all_instructions()) {
        CAPTURE(static_cast<int>(set));
        const auto got = product<Block>(set, {5, 17, 4}, x, w);
        CHECK(got == y);
        const double expected = static_cast<double>(in) * static_cast<double>(number) * value;
        for (float much : product<Block>(set, {1, 2, groups}, x, w)) {
          CHECK(std::abs(static_cast<double>(much) - expected) <= 1e-6 * std::abs(expected));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("numbers that are tiny, huge, or not finite", Block, Block8, Block4) {
  const Index groups = 3, in = groups * numbers_per_block;
  const auto w = quantised<Block>(3, groups, numbers<float>(3 * in, 6));
  const auto factor = [&](float f) {
    auto x = numbers<float>(in, 5);
    for (float& number : x) number *= f;
    return x;
  };
  const auto plain = product<Block>(Instructions::portable, {1, 3, groups}, factor(1), w);
  for (auto set : all_instructions()) {
    CAPTURE(static_cast<int>(set));
    for (const float f : {0x1p-100f, 0x1p100f}) {  // powers of two change no rounding
      auto scaled = product<Block>(set, {1, 3, groups}, factor(f), w);
      for (float& number : scaled) number /= f;
      CHECK(same_bits(scaled, plain));
    }
    for (const float f : {0.f, 1e-37f, 1e-42f}) {
      CHECK(same_bits(product<Block>(set, {1, 3, groups}, factor(f), w), std::vector<float>(3, 0.f)));
    }
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (const Index place : {Index{0}, Index{40}, in - 1}) {
        auto x = numbers<float>(3 * in, 5);
        x[at(in + place)] = bad;
        const auto y = product<Block>(set, {3, 3, groups}, x, w);
        Index finite = 0, not_a_number = 0;
        for (Index i = 0; i < 9; ++i) {
          const bool nan = std::isnan(y[at(i)]);
          (i / 3 == 1 ? not_a_number : finite) += i / 3 == 1 ? nan : !nan;
        }
        CHECK(not_a_number == 3);
        CHECK(finite == 6);
      }
    }
    // What an earlier call left beyond the end of a row must not count.
    const std::vector<float> bad(at(4 * numbers_per_block), std::numeric_limits<float>::quiet_NaN());
    product<Block>(set, {1, 2, 4}, bad, w);
    CHECK(same_bits(product<Block>(set, {1, 3, groups}, factor(1), w), plain));
  }
}

TEST_CASE_TEMPLATE("the product agrees with that of the numbers that are not rounded", Block, Block16, Block8,
                   Block4) {
  const Index rows = 5, out = 70, groups = 40, in = groups * numbers_per_block;
  const auto x = numbers<float>(rows * in, 7);
  const auto w = quantised<Block>(out, groups, numbers<float>(out * in, 8));
  std::vector<float> y(at(rows * out));
  kernel::block_product(rows, out, groups, x.data(), in, w.data(), groups, y.data(), out);
  CHECK(same_bits(y, product<Block>(Instructions::portable, {rows, out, groups}, x, w)));
  const auto wide = dequantised(out, groups, w);
  Vector expected(y.size());
  for (Index r = 0; r < rows; ++r) {
    for (Index o = 0; o < out; ++o) {
      for (Index i = 0; i < in; ++i) {
        expected[at(r * out + o)] +=
            static_cast<double>(x[at(r * in + i)]) * static_cast<double>(wide[at(o * in + i)]);
      }
    }
  }
  // Rounding x errs by 1 / 127 / √12 on average, 0.4 % of x's own average of 1 / √3.
  CHECK(distance(y, expected) < 1e-2);
}

}  // namespace
