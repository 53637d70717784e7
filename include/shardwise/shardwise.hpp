// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All of Shardwise but files (`io/`) and text (`data/`), which bring in nlohmann-json and range-v3. From the bottom up:
/// a compiler that points to a declaration also lists how its header came to be included, and this keeps the list short.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/mesh/dry_mesh.hpp>
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/mesh.hpp>

#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/redistribute.hpp>
#include <shardwise/tensor/tensor.hpp>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>

#include <shardwise/ops/ops.hpp>

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/dropout.hpp>
#include <shardwise/nn/llama.hpp>
#include <shardwise/nn/recompute.hpp>
#include <shardwise/nn/transformer.hpp>

#include <shardwise/nn/reduce_gradients.hpp>
#include <shardwise/optim/adamw.hpp>
#include <shardwise/optim/check_finite.hpp>
#include <shardwise/optim/clear_gradients.hpp>
#include <shardwise/optim/clip.hpp>
#include <shardwise/optim/schedule.hpp>
#include <shardwise/optim/sgd.hpp>

#include <shardwise/inspect/plan_table.hpp>
