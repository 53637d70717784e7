// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A program that plans a Llama needs no range-v3.

#include <shardwise/llm/data/token_ids.hpp>
#include <shardwise/llm/models/llama/plan.hpp>
#include <shardwise/mesh/mesh.hpp>

#ifdef RANGES_V3_RANGE_FWD_HPP
#error "range-v3 is included"
#endif

using Mesh = shardwise::Mesh<shardwise::dp>;
static_assert(shardwise::llm::TokenIds<Mesh>::layout[0] == shardwise::shard(0));
