// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The unit of shardwise::compiled that has what headers beside shardwise.hpp compile once; what compiled.hpp lists it
/// leaves to the other.

#define SHARDWISE_COMPILED
#include <shardwise/compiled.hpp>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/named.hpp>
