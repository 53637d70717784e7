// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter: a tensor that an optimizer may change in place, the slots of its gradient, and the distribution of
/// its initial value. Its layouts when stored, when used, and for accumulated gradients may differ. Its gradient has
/// the type that its use demands: a parameter that is `Reduced` on the data axis accumulates a pending sum there.
/// Once the sum is complete (`reduce_gradients`), it moves to a slot of another type, so a term cannot be mistaken
/// for the sum. A frozen parameter is an operand like a tensor: no gradient is computed, reduced or stored for it.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/module/parameter_state.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

/// The gradient of a parameter with nothing pending: `Shard` where it is sharded; elsewhere the parameter's
/// placement, with `Replicate` instead of `Reduced`.
template <TensorType X, PackedSharding How = 0>
using finished_gradient_of = with_layout<X, packed(finished_layout(X::layout, unpacked(How)))>;

namespace detail {

/// Throws because a parameter was moved from.
[[noreturn, gnu::cold]] void no_cell();

template <class P>
using NoGradient =
    LayoutError<Reason::frozen_parameter_has_no_gradient, Got<P>,
                Cure<numbers_in(data_type_of<typename P::TensorOf::Element>()) == 1
                         ? hint_for(Reason::frozen_parameter_has_no_gradient)
                         : Hint::train_adapters_beside_it_as_LlamaAdapted_does_or_leave_it_unquantised>>;

}  // namespace detail

/// `X` is the type that operations use, `How` a packed `Sharding`. A parameter can be moved, but not copied.
template <TensorType X, PackedSharding How = 0>
class Parameter {
 public:
  static_assert(X::is_float || unpacked(How).frozen,
                "a parameter is of floating-point numbers: it has a gradient");
  static_assert(!has_partial(X::layout), "a parameter cannot be a pending sum: make it Reduced or Replicate");

  using TensorOf = X;
  using MeshOf = typename X::MeshOf;
  static constexpr Sharding sharding = unpacked(How);
  static constexpr ParameterLayouts layouts{X::layout, sharding};
  static_assert(sharding.nests(),
                "of two data axes that shard, the left one must not have the lower ZeRO level");
  static_assert(sharding.fits(X::layout),
                "ZeRO level 1 or 2 needs a dimension that no axis to its right shards");
  using Stored = with_layout<X, packed(layouts.stored)>;
  using Finished = finished_gradient_of<X, How>;
  /// Whether it is stored in a different layout than it is used in.
  static constexpr bool is_gathered = layouts.gathered;
  static constexpr bool frozen = sharding.frozen;

