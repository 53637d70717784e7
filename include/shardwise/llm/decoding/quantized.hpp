// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Layers whose style has a `Quantized<Block16>`, `Quantized<Block8>` or `Quantized<Block4>`.
///
/// ```
/// Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, Quantized<Block8>>> up(mesh, 1024, 4096);   // weight [4096, 32]
/// using MyPlan = LlamaQuantized<LlamaTensorParallel<>, Block4>;
/// ```
/// The last dimension of input features is a multiple of 32, and not sharded. So a `RowwiseParallel` layer has them in
/// two dimensions, [n, 32], as `LlamaMlp` does, or [heads, head_dim].

#include <shardwise/llm/decoding/quantized_products.hpp>
#include <shardwise/llm/decoding/quantized_style.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/linear.hpp>

namespace shardwise::detail {

/// Draws the numbers that the whole tensor of numbers would have, and quantises them. Frozen parameters need no
/// arithmetic.
template <llm::WeightBlock Block>
inline constexpr ElementFunctions element_functions<Block>{
    .count_non_finite =
        [](Index n, const void* x) {
          if constexpr (std::is_same_v<Block, llm::Block16>) {
            return element_functions<Eigen::bfloat16>.count_non_finite(n * llm::kernel::numbers_per_block, x);
          } else {
            kernel::NonFinite found;
            for (const Block* block = static_cast<const Block*>(x); n > 0; --n, ++block) {
              const auto scale = static_cast<float>(block->scale);
              if (!is_finite(scale)) ++(is_nan(scale) ? found.nans : found.infinities);
            }
            return found;
          }
        },
    .draw =
        [](Index n, std::uint64_t seed, std::uint64_t first, const Init& init, void* x) {
          float numbers[llm::kernel::numbers_per_block];
          for (auto* block = static_cast<Block*>(x); n > 0; --n, ++block, ++first) {
            const std::uint64_t at = first * std::uint64_t{llm::kernel::numbers_per_block};
            element_functions<float>.draw(llm::kernel::numbers_per_block, seed, at, init, numbers);
            llm::kernel::quantise(1, numbers, block);
          }
        },
    .blocks = &block_format<Block>,
};

}  // namespace shardwise::detail
