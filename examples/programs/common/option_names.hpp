// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#pragma once

/// @file
/// The names that an option has in PyTorch, Hugging Face, Megatron-LM and here.

#include <CLI/CLI.hpp>
#include <string>

namespace tools {

/// What is wrong with an option that `app` does not have, as "--lr: the option is --rate".
std::string unknown_option(const CLI::App& app, const std::string& given);

}  // namespace tools
