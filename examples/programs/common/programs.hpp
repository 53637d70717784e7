// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Programs as functions, for their `main` and for tests.

#include <functional>

namespace tools {

/// Starts the ranks of a program: calls the function on each, and returns the exit code. `sw::run`, or a test's.
using Start = std::function<int(int argc, char** argv, const std::function<int()>& on_each_rank)>;

/// The programs, as functions of their arguments. They return the exit code; on a rank, errors are thrown.
int train_program(int argc, char** argv, const Start& start);
int generate_program(int argc, char** argv, const Start& start);
int evaluate_program(int argc, char** argv, const Start& start);

}  // namespace tools
