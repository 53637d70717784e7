// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A backward pass that throws.

#include <stdexcept>

#include <shardwise/autograd/tape.hpp>

namespace shardwise::testing {

/// It can be told to throw when the backward pass comes to it.
class Fragile final : public TapeNode {
 public:
  explicit Fragile(const bool& fails) : fails_(fails) {}
  bool pull_back(BackwardPart) override {
    if (fails_) throw std::runtime_error("fragile");
    return false;
  }

 private:
  const bool& fails_;
};

}  // namespace shardwise::testing
