// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Old paths lead to the headers of language models.

#include <shardwise/data/load_batch.hpp>
#include <shardwise/kernel/rope.hpp>
#include <shardwise/models/llama/model.hpp>
#include <shardwise/nn/quantized.hpp>
#include <shardwise/ops/key_value_cache.hpp>
#include <shardwise/text/sampling.hpp>

static_assert(requires { shardwise::llm::LlamaConfig().layers; });
