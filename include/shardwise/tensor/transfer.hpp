// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step of a route, carried out: from the block of one layout to the block of the next, with at most one
/// collective. On a dry mesh the same code only counts.

#include <vector>

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/permute.hpp>
#include <shardwise/layout/route.hpp>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise::detail {  // the machinery of redistribute

template <int Rank>
constexpr Shape<Rank> row_major_strides(const Shape<Rank>& size) {
  Shape<Rank> strides{};
  Index stride = 1;
  for (int dim = Rank; dim-- > 0;) {
    strides[dim] = stride;
    stride *= size[dim];
  }
  return strides;
}

/// Copies the indices of `part` from a block that holds `from` to one that holds `to`.
template <class T, int Rank>
void copy_part(const Box<Rank>& part, const T* source, const Box<Rank>& from, T* target,
               const Box<Rank>& to) {
  if (part.elements() == 0) return;
  auto source_strides = row_major_strides(from.size);
  auto target_strides = row_major_strides(to.size);
  for (int dim = 0; dim < Rank; ++dim) {
    source += (part.begin[dim] - from.begin[dim]) * source_strides[dim];
    target += (part.begin[dim] - to.begin[dim]) * target_strides[dim];
  }
  kernel::copy_box(Rank, part.size.data(), source, source_strides.data(), target, target_strides.data());
}

/// Where the first element of `part` lies in a block that holds `whole`, if its elements lie there one after
/// another; else -1.
template <int Rank>
constexpr Index place_of(const Box<Rank>& part, const Box<Rank>& whole) {
  Index place = 0, stride = 1;
  bool rows_are_whole = true;
  for (int dim = Rank; dim-- > 0;) {
    if (!rows_are_whole && part.size[dim] != 1) return -1;
    rows_are_whole = rows_are_whole && part.size[dim] == whole.size[dim];
    place += (part.begin[dim] - whole.begin[dim]) * stride;
    stride *= whole.size[dim];
  }
  return place;
}

/// Counts and offsets of the pieces that go to, or come from, each rank of a group.
struct Pieces {
  std::vector<Index> counts, offsets;
  Index total = 0;

  void add(Index count) {
    counts.push_back(count);
    offsets.push_back(total);
    total += count;
  }
};

/// Construct to prepare, then `run()` or `start()`, then `finish()`.
template <class T, int Rank, class MeshType>
class Transfer {
 public:
  using BoxOf = Box<Rank>;

  constexpr Transfer(const MeshType& mesh, const Shape<Rank>& shape, const Layout& from, const Step& step,
                     Buffer in)
      : mesh_(mesh), shape_(shape), from_(from), step_(step), in_(std::move(in)) {
    source_ = box_in(from, mesh.coordinates());
    target_ = box_in(step.to, mesh.coordinates());
    switch (step.kind) {
      case Collective::none:
        change_locally();
        break;
      case Collective::all_reduce:
        prepare_all_reduce();
        break;
      case Collective::all_gather:
        prepare_all_gather();
        break;
      case Collective::reduce_scatter:
        prepare_reduce_scatter();
        break;
      case Collective::all_to_all:
        prepare_all_to_all();
        break;
    }
  }

  /// Communicates, and returns when it is done.
  constexpr void run() {
    if constexpr (!MeshType::dry) communicate();
  }

  /// Starts to communicate, and returns at once.
  constexpr void start() {
    if constexpr (!MeshType::dry) start_to_communicate();
  }

  /// Waits if need be, and returns the block in the new layout.
  constexpr Buffer finish() {
    if constexpr (!MeshType::dry) {
      request_.wait();
      if (landed_) unpack();
    }
    landed_ = packed_ = in_ = Buffer();
    return std::move(out_);
  }

  constexpr const MeshType& mesh() const { return mesh_; }
  constexpr const Shape<Rank>& shape() const { return shape_; }

 private:
  void communicate() {
    if (step_.kind == Collective::none) return;
    const Communicator& group = mesh_.communicator(step_.axes);
    switch (step_.kind) {
      case Collective::all_reduce:
        return group.all_reduce(in_.data(), out_.data(), source_.elements(), type, op());
      case Collective::all_gather:
        return group.all_gather(in_.data(), landing().data(), received_.counts, received_.offsets, type);
      case Collective::reduce_scatter:
        return group.reduce_scatter(outgoing().data(), out_.data(), sent_.counts, type, op());
      default:
        return group.all_to_all(outgoing().data(), sent_.counts, sent_.offsets, landing().data(),
                                received_.counts, received_.offsets, type);
    }
  }

  void start_to_communicate() {
    if (step_.kind == Collective::none) return;
    const Communicator& group = mesh_.communicator(step_.axes);
    switch (step_.kind) {
      case Collective::all_reduce:
        request_ = group.all_reduce_async(in_.data(), out_.data(), source_.elements(), type, op());
        return;
      case Collective::all_gather:
        request_ =
            group.all_gather_async(in_.data(), landing().data(), received_.counts, received_.offsets, type);
        return;
      case Collective::reduce_scatter:
        request_ = group.reduce_scatter_async(outgoing().data(), out_.data(), sent_.counts, type, op());
        return;
      default:
        request_ = group.all_to_all_async(outgoing().data(), sent_.counts, sent_.offsets, landing().data(),
                                          received_.counts, received_.offsets, type);
    }
  }

  static constexpr DataType type = data_type<T>;

