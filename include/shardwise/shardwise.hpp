// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All of Shardwise but `data/`, whose pipelines bring in range-v3.

#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/transformer.hpp>
#include <shardwise/nn/dropout.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/optim/adamw.hpp>
#include <shardwise/optim/sgd.hpp>
