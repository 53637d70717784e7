// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What generating a token communicates.

#include <shardwise/mesh/communication_plan.hpp>
#include <shardwise/models/llama/config.hpp>

#include "llama_mesh.hpp"

namespace tools {

using TokenPlan = JobMesh<sw::CommunicationPlan>;

/// On the first rank of a mesh of these sizes.
TokenPlan plan_token(const JobSizes& sizes, const sw::LlamaConfig& config);

}  // namespace tools
