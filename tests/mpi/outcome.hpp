// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whole tensors by name: what a module computes, to be held against what it should.

#include <shardwise/tensor/any_tensor.hpp>

#include <map>
#include <string>
#include <vector>

namespace shardwise::testing {

using Numbers = std::vector<double>;

/// Whole tensors: "result", "input" (its gradient), and the parameters' gradients by their paths.
using Outcome = std::map<std::string, Numbers>;
/// The same, where they lie.
using NamedTensors = std::map<std::string, detail::AnyTensor>;

/// All elements of a tensor; collective, and not part of what is counted.
Numbers whole(const detail::AnyTensor& x);
Outcome whole(const NamedTensors& tensors);
template <TensorType X>
Numbers whole(const X& x) {
  return whole(detail::AnyTensor(x));
}

/// The largest difference, relative to the largest number expected or to 1, as some gradients are only rounding
/// errors. What is no number, or of another length, is infinitely wrong.
double error(const Numbers& found, const Numbers& expected);
/// Checks that all of it is right but for rounding errors.
void check_outcome(const Outcome& found, const Outcome& expected);

}  // namespace shardwise::testing
