// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The core: meshes, tensors, operations, linear algebra, layers, styles, training. Features that few programs need
/// have their own headers: experts, attention around a ring and fused losses (`nn/`), L-BFGS (`train/`), more
/// linear algebra (`linalg/`), `pipeline/`, files (`io/`, `weights/`, `checkpoint/`), language models (llm.hpp), and
/// tools to examine a program (`inspect/`, `simulate/`, `guard/`). The includes go from the bottom up: a compiler that
/// points to a declaration also lists how its header was included, and this order keeps the list short.

#include <shardwise/layout/axis.hpp>
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

#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/linalg/qr.hpp>
#include <shardwise/linalg/solve.hpp>

#include <shardwise/module/named_parameters.hpp>
#include <shardwise/module/sequential.hpp>

#include <shardwise/parallel/plan.hpp>
#include <shardwise/parallel/plan_problem.hpp>

#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/dropout.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/nn/rms_norm.hpp>

#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/rate_schedule.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/reduce_gradients.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/unit.hpp>

#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/inspect/print.hpp>

#include <shardwise/version.hpp>
