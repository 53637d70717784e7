// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a gradient gathers. Contributions are added in the gradient's own layout: three uses of one
/// `Reduced` tensor add up as one pending sum, and are reduced once.

#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise {

template <TensorType Gradient>
class GradientSlot : public Counted {
 public:
  constexpr GradientSlot() = default;
  /// `use`: what the gradient's memory is counted as.
  constexpr explicit GradientSlot(MemoryUse use) : use_(use) {}

  constexpr bool filled() const { return static_cast<bool>(gradient_); }
  constexpr const Gradient& gradient() const { return gradient_; }
  constexpr MemoryUse use() const { return use_; }
  /// There is a gradient, and nobody else reads it: a kernel may add to it in place.
  constexpr bool writable() const { return filled() && gradient_.unique(); }

  /// The gradient, to be changed in place by whoever asks: copied first if somebody else reads it. There must be
  /// one.
  constexpr const Gradient& own() {
    if (!writable()) {
      const auto mesh = gradient_.mesh();
      gradient_ = detail::owned(detail::AnyTensor(gradient_), use_).template as<Gradient>(mesh);
    }
    return gradient_;
  }

  constexpr Gradient take() { return std::exchange(gradient_, Gradient()); }
  constexpr void clear() { gradient_ = Gradient(); }

  constexpr void add(Gradient more) {
    if (!filled()) {
      gradient_ = std::move(more);
      if (use_ != MemoryUse::activation) gradient_.buffer().set_use(use_);
      return;
    }
    const auto mesh = more.mesh();
    detail::AnyTensor sum(gradient_);
    gradient_ = Gradient();  // so that its block may be written to
    sum = detail::sum_of(std::move(sum), detail::AnyTensor(more), use_,
                         &detail::add_elements<typename Gradient::Element>);
    gradient_ = sum.as<Gradient>(mesh);
  }

 private:
  Gradient gradient_;
  MemoryUse use_ = MemoryUse::activation;
};

/// A handle to the slot for the gradient of an `X`.
template <TensorType X>
using SlotFor = Shared<GradientSlot<cotangent_of<X>>>;

}  // namespace shardwise
