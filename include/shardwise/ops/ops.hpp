// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All operations.

#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/argmax.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/cat.hpp>
#include <shardwise/ops/cat_shared.hpp>
#include <shardwise/ops/comparison.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/ops/experts.hpp>
#include <shardwise/ops/index_select.hpp>
#include <shardwise/ops/layer_norm.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/ops/normalize.hpp>
#include <shardwise/ops/one_hot.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/other_spellings.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/ops/softmax.hpp>
#include <shardwise/ops/swiglu.hpp>
#include <shardwise/ops/transpose.hpp>
#include <shardwise/ops/variance.hpp>
#include <shardwise/ops/where.hpp>