  /// Global extents `shape`. The value is not set: `initialize` or load the model before use.
  [[gnu::cold]] constexpr Parameter(const MeshOf& mesh, const Shape<X::rank>& shape, Init init)
      : Parameter(Stored(mesh, shape, frozen ? MemoryUse::frozen : MemoryUse::parameter), init) {}
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter&&) noexcept = default;
  Parameter(const Parameter&) = delete;             // take a reference, or share it: tied()
  Parameter& operator=(const Parameter&) = delete;  // share it: tied(), or copy its value: copy_parameters
  /// The same parameter, to be shared with another module.
  constexpr Parameter tied() const { return Parameter(stored_, cell()); }
  /// Rejects a wrong number of extents.
  template <int N>
    requires(N != X::rank)
  Parameter(const MeshOf&, const Index (&)[N], Init)
  = delete;
  Parameter(const MeshOf&, const Shape<X::rank>&) = delete;  // give it an Init too: Init::normal(0.02)

  /// The value for operations. Throws `std::logic_error` if it was never set, or if it is sharded and not gathered
  /// now: see `Unit`.
  constexpr std::conditional_t<is_gathered, X, const X&> value() const {
    if constexpr (is_gathered) {
      return X(mesh(), shape(), cell()->gathered_value());
    } else {
      return stored();
    }
  }
  /// The value stored between steps. Throws `std::logic_error` if it was never set.
  constexpr const Stored& stored() const {
    cell()->check_set();
    return stored_;
  }
  constexpr const Shape<X::rank>& shape() const { return (cell(), stored_.shape()); }
  constexpr const MeshOf& mesh() const { return (cell(), stored_.mesh()); }

  /// The gradient that `backward` has accumulated since the last reduction: pending where the parameter is
  /// `Reduced`. Empty if there is none.
  constexpr cotangent_of<X> gradient() const requires(!frozen) {
    return detail::gradient_of<X>(mesh(), shape(), cell()->pending->sum());
  }
  constexpr const Shared<GradientSlot>& slot() const requires(!frozen) { return cell()->pending; }

  /// The gradient after `reduce_gradients`; empty before, and again after an optimizer's step. Throws
  /// `std::logic_error` if `lower_zero_level` has given it another layout.
  constexpr Finished finished_gradient() const requires(!frozen) {
    if (!cell()->finished.filled()) return Finished();
    if (!(cell()->layouts.finished == Finished::layout))
      throw std::logic_error("Parameter: lower_zero_level has changed the layout of its gradient");
    return Finished(mesh(), shape(), cell()->finished.sum());
  }
  template <IllFormed Why = detail::NoGradient<Parameter>>
  Why gradient() const requires(frozen);  // see Why
  template <IllFormed Why = detail::NoGradient<Parameter>>
  Why finished_gradient() const requires(frozen);  // see Why
  /// For code that handles parameters of any type. Throws `std::logic_error`, like all members, if the parameter
  /// was moved from.
  constexpr const Shared<detail::ParameterState>& cell() const {
    if (!cell_) detail::no_cell();
    return cell_;
  }

  /// Draws the initial value: the same global tensor on every mesh.
  void initialize(std::uint64_t seed) { cell()->initialize(seed); }

  /// Copies the value of a tensor of the stored type and the same shape, on a mesh of the same sizes. Throws
  /// `std::invalid_argument` for others, and for a tensor that `stored()` or `value()` of this parameter returned,
  /// because it shares the parameter's memory.
  constexpr void assign(const Stored& value) {
    if (value.buffer().same_as(cell()->stored.buffer)) {
      throw std::invalid_argument(
          "Parameter: assign is given what stored() or value() of the same parameter returned, which always "
          "is the newest value: to keep a value, copy it, with scale(parameter.stored(), 1)");
    }
    if (value.shape() != shape())
      detail::fail({"Parameter: the value is ", value.shape(), ", the parameter ", shape()});
    if (!(value.mesh().sizes() == mesh().sizes()))
      throw std::invalid_argument("Parameter: the value is on a mesh of other sizes");
    if (!mesh().dry()) kernel::copy(value.view().elements(), value.data(), writable().data);
    cell()->writable();
  }

  /// This rank's stored block, to be changed in place by an optimizer or a loader.
  constexpr View<typename X::Element, X::rank> writable() {
    cell()->writable();
    return detail::view_to_write(stored_);
  }

  /// For operations whose pullback needs the value: the backward pass gathers it again.
  constexpr Shared<Recipe> recipe() const requires(is_gathered) { return detail::gathered_again(cell()); }

 private:
  constexpr Parameter(const Stored& stored, const Init& init)
      : Parameter(stored, detail::new_parameter_state(detail::AnyTensor(stored), layouts,
                                                      detail::element_functions<typename X::Element>, init)) {
  }
  constexpr Parameter(const Stored& stored, const Shared<detail::ParameterState>& cell)
      : stored_(stored), cell_(cell) {}

  Stored stored_;
  Shared<detail::ParameterState> cell_;
};

/// Whether `P` is a `Parameter`.
template <class P>
inline constexpr bool is_parameter = false;
template <class X, PackedSharding How>
inline constexpr bool is_parameter<Parameter<X, How>> = true;

template <class X, PackedSharding How>
struct OperandTraits<Parameter<X, How>> {
  using TensorOf = X;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = !Parameter<X, How>::frozen;
  static constexpr decltype(auto) value(const Parameter<X, How>& p) { return p.value(); }
  static constexpr const auto& slot(const Parameter<X, How>& p) { return p.slot(); }
};

namespace detail {

/// A parameter has no tape on which the gradient of the result could return.
template <class X, PackedSharding How, class... Arguments>
struct Redistributed<Parameter<X, How>, Arguments...>
    : TypeIs<layout_error<Reason::parameter_has_no_tape_use_alongside, Got<Parameter<X, How>>>> {};

}  // namespace detail

/// A parameter in its stored layout, for a module that uses it directly. Its gradient is accumulated there.
template <class P>
struct AsStored {
  static_assert(cotangent(P::layouts.stored) == P::layouts.accumulated,
                "its gradient accumulates in another layout");
  const P& parameter;
};

template <class P>
struct OperandTraits<AsStored<P>> {
  using TensorOf = typename P::Stored;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = !P::frozen;
  static constexpr const TensorOf& value(const AsStored<P>& p) { return p.parameter.stored(); }
  static constexpr const auto& slot(const AsStored<P>& p) { return p.parameter.cell()->accumulated; }
};

#ifdef SHARDWISE_BODIES
namespace detail {

SHARDWISE_INLINE void no_cell() {
  throw std::logic_error(
      "a parameter is used that was moved from, with its model: use the model that it was moved to");
}

}  // namespace detail
#endif

}  // namespace shardwise
