// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Generates text with a Llama: generate_program.cpp has its options, generate_text.cpp the rest.

#include <shardwise/comm/environment.hpp>

#include "../common/programs.hpp"

int main(int argc, char** argv) {
  return tools::generate_program(argc, argv, shardwise::run<std::function<int()>>);
}
