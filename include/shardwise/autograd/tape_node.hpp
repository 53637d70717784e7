// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a tape records and runs: nodes, and a task beside the backward pass.

#include <shardwise/autograd/differentiable.hpp>

namespace shardwise {

/// The part of a backward pass: all; or first the gradients of activations and inputs, then those of the parameters
/// (Qi et al., "Zero bubble pipeline parallelism", 2023: the passes B and W).
enum class BackwardPart : std::uint8_t { all, inputs, parameters };

/// An operation on the tape: it pulls the gradient of its result back to its operands.
class TapeNode : public Pooled<TapeNode> {
 public:
  /// For the part `inputs`, a node may postpone gradients of parameters. It returns whether it does; if so, it is
  /// called again for the part `parameters`.
  constexpr virtual bool pull_back(BackwardPart part) = 0;

 private:
  friend class Tape;
  TapeNode* previous_ = nullptr;
};

/// A node whose pullback is a function object.
template <class F>
class PullbackNode final : public TapeNode {
 public:
  /// `pullback(part)` returns whether the node is finished.
  constexpr explicit PullbackNode(F pullback) : pullback_(std::move(pullback)) {}
  constexpr bool pull_back(BackwardPart part) override { return pullback_(part); }

 private:
  F pullback_;
};

/// Work on gradients beside a backward pass, complete when the pass ends.
class BackwardTask : public Pooled<BackwardTask> {
 public:
  /// The backward pass calls it at its end.
  constexpr virtual void finish() = 0;
};

namespace detail {

/// The gradient of `factor` times a scalar of type `X` with respect to the scalar.
template <TensorType X>
constexpr cotangent_of<X> gradient_of_itself(const typename X::MeshOf& mesh, double factor = 1) {
  cotangent_of<X> gradient(mesh, {});
  if (!mesh.dry()) *gradient.writable().data = static_cast<typename X::Element>(factor);
  return gradient;
}

}  // namespace detail

}  // namespace shardwise
