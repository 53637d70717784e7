// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Measures a Llama: evaluate_program.cpp has its options, evaluate_text.cpp the rest.

#include <shardwise/comm/environment.hpp>

#include "../common/programs.hpp"

int main(int argc, char** argv) {
  return tools::evaluate_program(argc, argv, shardwise::run<std::function<int()>>);
}
