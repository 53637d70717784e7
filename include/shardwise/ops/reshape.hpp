// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `reshape`: the same elements in the same row-major order under other extents. No data is moved, neither
/// forward nor backward; so it is defined only where every rank's block of the old tensor is its block of the
/// new one.
///
/// ```
/// y = reshape(x, {batch, sequence, heads, head_dim});          // the placements stay as they are
/// y = reshape<Shard<0>, Shard<1>>(x, {batch * sequence, dim});   // x was <Shard<0>, Shard<2>>, say
/// ```
/// The type decides that each axis keeps its kind of placement: `Shard` of perhaps another dimension,
/// `Replicate`, `Reduced` and `Partial` as they are. The extents decide the rest, on every rank alike: 12 x 8
/// sharded on dimension 1 over 4 ranks is not 16 x 6 in any layout, and throws.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// The first axis that cannot be placed as wanted, or -1.
constexpr int axis_that_reshape_loses(const Layout& from, const Layout& to, int rank) {
  for (int axis = 0; axis < from.axes; ++axis) {
    const bool kept =
        from[axis].is_shard() ? to[axis].is_shard() && to[axis].dim() < rank : to[axis] == from[axis];
    if (!kept) return axis;
  }
  return -1;
}

/// A placement on one axis that `reshape` can keep.
constexpr Placement kept_by_reshape(Placement from, Placement asked, int rank) {
  if (!from.is_shard()) return from;
  const int dim = asked.is_shard() ? asked.dim() : from.dim();
  return rank == 0 ? replicate : shard(dim < rank ? dim : rank - 1);
}

