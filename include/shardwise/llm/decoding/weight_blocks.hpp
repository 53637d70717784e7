// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Quantised weights: 32 successive numbers of a row form a group, which is stored as one block. Those of 8 and 4 bits
/// have one scale, and are byte for byte the Q8_0 and Q4_0 of ggml (llama.cpp's GGUF files), on little-endian machines.

#include <algorithm>

#include <shardwise/kernel/element.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise::llm::kernel {

/// Numbers in a group, and so in a block.
inline constexpr Index numbers_per_block = 32;

/// 16 bits a number, 64 bytes a block, without a scale.
struct Block16 {
  Eigen::bfloat16 values[numbers_per_block];
};

/// 8 bits a number, 34 bytes a block: number i is scale · values[i].
struct Block8 {
  Eigen::half scale;
  std::int8_t values[numbers_per_block];
};

/// 4 bits a number, 18 bytes a block: number i is scale · ((pairs[i] & 15) - 8), and number i + 16 is
/// scale · ((pairs[i] >> 4) - 8), for i < 16.
struct Block4 {
  Eigen::half scale;
  std::uint8_t pairs[numbers_per_block / 2];
};

static_assert(sizeof(Block16) == 64 && sizeof(Block8) == 34 && sizeof(Block4) == 18);
static_assert(std::is_trivially_copyable_v<Block8> && std::is_trivially_copyable_v<Block4>);
/// The three blocks above.
template <class B>
concept WeightBlock = std::same_as<B, Block16> || std::same_as<B, Block8> || std::same_as<B, Block4>;

namespace detail {

/// The largest magnitude of a group; NaN if a number is infinite or NaN.
inline float largest_of_group(const float* x) {
  std::int32_t bits = 0;
  for (Index i = 0; i < 32; ++i) bits = std::max(bits, shardwise::detail::magnitude_bits(x[i]));
  return bits < shardwise::detail::infinity<float> ? std::bit_cast<float>(bits) : NAN;
}

/// f(i, x[i] / scale) for 32 numbers, or f(i, 0) if the scale is NaN or its inverse overflows. The quotient is a double
/// so that no compiler fuses its product with a sum in f.
template <class F>
void divide_group(const float* x, float scale, F f) {
  const float inverse = std::abs(scale) > 1e-37f ? 1 / scale : 0;
  for (Index i = 0; i < 32; ++i) f(i, double{inverse == 0 ? 0 : x[i] * inverse});
}

/// Returns the scale. Rounds to the nearest integer, ties away from zero.
inline float quantise_group(const float* x, std::int8_t* values) {
  const float scale = largest_of_group(x) / 127;
  divide_group(x, scale, [=](Index i, double quotient) {
    values[i] = static_cast<std::int8_t>(quotient + std::copysign(0.5, quotient));
  });
  return scale;
}

inline void quantise_group(const float* x, Block16& to) {
  for (Index i = 0; i < 32; ++i) to.values[i] = narrow<Eigen::bfloat16>(x[i]);
}
inline void quantise_group(const float* x, Block8& to) {
  to.scale = Eigen::half(quantise_group(x, to.values));
}
inline void quantise_group(const float* x, Block4& to) {
  const float largest = largest_of_group(x);
  const auto* extreme = std::find_if(x, x + 31, [=](float number) { return std::abs(number) == largest; });
  const float scale = std::copysign(largest, *extreme) / -8;
  to = {Eigen::half(scale), {}};
  divide_group(x, scale, [&](Index i, double quotient) {
    const int value = std::min(static_cast<int>(quotient + 8.5), 15);
    to.pairs[i % 16] = static_cast<std::uint8_t>(to.pairs[i % 16] | value << i / 16 * 4);
  });
}

/// The 32 numbers divided by the scale.
inline void unpack(const Block8& block, std::int8_t* values) { std::copy_n(block.values, 32, values); }
inline void unpack(const Block4& block, std::int8_t* values) {
  for (Index i = 0; i < 16; ++i) {
    values[i] = static_cast<std::int8_t>((block.pairs[i] & 15) - 8);
    values[i + 16] = static_cast<std::int8_t>((block.pairs[i] >> 4) - 8);
  }
}

inline void dequantise_group(const Block16& block, float* x) {
  for (Index i = 0; i < 32; ++i) x[i] = widen(block.values[i]);
}
inline void dequantise_group(const auto& block, float* x) {
  std::int8_t values[numbers_per_block];
  unpack(block, values);
  const auto scale = static_cast<float>(block.scale);
  for (Index i = 0; i < 32; ++i) x[i] = scale * static_cast<float>(values[i]);
}

}  // namespace detail

/// w: [blocks] = x: [32 · blocks], quantised. Numbers of 16 bits are rounded to the nearest, ties to even. Else the
/// scale is the largest magnitude / 127, or the number of largest magnitude / -8. A number is divided by it and rounded
/// to the nearest integer; ties go away from zero in Block8, and up in Block4, at most to 7. The scale is then rounded
/// to 16 bits. It is infinite beyond magnitudes of 8.3e6 or 5.2e5, and NaN if a number is infinite or NaN: callers
/// check it.
template <WeightBlock Block>
void quantise(Index blocks, const float* x, Block* w) {
  for (Index i = 0; i < blocks; ++i) detail::quantise_group(x + i * 32, w[i]);
}

/// x: [32 · blocks] = w: [blocks], exactly.
template <WeightBlock Block>
void dequantise(Index blocks, const Block* w, float* x) {
  for (Index i = 0; i < blocks; ++i) detail::dequantise_group(w[i], x + i * 32);
}

}  // namespace shardwise::llm::kernel

namespace shardwise::llm {
using kernel::Block16, kernel::Block8, kernel::Block4, kernel::WeightBlock;
}

namespace shardwise {

template <llm::WeightBlock Block>
inline constexpr DataType data_type<Block> = block_type(llm::kernel::numbers_per_block, sizeof(Block));

template <>
inline constexpr BlockFormat block_format<llm::Block16>{.type = data_type<llm::Block16>};
template <llm::WeightBlock Block>
inline constexpr BlockFormat block_format<Block>{
    .type = data_type<Block>,
    .largest = std::is_same_v<Block, llm::Block8> ? 8.3e6 : 5.2e5,
    .quantise = [](Index blocks, const float* numbers,
                   void* to) { llm::kernel::quantise(blocks, numbers, static_cast<Block*>(to)); },
    .dequantise =
        [](const void* block, float* numbers) {
          llm::kernel::dequantise(1, static_cast<const Block*>(block), numbers);
        },
    .scale = [](const void* block) { return float{static_cast<const Block*>(block)->scale}; },
};

}  // namespace shardwise
