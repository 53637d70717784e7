// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A backward pass that begins with a gradient from outside.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::testing {

/// On a tape, brings a gradient to a tensor when `backward` comes by.
class Arrival final : public TapeNode {
 public:
  Arrival(Shared<GradientSlot> slot, const detail::AnyTensor& gradient, const detail::ElementSum& elements)
      : slot_(std::move(slot)),
        block_(gradient.buffer),
        elements_(elements),
        recorder_(gradient.mesh.recorder()) {}
  bool pull_back(BackwardPart) override {
    slot_->add(std::move(block_), elements_, recorder_);
    return false;
  }

 private:
  Shared<GradientSlot> slot_;
  Buffer block_;
  const detail::ElementSum& elements_;
  Recorder* recorder_;
};

/// `gradient` must be of the type `cotangent_of<Y>`, and its mesh must live until the backward pass.
template <class Y>
void arrive(Tape& tape, const Var<Y>& y, const detail::AnyTensor& gradient) {
  tape.record<Arrival>(y.slot(), gradient, detail::element_sum<typename Y::Element>);
}
template <class Y>
void arrive(Tape& tape, const Var<Y>& y, const cotangent_of<Y>& gradient) {
  arrive(tape, y, detail::AnyTensor(gradient));
}

/// Calls backward on a tape that has an `Arrival`.
template <class MeshType>
void go_back(Tape& tape, const MeshType& mesh) {
  tape.backward(tape.input(
      tensor_with<float, 0, MeshType, packed(everywhere(MeshType::axes, replicate))>(mesh, Shape<0>{})));
}

}  // namespace shardwise::testing
