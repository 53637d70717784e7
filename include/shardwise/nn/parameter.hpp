// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter: a tensor that an optimizer may change in place, the slots of its gradient, and the
/// distribution that its first value is drawn from. Its gradient has the type that its layout demands: a
/// parameter that is `Reduced` on the data axis gathers a pending sum there, through all uses. When the sum is
/// made (`reduce_gradients`), it goes to a slot of another type, so nobody takes a term for the sum.

#include <cmath>

#include <shardwise/autograd/operand.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

/// The distribution of a parameter's first value.
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  double scale = 0;

  static constexpr Init constant(double value) { return {Kind::constant, value}; }
  static constexpr Init normal(double deviation) { return {Kind::normal, deviation}; }
  /// Uniform in [-bound, bound).
  static constexpr Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// Uniform with the bound 1/√fan_in, as PyTorch initialises its Linear layers.
  static constexpr Init fan_in(Index features) {
    if (std::is_constant_evaluated()) return uniform(1);
    return uniform(features > 0 ? 1 / std::sqrt(static_cast<double>(features)) : 0);
  }
};

namespace detail {

template <class X>
struct FinishedCodes {
  static constexpr int at(int axis) {
    return (X::layout[axis] == reduced ? replicate : X::layout[axis]).code;
  }
};

}  // namespace detail

/// The gradient of a parameter with nothing pending: it lies as the parameter does, `Replicate` where that is
/// `Reduced`.
template <TensorType X>
using finished_gradient_of =
    tensor_with<typename X::Element, X::rank, typename X::MeshOf, detail::FinishedCodes<X>>;

template <TensorType X>
class Parameter {
 public:
  static_assert(!has_partial(X::layout), "a parameter cannot be a pending sum: make it Reduced or Replicate");

  using TensorOf = X;
  using MeshOf = typename X::MeshOf;

  /// Global extents `shape`. The value is not set: `initialize` a model, or load it, before using it.
  constexpr Parameter(const MeshOf& mesh, const Shape<X::rank>& shape, Init init)
      : value_(mesh, shape, MemoryUse::parameter),
        slot_(SlotFor<X>::make(MemoryUse::gradient)),
        init_(init) {}

  /// Throws `std::logic_error` if the value was never set.
  constexpr const X& value() const {
    if (!X::MeshOf::dry && !set_) {
      throw std::logic_error("a parameter is used before it has a value: call initialize(model, seed) first");
    }
    return value_;
  }
  constexpr const Shape<X::rank>& shape() const { return value_.shape(); }
  constexpr const MeshOf& mesh() const { return value_.mesh(); }

  /// What `backward` left since gradients were last reduced: pending where the parameter is `Reduced`. Empty if
  /// there is nothing.
  constexpr const cotangent_of<X>& gradient() const { return slot_->gradient(); }
  constexpr const SlotFor<X>& slot() const { return slot_; }

  /// What `reduce_gradients` made of it; empty before, and again after an optimizer's step.
  constexpr const finished_gradient_of<X>& finished_gradient() const { return finished_.gradient(); }
  /// For `reduce_gradients` and optimizers. It belongs to this object: copies of a parameter share the value and
  /// the slot that `backward` fills, so what they gather is finished, counted and applied once.
  constexpr GradientSlot<finished_gradient_of<X>>& finished_slot() { return finished_; }

  /// Draws the first value: the same global tensor on every mesh.
  constexpr void initialize(std::uint64_t seed) {
    using T = typename X::Element;
    set_ = true;
    switch (init_.kind) {
      case Init::Kind::normal:
        return fill_normal(value_, seed, 0, init_.scale);
      case Init::Kind::uniform:
        return fill_uniform(value_, seed, -init_.scale, init_.scale);
      case Init::Kind::constant:
        if constexpr (!MeshOf::dry) {
          std::fill_n(value_.writable().data, value_.view().elements(), static_cast<T>(init_.scale));
        }
    }
  }

  /// Takes a copy of a tensor of the same type and shape.
  constexpr void assign(const X& value) {
    if (value.shape() != value_.shape())
      throw std::invalid_argument("Parameter: the value has another shape");
    if constexpr (!MeshOf::dry) kernel::copy(value.view().elements(), value.data(), writable().data);
    set_ = true;
  }

  /// This rank's block, to be changed in place by an optimizer or a loader.
  constexpr View<typename X::Element, X::rank> writable() {
    set_ = true;
    return value_.writable();
  }

 private:
  X value_;
  SlotFor<X> slot_;
  GradientSlot<finished_gradient_of<X>> finished_{MemoryUse::gradient};
  Init init_;
  bool set_ = false;
};

template <class P>
inline constexpr bool is_parameter = false;
template <class X>
inline constexpr bool is_parameter<Parameter<X>> = true;

template <class X>
struct OperandTraits<Parameter<X>> {
  using TensorOf = X;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = true;
  static constexpr const X& value(const Parameter<X>& p) { return p.value(); }
  static constexpr const auto& slot(const Parameter<X>& p) { return p.slot(); }
};

}  // namespace shardwise
