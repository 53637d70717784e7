// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter: a tensor that an optimizer may change in place, the slots of its gradient, and the
/// distribution that its first value is drawn from. How it is stored, how it is used and where its gradient comes
/// to rest are three layouts. Its gradient has the type that its use demands: a parameter that is `Reduced` on the
/// data axis gathers a pending sum there, through all uses. When the sum is made (`reduce_gradients`), it goes to a
/// slot of another type, so nobody takes a term for the sum.

#include <cmath>

#include <shardwise/autograd/operand.hpp>
#include <shardwise/module/sharding.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

namespace detail {
class Bundles;
}

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

/// The gradient of a parameter with nothing pending: `Shard` where it is sharded, else as the parameter lies, but
/// `Replicate` where that is `Reduced`.
template <TensorType X, PackedSharding How = 0>
using finished_gradient_of = relaid<X, packed(finished_layout(X::layout, unpacked(How)))>;

namespace detail {

/// What all copies of a parameter share.
template <TensorType X, PackedSharding How>
struct ParameterCell : Counted {
  using MeshOf = typename X::MeshOf;
  using Stored = relaid<X, packed(stored_layout(X::layout, unpacked(How)))>;
  using Resting = relaid<X, packed(resting_layout(X::layout, unpacked(How)))>;
  using Finished = finished_gradient_of<X, How>;

  constexpr ParameterCell(const MeshOf& mesh, const Shape<X::rank>& shape, Init first)
      : stored(mesh, shape, MemoryUse::parameter),
        pending(SlotFor<X>::make(waits() ? MemoryUse::gradient : MemoryUse::gathered)),
        init(first) {}

  /// Is it stored in another layout than it is used in?
  static constexpr bool is_gathered = !std::is_same_v<X, Stored>;
  /// Do pending gradients stay until the step?
  static constexpr bool waits() { return std::is_same_v<Resting, cotangent_of<X>>; }

  Stored stored;
  X gathered;                  ///< while it is in use, if it is not stored so
  Bundles* carrier = nullptr;  ///< what may still be on the way with `gathered`
  int users = 0;               ///< of `gathered`
  unsigned changes = 0;        ///< of the value
  unsigned gathered_at = 0;    ///< how many changes `gathered` knows of
  bool set = false, seen = false;
  SlotFor<X> pending;
  GradientSlot<Resting> resting{MemoryUse::gradient};  ///< not used if pending gradients stay where they are
  GradientSlot<Finished> finished{MemoryUse::gradient};
  Init init;
};

/// The value of a gathered parameter in the backward pass, when it is gathered again.
template <TensorType X, PackedSharding How>
class GatheredRecipe final : public Recipe<X> {
 public:
  constexpr explicit GatheredRecipe(Shared<ParameterCell<X, How>> cell) : cell_(std::move(cell)) {}

 private:
  constexpr X compute() override { return cell_->gathered; }

  Shared<ParameterCell<X, How>> cell_;
};

}  // namespace detail

/// `X` is the type that operations use, `How` a packed `Sharding`. Copies of a parameter are one parameter.
template <TensorType X, PackedSharding How = 0>
class Parameter {
  using Cell = detail::ParameterCell<X, How>;

 public:
  static_assert(!has_partial(X::layout), "a parameter cannot be a pending sum: make it Reduced or Replicate");

  using TensorOf = X;
  using MeshOf = typename X::MeshOf;
  static constexpr Sharding sharding = unpacked(How);
  static_assert(sharding.nests(),
                "of two data axes that shard, the left one must not have the lower ZeRO level");
  using Stored = typename Cell::Stored;
  using Finished = typename Cell::Finished;
  /// Is it stored in another layout than it is used in?
  static constexpr bool is_gathered = Cell::is_gathered;
  /// Do pending gradients stay until the step?
  static constexpr bool waits() { return Cell::waits(); }

