// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a model and its training need. Beside it are files (`io/`, `weights/`, `checkpoint/`), text and data, which bring in
/// nlohmann-json, range-v3, PCRE2 and utf8proc; and pipelines, simulations, messages from mesh to mesh, the watchdog and pictures. From the bottom up: a compiler that points to a declaration also lists how its
/// header came to be included, and this keeps the list short.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/comm/environment.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>

#include <shardwise/tensor/tensor.hpp>

#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/redistribute.hpp>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>

#include <shardwise/ops/ops.hpp>

#include <shardwise/module/sequential.hpp>

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/dropout.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/nn/ring_attention.hpp>

#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/rate_schedule.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/reduce_gradients.hpp>
#include <shardwise/train/sgd.hpp>

#include <shardwise/models/llama/model.hpp>

#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/inspect/print.hpp>

#include <shardwise/version.hpp>
