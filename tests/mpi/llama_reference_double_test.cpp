// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama in double, against PyTorch.

#include "llama_reference.hpp"

namespace shardwise::testing::llama_reference_double {

TEST_CASE("logits, loss, gradients and steps of AdamW are PyTorch's, in double") {
  check_references<double>(1e-10, 1e-6);
}

}  // namespace shardwise::testing::llama_reference_double
