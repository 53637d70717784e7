// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What losses by cross entropy are asked for.

#include <shardwise/kernel/cross_entropy.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

/// How the rows' losses become one.
enum class Reduction : std::uint8_t {
  mean,  ///< over all rows of the whole tensor that count, by the weights of their targets; NaN if none does
  sum,
};

/// Defaults and meaning are those of PyTorch's `F.cross_entropy`, whose `weight` is `class_weights`.
struct CrossEntropyOptions {
  Index ignore_index = ignore_index_default;  ///< rows with this target do not count
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  ///< e in (1 - e) · loss + e · (mean of -log softmax over all classes)
  /// How much each class counts, the same on all ranks; empty: all count 1. With label smoothing, -log softmax of each class
  /// counts by its own.
  std::vector<double> class_weights = {};
};

namespace detail {

/// Throws if these are no options.
constexpr const CrossEntropyOptions& checked(const CrossEntropyOptions& options) {
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail({"CrossEntropyLoss: label_smoothing is ", options.label_smoothing, ", but must be in [0, 1]"});
  }
  for (std::size_t c = 0; c < options.class_weights.size(); ++c) {
    const double weight = options.class_weights[c];
    if (!(weight >= 0 && weight < std::numeric_limits<double>::infinity()))
      fail({"CrossEntropyLoss: the weight of class ", c, " is ", weight,
            ", but must be finite, and 0 or more"});
  }
  return options;
}

/// The weights of the classes, as long as a tape needs them. Throws if they are not as many as there are classes.
template <class MeshType>
constexpr Buffer weights_for(const MeshType& mesh, const CrossEntropyOptions& options, Index classes) {
  const auto& weights = options.class_weights;
  if (!weights.empty() && static_cast<Index>(weights.size()) != classes)
    fail({"CrossEntropyLoss: there are ", weights.size(), " class_weights, but ", classes, " classes"});
  Buffer copy = allocate_buffer(mesh, static_cast<Index>(weights.size() * sizeof(double)));
  if (!mesh.dry()) std::copy(weights.begin(), weights.end(), static_cast<double*>(copy->data));
  return copy;
}
constexpr kernel::TargetDistribution target_distribution(const CrossEntropyOptions& options, Index classes,
                                                         const Buffer& weights) {
  kernel::TargetDistribution expected{classes, options.label_smoothing, options.ignore_index};
  if (!options.class_weights.empty()) expected.weights = static_cast<const double*>(weights->data);
  return expected;
}

}  // namespace detail

}  // namespace shardwise