template <class Given, int Rank, class... Placements>
struct Reshaped {
  using X = tensor_of<Given>;
  /// Without placements the old layout is kept.
  static constexpr Layout layout() {
    if constexpr (sizeof...(Placements) == 0) {
      return X::layout;
    } else {
      return layout_of<Placements...>;
    }
  }
  static constexpr auto type_of() {
    constexpr int given = sizeof...(Placements), needed = X::MeshOf::axes;
    if constexpr (!(PlacementTag<Placements> && ...) || (given != 0 && given != needed)) {
      return Refused<Reason::one_placement_per_mesh_axis_is_needed, Expected<typename X::MeshOf::AxesOf>,
                     Got<Placements...>>{};
    } else if constexpr (axis_that_reshape_loses(X::layout, layout(), Rank) >= 0) {
      constexpr int axis = axis_that_reshape_loses(X::layout, layout(), Rank);
      constexpr Placement asked = layout()[axis];
      return Refused<Reason::reshape_cannot_keep_this_dimension_sharded,
                     On<typename X::MeshOf::AxesOf::template at<axis>>,
                     Expected<placement_type<kept_by_reshape(X::layout[axis], asked, Rank).code>>,
                     Got<placement_type<asked.code>>>{};
    } else {
      using Y = tensor_with<typename X::Element, Rank, typename X::MeshOf, packed(layout())>;
      return TypeIs<typename Differentiable<Given, Y>::type>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
template <TensorOperand Given, int Rank, class... Placements>
  requires is_parameter_alone<Given>
struct Reshaped<Given, Rank, Placements...> : LostGradient<Given> {
};
template <Operand Given, int Rank, class... Placements>
  requires(!TensorOperand<Given>)
struct Reshaped<Given, Rank, Placements...> : TypeIs<tensor_of<Given>> {};

template <class X, bool OnTape, bool Tracked, int Rank, class... Placements>
struct Reshaped<Abstract<X, OnTape, Tracked>, Rank, Placements...> {
  static constexpr auto type_of() {
    if constexpr (IllFormed<X>) {
      return TypeIs<X>{};
    } else {
      return Reshaped<std::conditional_t<Tracked, Var<X, true>, X>, Rank, Placements...>{};
    }
  }
  using type = Abstract<typename decltype(type_of())::type, OnTape, Tracked>;
};

/// Which elements of the row-major order a block holds, in few numbers: dimensions are joined where the block
/// stays a box. Equal forms are equal sets of elements, whatever the extents were.
struct BlockForm {
  struct Dimension {
    Index extent = 0, begin = 0, size = 0;
    friend constexpr bool operator==(const Dimension&, const Dimension&) = default;
  };
  Array<Dimension, max_rank> dims{};
  int rank = 0;

  template <int Rank>
  constexpr BlockForm(const Shape<Rank>& shape, const Box<Rank>& box) {
    if (box.elements() == 0) {
      rank = -1;
      return;
    }
    for (int dim = 0; dim < Rank; ++dim) {
      const Dimension inner{shape[dim], box.begin[dim], box.size[dim]};
      if (inner.extent == 1) continue;
      if (rank > 0 && (last().size == 1 || inner.size == inner.extent)) {
        last() = {last().extent * inner.extent, last().begin * inner.extent + inner.begin,
                  (last().size - 1) * inner.extent + inner.size};
      } else {
        ++rank;
        last() = inner;
      }
    }
  }
  constexpr Dimension& last() { return dims[rank - 1]; }
  friend constexpr bool operator==(const BlockForm&, const BlockForm&) = default;
};

/// Whether the elements stay where they are, on every rank of the mesh.
template <int From, int To>
constexpr bool reshape_is_local(const MeshSizes& sizes, const Shape<From>& old_shape,
                                const Layout& old_layout, const Shape<To>& new_shape,
                                const Layout& new_layout) {
  const AxisSet cutting = old_layout.axes_where([](Placement p) { return p.is_shard(); });
  const int members = group_size(sizes, old_layout.axes, cutting);
  for (int m = 0; members > 1 && m < members; ++m) {
    MeshSizes at = group_member(sizes, {}, old_layout.axes, cutting, m);
    if (BlockForm(old_shape, local_box(old_shape, old_layout, sizes, at)) !=
        BlockForm(new_shape, local_box(new_shape, new_layout, sizes, at))) {
      return false;
    }
  }
  return true;
}

[[noreturn, gnu::cold]] inline void fail_to_reshape(std::span<const Index> from, std::span<const Index> to,
                                                    const Layout& old_layout, const Layout& new_layout,
                                                    const MeshSizes& sizes, const char* const* names) {
  std::string axes;
  for (int axis = 0; axis < old_layout.axes; ++axis) {
    if (!old_layout[axis].is_shard()) continue;
    axes += text({axes.empty() ? "" : " and ", "dimension ", old_layout[axis].dim(), " over the ",
                  sizes[axis], " ranks of ", names[axis], ", then dimension ", new_layout[axis].dim()});
  }
  fail({"reshape: ", from, " cannot become ", to, " without moving data, sharded as it is: ", axes,
        "; redistribute to Replicate there first"});
}
/// By value, so that compilers show the numbers if it throws in a constant expression.
template <int From, int To>
constexpr void check_no_data_moves(Shape<From> from, Shape<To> to, const Layout& old_layout,
                                   const Layout& new_layout, MeshSizes ranks, const char* const* names) {
  if (reshape_is_local(ranks, from, old_layout, to, new_layout)) return;
  fail_to_reshape({from.data(), From}, {to.data(), To}, old_layout, new_layout, ranks, names);
}

template <TensorType Y, TensorType X>
constexpr void check_reshape(const X& x, const Shape<Y::rank>& shape) {
  check_extents(shape, "reshape");
  if (elements(shape) != elements(x.shape())) {
    fail({"reshape: ", x.shape(), " has ", elements(x.shape()), " elements, but ", shape, " has ",
          elements(shape)});
  }
  check_no_data_moves(x.shape(), shape, X::layout, Y::layout, x.mesh().sizes(),
                      X::MeshOf::AxesOf::names.data());
}

class ReshapeNode final : public TapeNode {
 public:
  constexpr ReshapeNode(const MeshView& mesh, const ElementSum& elements, Shared<GradientSlot> from,
                        const Shared<GradientSlot>& slot)
      : mesh_(mesh), elements_(elements), from_(std::move(from)), slot_(slot) {}
  constexpr bool pull_back(BackwardPart) override {
    if (Buffer dy = slot_->pass()) from_->add(std::move(dy), elements_, mesh_.recorder());
    return false;
  }

 private:
  MeshView mesh_;
  const ElementSum& elements_;
  Shared<GradientSlot> from_;
  ResultSlot slot_;
};

}  // namespace detail

/// The tensor type that `reshape<Placements...>` to `Rank` dimensions makes of an `X`, or a `LayoutError`.
template <class X, int Rank, class... Placements>
using reshaped = typename detail::Reshaped<X, Rank, Placements...>::type;

/// x with the extents `shape`, of as many elements, in the same memory. Throws `std::invalid_argument`, on
/// every rank, if the blocks would not stay where they are.
template <class... Placements, Operand X, int Rank, class Result = reshaped<X, Rank, Placements...>>
constexpr auto reshape(const X& x, const Shape<Rank>& shape) {
  if constexpr (AbstractOperand<X>) {
    return Result();
  } else {
    const tensor_of<X>& value = value_of(x);
    detail::check_reshape<Result>(detail::with_block(value), shape);
    return on_common_tape(
        Result(value.mesh(), shape, value.buffer()),
        [&](Tape& tape, const Result&, const auto& slot) {
          tape.record<detail::ReshapeNode>(MeshView(value.mesh()),
                                           detail::element_sum<typename Result::Element>, slot_of(x), slot);
          return Shared<Recipe>();
        },
        x);
  }
}
template <class... Placements, Operand X, int Rank, IllFormed Why = reshaped<X, Rank, Placements...>>
Why reshape(const X&, const Shape<Rank>&);  // see Why

/// The same for extents in braces.
template <class... Placements, Operand X, int Rank, class Result = reshaped<X, Rank, Placements...>>
constexpr auto reshape(const X& x, const Index (&shape)[Rank]) {
  return reshape<Placements...>(x, to_array(shape));
}
template <class... Placements, Operand X, int Rank, IllFormed Why = reshaped<X, Rank, Placements...>>
Why reshape(const X&, const Index (&)[Rank]);  // see Why

}  // namespace shardwise