  /// Global extents `shape`. The value is not set: `initialize` a model, or load it, before using it.
  constexpr Parameter(const MeshOf& mesh, const Shape<X::rank>& shape, Init init)
      : cell_(Shared<Cell>::make(mesh, shape, init)) {}

  /// What operations use. Throws `std::logic_error` if the value was never set; or if it is sharded, and not
  /// gathered now: see `Unit`.
  constexpr const X& value() const {
    if constexpr (is_gathered) {
      stored();
      if (!cell_->gathered) {
        throw std::logic_error(
            "a fully sharded parameter is used, but not gathered: run the modules that use it in a Unit");
      }
      return cell_->gathered;
    } else {
      return stored();
    }
  }
  /// What is kept between the steps. Throws `std::logic_error` if it was never set.
  constexpr const Stored& stored() const {
    if (!X::MeshOf::dry && !cell_->set) {
      throw std::logic_error("a parameter is used before it has a value: call initialize(model, seed) first");
    }
    return cell_->stored;
  }
  constexpr const Shape<X::rank>& shape() const { return cell_->stored.shape(); }
  constexpr const MeshOf& mesh() const { return cell_->stored.mesh(); }

  /// What `backward` left since gradients were last reduced: pending where the parameter is `Reduced`. Empty if
  /// there is nothing.
  constexpr const cotangent_of<X>& gradient() const { return slot()->gradient(); }
  constexpr const SlotFor<X>& slot() const { return cell_->pending; }

  /// What `reduce_gradients` made of it; empty before, and again after an optimizer's step.
  constexpr const Finished& finished_gradient() const { return cell_->finished.gradient(); }
  /// For `reduce_gradients` and optimizers.
  constexpr GradientSlot<Finished>& finished_slot() const { return cell_->finished; }
  /// For units and `reduce_gradients`.
  constexpr const Shared<Cell>& cell() const { return cell_; }

  /// Draws the first value: the same global tensor on every mesh.
  constexpr void initialize(std::uint64_t seed) {
    using T = typename X::Element;
    const Init init = cell_->init;
    change();
    switch (init.kind) {
      case Init::Kind::normal:
        return fill_normal(cell_->stored, seed, 0, init.scale);
      case Init::Kind::uniform:
        return fill_uniform(cell_->stored, seed, -init.scale, init.scale);
      case Init::Kind::constant:
        if constexpr (!MeshOf::dry) {
          const auto block = cell_->stored.writable();
          std::fill_n(block.data, block.elements(), static_cast<T>(init.scale));
        }
    }
  }

  /// Takes a copy of a tensor of the stored type and of the same shape.
  constexpr void assign(const Stored& value) {
    if (value.shape() != shape()) throw std::invalid_argument("Parameter: the value has another shape");
    if constexpr (!MeshOf::dry) kernel::copy(value.view().elements(), value.data(), writable().data);
    change();
  }

  /// This rank's block of what is stored, to be changed in place by an optimizer or a loader.
  constexpr View<typename X::Element, X::rank> writable() {
    change();
    return cell_->stored.writable();
  }

  /// For operations that need the value in their pullback.
  constexpr RecipeFor<X> recipe() const requires(is_gathered) {
    return Shared<detail::GatheredRecipe<X, How>>::make(cell_);
  }

 private:
  constexpr void change() {
    cell_->set = true;
    ++cell_->changes;
  }

  Shared<Cell> cell_;
};

template <class P>
inline constexpr bool is_parameter = false;
template <class X, PackedSharding How>
inline constexpr bool is_parameter<Parameter<X, How>> = true;

template <class X, PackedSharding How>
struct OperandTraits<Parameter<X, How>> {
  using TensorOf = X;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = true;
  static constexpr const X& value(const Parameter<X, How>& p) { return p.value(); }
  static constexpr const auto& slot(const Parameter<X, How>& p) { return p.slot(); }
};

}  // namespace shardwise
