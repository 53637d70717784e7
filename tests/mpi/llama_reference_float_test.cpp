// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama in float, against PyTorch.

#include "llama_reference.hpp"

namespace shardwise::testing::llama_reference_float {

TEST_CASE("logits, loss, gradients and steps of AdamW are PyTorch's, in float") {
  check_references<float>(2e-5, 1e-2);
}

}  // namespace shardwise::testing::llama_reference_float
