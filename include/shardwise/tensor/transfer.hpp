// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Performs one step of a route: from a block of one layout to a block of the next, with at most one collective.

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/route.hpp>
#include <shardwise/tensor/exchange.hpp>

namespace shardwise::detail {  // the implementation of redistribute

/// A slice, or a term of a pending sum: this rank's contribution, padded with zeros. Returns the same block if
/// nothing changes, else a copy counted as `use`.
constexpr AnyTensor changed_locally(AnyTensor from, const Layout& to, MemoryUse use = MemoryUse::activation) {
  const MeshSizes &sizes = from.mesh.sizes(), &coordinates = from.mesh.coordinates();
  bool contributes = true, pending = false;
  for (int axis = 0; axis < to.axes; ++axis) {
    if (!to[axis].is_partial() || from.layout[axis].is_partial() || sizes[axis] == 1) continue;
    pending = true;
    if (from.layout[axis].is_full() && coordinates[axis] != 0) contributes = false;
  }
  const AnyBox source = from.box(), target = local_box(from.shape, to, sizes, coordinates);
  if (source == target && contributes) return from.with_layout(to);
  AnyTensor result = from.unwritten(to, use);
  if (from.mesh.dry()) return result;
  const Index element = from.element_bytes();
  const AnyBox part = intersection(source, target);
  auto* data = static_cast<char*>(result.buffer->data);
  if (pending) {  // zeros outside the part
    const Index place = contributes && part.elements() > 0 ? place_of(part, target) : -1;
    const Index begin = place < 0 ? 0 : place, end = place < 0 ? 0 : place + part.elements();
    auto clear = [&](Index first, Index last) {
      if (first < last)
        std::memset(data + first * element, 0, static_cast<std::size_t>((last - first) * element));
    };
    clear(0, begin);
    clear(end, target.elements());
  }
  if (contributes) copy_part(element, part, from.buffer->data, source, data, target);
  return result;
}

/// The pending reduction on one of the axes.
constexpr ReduceOp pending_op(const Layout& layout, AxisSet axes) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    if ((axes >> axis & 1u) && layout[axis].is_partial()) return layout[axis].op();
  }
  return ReduceOp::sum;
}

/// Construct, `start()`, then `finish()`.
class Transfer final : public AnyInFlight {
 public:
  /// `in_place`: an all-reduce may write to the block of `from`, as it may if that has no other handle.
  constexpr Transfer(AnyTensor&& from, const Step& step, DataType travels, bool in_place = false)
      : exchange_(from.mesh, travels,
                  {step.kind, step.axes, pending_op(from.layout, step.axes), MemoryUse::activation}) {
    if (step.kind == Collective::none) {
      to_ = changed_locally(std::move(from), step.to);
      return;
    }
    if (step.kind == Collective::all_reduce && (in_place || from.buffer.unique())) {
      to_ = from.with_layout(step.to);  // in place
    } else {
      to_ = from.unwritten(step.to, MemoryUse::activation);
    }
    exchange_.add(std::move(from), to_);
  }

  /// For `TransferInPieces`.
  constexpr Exchange& exchange() { return exchange_; }
  constexpr const AnyTensor& result() const { return to_; }

  constexpr void start(bool background) {
    if (exchange_.way().kind != Collective::none) exchange_.start(background);
  }
  /// Waits if necessary, and returns the tensor in the new layout.
  constexpr AnyTensor finish() override {
    if (exchange_.way().kind != Collective::none) exchange_.finish();
    return std::move(to_);
  }

 private:
  AnyTensor to_;
  Exchange exchange_;
};

constexpr Route route_of(const AnyTensor& x, const Layout& to) {
  if (__builtin_is_constant_evaluated()) return route(x.layout, to, x.rank, x.mesh.sizes());
  return cached_route(x.layout, to, x.rank, x.mesh.sizes());
}
/// Performs the steps before `end`.
constexpr void move_along(AnyTensor& x, const Route& way, const Step* end, DataType travels) {
  for (const Step* step = way.begin(); step < end; ++step) {
    Transfer transfer(std::move(x), *step, travels);
    transfer.start(false);
    x = transfer.finish();
  }
}

constexpr AnyTensor redistribute_here(AnyTensor x, const Layout& to, DataType travels) {
  const Route way = route_of(x, to);
  move_along(x, way, way.end(), travels);
  return x;
}
constexpr Shared<AnyInFlight> begin_here(AnyTensor x, const Layout& to, DataType travels) {
  const Route way = route_of(x, to);
  const Step* last = way.end() - 1;
  move_along(x, way, last, travels);
  auto transfer = Shared<Transfer>::make(std::move(x), *last, travels);
  transfer->start(true);
  return transfer;
}

/// Moves `x` to an untyped handle: if it was the only handle, later steps may write in place.
template <TensorType X>
constexpr AnyTensor given_up(X& x) {
  return AnyTensor(std::exchange(x, X()));
}

/// `x` in another layout, with messages of element type `travels`.
SHARDWISE_ONCE(AnyTensor, redistributed_to, (AnyTensor x, const Layout& to, DataType travels),
               (std::move(x), to, travels), redistribute_here(std::move(x), to, travels))

/// Performs all steps but the last, which the caller finishes.
SHARDWISE_ONCE(Shared<AnyInFlight>, last_step, (AnyTensor x, const Layout& to, DataType travels),
               (std::move(x), to, travels), begin_here(std::move(x), to, travels))

}  // namespace shardwise::detail
