// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The one unit of shardwise::compiled.

#include <shardwise/shardwise.hpp>
