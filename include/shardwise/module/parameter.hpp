// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter: a tensor that an optimizer may change in place, the slots of its gradient, and the
/// distribution that its first value is drawn from. How it is stored, how it is used and where its gradient comes
/// to rest are three layouts. Its gradient has the type that its use demands: a parameter that is `Reduced` on the
/// data axis gathers a pending sum there, through all uses. When the sum is made (`reduce_gradients`), it goes to a
/// slot of another type, so nobody takes a term for the sum. A frozen parameter is an operand as a tensor is: nothing
/// is computed for it, reduced, or kept.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/module/parameter_cell.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

/// The gradient of a parameter with nothing pending: `Shard` where it is sharded, else as the parameter lies, but
/// `Replicate` where that is `Reduced`.
template <TensorType X, PackedSharding How = 0>
using finished_gradient_of = relaid<X, packed(finished_layout(X::layout, unpacked(How)))>;

namespace detail {

/// What a parameter holds, with the type that it is stored in.
template <TensorType Stored>
struct TypedParameterCell final : ParameterCell {
  constexpr TypedParameterCell(Stored value, const ParameterLayouts& layouts_of_it, const Init& first)
      : ParameterCell(AnyTensor(value), layouts_of_it, element_functions<typename Stored::Element>, first),
        typed(std::move(value)) {}

  Stored typed;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void no_cell() {
  throw std::logic_error(
      "a parameter is used that was moved from, with its model: use the model that it was moved to");
}

}  // namespace detail

/// `X` is the type that operations use, `How` a packed `Sharding`. A parameter is moved, not copied.
template <TensorType X, PackedSharding How = 0>
class Parameter {
 public:
  static_assert(X::is_float, "a parameter is of floating-point numbers: it has a gradient");
  static_assert(!has_partial(X::layout), "a parameter cannot be a pending sum: make it Reduced or Replicate");

  using TensorOf = X;
  using MeshOf = typename X::MeshOf;
  static constexpr Sharding sharding = unpacked(How);
  static constexpr ParameterLayouts layouts{X::layout, sharding};
  static_assert(sharding.nests(),
                "of two data axes that shard, the left one must not have the lower ZeRO level");
  using Stored = relaid<X, packed(layouts.stored)>;
  using Finished = finished_gradient_of<X, How>;
  using Cell = detail::TypedParameterCell<Stored>;
  /// Is it stored in another layout than it is used in?
  static constexpr bool is_gathered = layouts.gathered;
  static constexpr bool frozen = sharding.frozen;

  /// Global extents `shape`. The value is not set: `initialize` a model, or load it, before using it.
  [[gnu::cold]] constexpr Parameter(const MeshOf& mesh, const Shape<X::rank>& shape, Init init)
      : cell_(Shared<Cell>::make(Stored(mesh, shape, frozen ? MemoryUse::frozen : MemoryUse::parameter),
                                 layouts, init)) {}
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter&&) noexcept = default;
  Parameter(const Parameter&) = delete;             // take a reference, or share it: tied()
  Parameter& operator=(const Parameter&) = delete;  // share it: tied(), or copy its value: copy_parameters
  /// The same parameter, for another module that uses it too.
  constexpr Parameter tied() const { return Parameter(Shared<Cell>(cell())); }
  /// The extents are too few, or too many.
  template <int N>
    requires(N != X::rank)
  Parameter(const MeshOf&, const Index (&)[N], Init)
  = delete;
  Parameter(const MeshOf&, const Shape<X::rank>&) = delete;  // give it an Init too: Init::normal(0.02)

  /// What operations use. Throws `std::logic_error` if the value was never set; or if it is sharded, and not
  /// gathered now: see `Unit`.
  constexpr std::conditional_t<is_gathered, X, const X&> value() const {
    if constexpr (is_gathered) {
      return X(mesh(), shape(), cell()->gathered_value());
    } else {
      return stored();
    }
  }
  /// What is kept between the steps. Throws `std::logic_error` if it was never set.
  constexpr const Stored& stored() const {
    cell()->check_set();
    return cell()->typed;
  }
  constexpr const Shape<X::rank>& shape() const { return cell()->typed.shape(); }
  constexpr const MeshOf& mesh() const { return cell()->typed.mesh(); }