  constexpr BoxOf box_in(const Layout& layout, const MeshSizes& coordinates) const {
    return local_box(shape_, layout, mesh_.sizes(), coordinates);
  }
  constexpr BoxOf member_box(const Layout& layout, int member) const {
    return box_in(layout, group_member(mesh_.sizes(), mesh_.coordinates(), from_.axes, step_.axes, member));
  }
  constexpr int members() const { return group_size(mesh_.sizes(), from_.axes, step_.axes); }
  constexpr Buffer allocate(Index count) const {
    return Buffer::allocate(mesh_, count * static_cast<Index>(sizeof(T)));
  }
  constexpr void record(Index count) const {
    if (auto* recorder = mesh_.recorder()) {
      recorder->communicate(step_.kind, step_.axes, count * static_cast<Index>(sizeof(T)));
    }
  }
  constexpr ReduceOp op() const {
    for (int axis = 0; axis < from_.axes; ++axis) {
      if (step_.axes >> axis & 1u) return from_[axis].op();
    }
    return ReduceOp::sum;
  }

  /// A slice; or a term of a pending sum: what this rank contributes, in zeros.
  constexpr void change_locally() {
    bool contributes = true, pending = false;
    for (int axis = 0; axis < from_.axes; ++axis) {
      if (!step_.to[axis].is_partial() || from_[axis].is_partial() || mesh_.sizes()[axis] == 1) continue;
      pending = true;
      if (from_[axis].is_full() && mesh_.coordinates()[axis] != 0) contributes = false;
    }
    if (source_ == target_ && contributes) {
      out_ = std::move(in_);
      return;
    }
    out_ = allocate(target_.elements());
    if constexpr (!MeshType::dry) {
      const BoxOf part = intersection(source_, target_);
      if (pending) {  // zeros, but not where the part is going to be
        const Index place = contributes && part.elements() > 0 ? place_of(part, target_) : -1;
        const Index begin = place < 0 ? 0 : place, end = place < 0 ? 0 : place + part.elements();
        kernel::fill<T>(begin, 0, data(out_));
        kernel::fill<T>(target_.elements() - end, 0, data(out_) + end);
      }
      if (contributes) copy_part(part, data(in_), source_, data(out_), target_);
    }
  }

  constexpr void prepare_all_reduce() {
    record(source_.elements());
    if (in_.unique()) {
      out_ = in_;  // in place
    } else {
      out_ = allocate(source_.elements());
    }
  }

  constexpr void prepare_all_gather() {
    record(target_.elements());
    out_ = allocate(target_.elements());
    auto received = [&](int m) { return member_box(from_, m); };
    if (!in_order(target_, received)) landed_ = allocate(target_.elements());
    if constexpr (!MeshType::dry) {
      for (int m = 0; m < members(); ++m) received_.add(received(m).elements());
    }
  }

  constexpr void prepare_reduce_scatter() {
    record(source_.elements());
    out_ = allocate(target_.elements());
    auto sent = [&](int m) { return member_box(step_.to, m); };
    bool packs = !in_order(source_, sent);
    if (packs) packed_ = allocate(source_.elements());
    if constexpr (!MeshType::dry) {
      for (int m = 0; m < members(); ++m) {
        BoxOf piece = sent(m);
        if (packs) copy_part(piece, data(in_), source_, data(packed_) + sent_.total, piece);
        sent_.add(piece.elements());
      }
    }
  }

  constexpr void prepare_all_to_all() {
    auto sent = [&](int m) { return intersection(source_, member_box(step_.to, m)); };
    auto received = [&](int m) { return intersection(member_box(from_, m), target_); };
    Index sends = 0;
    for (int m = 0; m < members(); ++m) sends += sent(m).elements();
    record(sends);
    out_ = allocate(target_.elements());
    bool packs = !in_order(source_, sent);
    if (packs) packed_ = allocate(sends);
    if (!in_order(target_, received)) landed_ = allocate(target_.elements());
    if constexpr (!MeshType::dry) {
      for (int m = 0; m < members(); ++m) {
        BoxOf piece = sent(m);
        if (packs) copy_part(piece, data(in_), source_, data(packed_) + sent_.total, piece);
        sent_.add(piece.elements());
        received_.add(received(m).elements());
      }
    }
  }

  /// Copies what the members sent to its places.
  void unpack() {
    for (int m = 0; m < members(); ++m) {
      BoxOf piece = intersection(member_box(from_, m), target_);
      const T* arrived = data(landed_) + received_.offsets[static_cast<std::size_t>(m)];
      copy_part(piece, arrived, piece, data(out_), target_);
    }
  }

  /// Do the pieces of the group's members lie in a block that holds `whole` one after another?
  template <class PieceOf>
  constexpr bool in_order(const BoxOf& whole, PieceOf piece_of) const {
    Index total = 0;
    for (int m = 0; m < members(); ++m) {
      const BoxOf piece = piece_of(m);
      if (piece.elements() != 0 && place_of(piece, whole) != total) return false;
      total += piece.elements();
    }
    return true;
  }

  const Buffer& landing() const { return landed_ ? landed_ : out_; }
  const Buffer& outgoing() const { return packed_ ? packed_ : in_; }
  static T* data(const Buffer& buffer) { return static_cast<T*>(buffer.data()); }

  struct NoRequest {};

  MeshType mesh_;
  Shape<Rank> shape_;
  Layout from_;
  Step step_;
  BoxOf source_{}, target_{};
  Buffer in_, out_;
  Buffer packed_;  // pieces in the order of the ranks that they go to
  Buffer landed_;  // pieces in the order of the ranks that they come from
  std::conditional_t<MeshType::dry, NoRequest, Pieces> sent_, received_;
  std::conditional_t<MeshType::dry, NoRequest, Request> request_;
};

}  // namespace shardwise::detail
