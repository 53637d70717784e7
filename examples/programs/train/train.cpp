// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a Llama on text: train_program.cpp has its options, train_loop.cpp its loop.

#include <shardwise/comm/environment.hpp>

#include "../common/programs.hpp"

int main(int argc, char** argv) {
  return tools::train_program(argc, argv, shardwise::run<std::function<int()>>);
}