  /// What `backward` left since gradients were last reduced: pending where the parameter is `Reduced`. Empty if
  /// there is nothing.
  constexpr cotangent_of<X> gradient() const requires(!frozen) {
    return detail::gradient_of<X>(mesh(), shape(), cell()->pending->sum());
  }
  constexpr const Shared<GradientSlot>& slot() const requires(!frozen) { return cell()->pending; }

  /// What `reduce_gradients` made of it; empty before, and again after an optimizer's step.
  constexpr Finished finished_gradient() const requires(!frozen) {
    if (!cell()->finished.filled()) return Finished();
    return Finished(mesh(), shape(), cell()->finished.sum());
  }
  template <IllFormed Why = layout_error<Reason::frozen_parameter_has_no_gradient, Got<Parameter>>>
  Why gradient() const requires(frozen);  // see Why
  template <IllFormed Why = layout_error<Reason::frozen_parameter_has_no_gradient, Got<Parameter>>>
  Why finished_gradient() const requires(frozen);  // see Why
  /// For what works on parameters of any type. Throws `std::logic_error`, as all members do, if the parameter was moved from.
  constexpr const Shared<Cell>& cell() const {
    if (!cell_) detail::no_cell();
    return cell_;
  }

  /// Draws the first value: the same global tensor on every mesh.
  void initialize(std::uint64_t seed) { cell()->initialize(seed); }

  /// Takes a copy of a tensor of the stored type and of the same shape, on a mesh of the same sizes. Throws
  /// `std::invalid_argument` for others.
  constexpr void assign(const Stored& value) {
    if (value.shape() != shape())
      detail::fail({"Parameter: the value is ", value.shape(), ", the parameter ", shape()});
    if (!(value.mesh().sizes() == mesh().sizes()))
      throw std::invalid_argument("Parameter: the value is on a mesh of other sizes");
    if (!mesh().dry()) kernel::copy(value.view().elements(), value.data(), writable().data);
    cell()->writable();
  }

  /// This rank's block of what is stored, to be changed in place by an optimizer or a loader.
  constexpr View<typename X::Element, X::rank> writable() {
    cell()->writable();
    return cell()->typed.writable();
  }

  /// For operations that need the value in their pullback: in the backward pass it is gathered again.
  constexpr Shared<Recipe> recipe() const requires(is_gathered) {
    return Shared<detail::GatheredAgain>::make(cell());
  }

 private:
  constexpr explicit Parameter(Shared<Cell>&& cell) : cell_(std::move(cell)) {}

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
  static constexpr bool tracked = !Parameter<X, How>::frozen;
  static constexpr decltype(auto) value(const Parameter<X, How>& p) { return p.value(); }
  static constexpr const auto& slot(const Parameter<X, How>& p) { return p.slot(); }
};

namespace detail {

/// There is no tape that the gradient of the result could come back on.
template <class X, PackedSharding How, class... Arguments>
struct Redistributed<Parameter<X, How>, Arguments...> {
  using type = layout_error<Reason::parameter_is_on_no_tape_by_itself, Got<Parameter<X, How>>>;
};

}  // namespace detail

/// A parameter as it is stored, for a module that uses it so. Its gradient goes where it rests.
template <class P>
struct AsStored {
  static_assert(cotangent(P::layouts.stored) == P::layouts.resting, "its gradient rests in another layout");
  const P& parameter;
};

template <class P>
struct OperandTraits<AsStored<P>> {
  using TensorOf = typename P::Stored;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = !P::frozen;
  static constexpr const TensorOf& value(const AsStored<P>& p) { return p.parameter.stored(); }
  static constexpr const auto& slot(const AsStored<P>& p) { return p.parameter.cell()->resting; }
};

}  // namespace shardwise
