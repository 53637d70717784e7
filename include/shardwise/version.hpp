// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The version of the library, for the preprocessor. CMake reads it from here.

#define SHARDWISE_VERSION_MAJOR 0
#define SHARDWISE_VERSION_MINOR 4
#define SHARDWISE_VERSION_PATCH 0
