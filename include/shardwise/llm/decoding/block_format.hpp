// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The blocks of quantised weights as elements of tensors and of files: "q16", "q8" and "q4".

#include <shardwise/kernel/weight_blocks.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise {

template <kernel::WeightBlock Block>
inline constexpr DataType data_type<Block> = block_type(kernel::numbers_per_block, sizeof(Block));

template <>
inline constexpr BlockFormat block_format<kernel::Block16>{.type = data_type<kernel::Block16>};

template <kernel::WeightBlock Block>
inline constexpr BlockFormat block_format<Block>{
    .type = data_type<Block>,
    .quantise =
        [](Index blocks, const float* numbers, void* to) {
          auto* const made = static_cast<Block*>(to);
          kernel::quantise(blocks, numbers, made);
          for (Index i = 0; i < blocks; ++i, numbers += kernel::numbers_per_block) {
            if (detail::is_finite(static_cast<float>(made[i].scale))) continue;
            const float worst = std::ranges::max(std::span(numbers, kernel::numbers_per_block), {},
                                                 detail::magnitude_bits<float>);
            detail::fail<std::runtime_error>({"a number is ", worst,
                                              ", expected one to quantise, of at most ",
                                              std::is_same_v<Block, kernel::Block8> ? 8.3e6 : 5.2e5});
          }
        },
    .dequantise = [](const void* block,
                     float* numbers) { kernel::dequantise(1, static_cast<const Block*>(block), numbers); },
    .check =
        [](Index first, Index blocks, const void* copied) {
          const auto* block = static_cast<const Block*>(copied);
          for (Index i = first; i < first + blocks; ++i, ++block) {
            if (const auto scale = static_cast<float>(block->scale); !detail::is_finite(scale))
              detail::fail<std::runtime_error>({"the scale of block ", i, " is ", scale});
          }
        },
};

}  // namespace shardwise
