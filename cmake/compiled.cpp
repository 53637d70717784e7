// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The unit of shardwise::compiled that has what compiled.hpp lists.

#include <shardwise/shardwise.hpp>
