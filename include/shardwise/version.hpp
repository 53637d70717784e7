// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The version of the library, for the preprocessor. CMake reads the three numbers from here. Between releases the text
/// ends in "-dev".

#define SHARDWISE_VERSION_MAJOR 0
#define SHARDWISE_VERSION_MINOR 6
#define SHARDWISE_VERSION_PATCH 0
#define SHARDWISE_VERSION "0.6.0-dev"
