// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Old paths lead to the headers.

#include <shardwise/data/load_batch.hpp>
#include <shardwise/kernel/rope.hpp>
#include <shardwise/layout/bounds.hpp>
#include <shardwise/models/llama/model.hpp>
#include <shardwise/nn/quantized.hpp>
#include <shardwise/ops/key_value_cache.hpp>
#include <shardwise/text/sampling.hpp>

static_assert(requires { shardwise::llm::LlamaConfig().layers; });
static_assert(shardwise::gemm_lower_bound(8, 8, 8, 1) == 0);
