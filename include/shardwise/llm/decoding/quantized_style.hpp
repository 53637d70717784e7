// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The style of layers with quantised weights, without what computes with them: quantized.hpp has that.

#include <shardwise/parallel/style.hpp>

namespace shardwise::llm {

/// An additional style: the weight is stored in blocks of 32 numbers, `Block16`, `Block8` or `Block4`, and the
/// layer, with its bias, is frozen. It computes in float. See quantized.hpp, which must be included.
template <class Block>
struct Quantized {
  static constexpr Hint misused =
      numbers_in(data_type_of<Block>()) > 1 ? Hint::none : Hint::use_Block16_Block8_or_Block4;
  using StoresWeightAs = Block;
  static constexpr bool suits(ModuleKind kind) { return detail::multiplies(kind); }
};

}  // namespace shardwise::llm

template <class Block>
inline constexpr bool shardwise::detail::freezes<shardwise::llm::Quantized<Block>> = true;
