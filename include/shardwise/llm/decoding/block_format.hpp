// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The blocks of quantised weights as elements of tensors and of files: "q16", "q8" and "q4".

#include <shardwise/kernel/weight_blocks.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise {

using kernel::Block16;
using kernel::Block4;
using kernel::Block8;
using kernel::WeightBlock;

template <WeightBlock Block>
inline constexpr DataType data_type<Block> = block_type(kernel::numbers_per_block, sizeof(Block));

template <>
inline constexpr BlockFormat block_format<Block16>{.type = data_type<Block16>};
template <WeightBlock Block>
inline constexpr BlockFormat block_format<Block>{
    .type = data_type<Block>,
    .largest = std::is_same_v<Block, Block8> ? 8.3e6 : 5.2e5,
    .quantise = [](Index blocks, const float* numbers,
                   void* to) { kernel::quantise(blocks, numbers, static_cast<Block*>(to)); },
    .dequantise = [](const void* block,
                     float* numbers) { kernel::dequantise(1, static_cast<const Block*>(block), numbers); },
    .scale = [](const void* block) { return float{static_cast<const Block*>(block)->scale}; },
};

}  // namespace shardwise
