// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whole tensors by name: what a module computes, to be held against what it should.

#include <shardwise/module/parameters.hpp>

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

/// What these parameters hold, whole, by name; and the finished gradients of those that are trained. Collective.
Outcome values_of(const std::vector<detail::NamedParameter>& parameters);
Outcome gradients_of(const std::vector<detail::NamedParameter>& parameters);
template <class Module>
Outcome values_of(Module& model) {
  return values_of(detail::named_parameters_of(model));
}
template <class Module>
Outcome gradients_of(Module& model) {
  return gradients_of(detail::named_parameters_of(model));
}

/// The largest difference, relative to the largest number expected or to 1, as some gradients are only rounding
/// errors. What is no number, or of another length, is infinitely wrong.
double error(const Numbers& found, const Numbers& expected);
/// max |found - expected| / max |expected|: the same, where all numbers may be small. Collective.
double relative_error(const detail::AnyTensor& found, const detail::AnyTensor& expected);
/// Checks that all of it is right but for rounding errors.
void check_outcome(const Outcome& found, const Outcome& expected);

}  // namespace shardwise::testing
