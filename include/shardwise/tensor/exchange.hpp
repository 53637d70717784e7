// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One collective for tensors of any types: packs their parts if necessary, makes one MPI call, and unpacks. If
/// messages use another element type, packing converts. On a dry mesh the same code only counts.

#include <shardwise/base/bodies.hpp>
#include <shardwise/layout/transition.hpp>
#include <shardwise/memory/pooled_list.hpp>
#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::detail {

struct ExchangeWay {
  Collective kind = Collective::none;
  AxisSet axes = 0;
  ReduceOp op = ReduceOp::sum;            ///< if it reduces
  MemoryUse use = MemoryUse::activation;  ///< of the memory for packing
  friend constexpr bool operator==(const ExchangeWay&, const ExchangeWay&) = default;
};

/// Tensors on one mesh whose elements are sent as `type`; `u8` without a reduction means unchanged. Call `add` for
/// each, `start`, then `finish`.
class Exchange {
 public:
  constexpr Exchange(const MeshView& mesh, DataType type, const ExchangeWay& way)
      : mesh_(mesh), type_(type), way_(way) {}
  Exchange& operator=(Exchange&&) = delete;
  constexpr ~Exchange() { end_request(); }  // before the blocks are freed

  constexpr const MeshView& mesh() const { return mesh_; }
  constexpr DataType type() const { return type_; }
  constexpr const ExchangeWay& way() const { return way_; }

  /// Adds a tensor that is moved from the layout of `from` to that of `to`. Both may share their block for an
  /// in-place reduction.
  constexpr void add(AnyTensor&& from, const AnyTensor& to) {
    if (from.parameter >= 0)
      label_ = (label_ ^ static_cast<std::uint64_t>(from.parameter + 1)) * 1099511628211u;
    elements_ += elements_of(entries_.emplace_back(from.shape, from.layout, to.layout, from.type,
                                                   std::move(from.buffer), to.buffer, from.module));
  }
  /// The same if the ranks have divided its rows, and this rank's part is in `block`.
  constexpr void add(const Buffer& block, const DividedRows& rows, const AnyTensor& to) {
    elements_ += elements_of(
        entries_.emplace_back(to.shape, to.layout, to.layout, to.type, block, to.buffer, to.module, rows));
  }
  /// The number of elements of this rank's call: in the larger of its two buffers; for an all-to-all, those sent.
  constexpr Index elements() const { return elements_; }

  /// Packs and communicates; with `background`, it may return before the communication is complete.
  constexpr void start(bool background) {
    Recorder* recorder = mesh_.recorder();
    background_ = background;
    if (recorder) {
      event_ =
          recorder->communicate(way_.kind, mesh_.recorded(way_.axes), elements_ * size_of(type_), background);
      if (recorder->logs()) divide(*recorder);
    }
    make_room();
    if (!mesh_.dry()) communicate(background);
    if (recorder && recorder->logs()) recorder->started(!request_ || request_->test());
  }
  /// Waits, unpacks, and releases all blocks.
  constexpr void finish() {
    Recorder* recorder = background_ ? mesh_.recorder() : nullptr;
    if (recorder) recorder->wait(way_.kind, mesh_.recorded(way_.axes), event_);
    if (request_) request_->wait();
    end_request();
    if (recorder) recorder->arrived(event_);
    if (!mesh_.dry()) unpack();
    packed_ = received_ = Buffer();
    entries_.clear();
    elements_ = 0;
    label_ = 0;
  }

 private:
  struct Entry {
    AnyShape shape;
    Layout from, to;
    DataType type;
    Buffer in, out;
    int module;
    DividedRows rows{};  // instead of `from`
  };

  /// The elements of one tensor in this rank's call.
  constexpr Index elements_of(const Entry& tensor) const {
    if (way_.kind != Collective::all_to_all)
      return count_of(tensor, way_.kind == Collective::all_gather ? target(tensor) : source(tensor));
    Index count = 0;
    for (int member = 0; member < members(); ++member) count += count_of(tensor, sent(tensor, member));
    return count;
  }
  [[gnu::noinline]] constexpr void divide(Recorder& recorder) const {
    for (const Entry& each : entries_) recorder.divide(each.module, elements_of(each) * size_of(type_));
  }
  constexpr int members() const { return group_size(mesh_.sizes(), mesh_.axes(), way_.axes); }
  constexpr int self() const {
    return group_rank(mesh_.sizes(), mesh_.coordinates(), mesh_.axes(), way_.axes);
  }
  constexpr DataType travels(const Entry& tensor) const {
    return type_ == DataType::u8 ? tensor.type : type_;
  }
  /// In elements of `type_`.
  constexpr Index count_of(const Entry& tensor, const AnyBox& box) const {
    return box.elements() * (size_of(travels(tensor)) / size_of(type_));
  }
  constexpr AnyBox box_of(const Entry& tensor, const Layout& layout, int member) const {
    return local_box(tensor.shape, layout, mesh_.sizes(),
                     group_member(mesh_.sizes(), mesh_.coordinates(), mesh_.axes(), way_.axes, member));
  }
  constexpr AnyBox own_box(const Entry& tensor, const Layout& layout) const {
    return local_box(tensor.shape, layout, mesh_.sizes(), mesh_.coordinates());
  }
  [[gnu::noinline]] constexpr AnyBox source_of(const Entry& tensor, int member) const {
    if (tensor.rows.group > 0) return tensor.rows.box(tensor.shape, members(), member);
    return box_of(tensor, tensor.from, member);
  }
  /// The box that this rank has, and the one that it needs.
  constexpr AnyBox source(const Entry& tensor) const {
    if (tensor.rows.group > 0) return tensor.rows.box(tensor.shape, members(), self());
    return own_box(tensor, tensor.from);
  }
  constexpr AnyBox target(const Entry& tensor) const { return own_box(tensor, tensor.to); }
  /// The part of this rank's box that a member of the group needs, and the reverse.
  [[gnu::noinline]] constexpr AnyBox sent(const Entry& tensor, int member) const {
    return intersection(source(tensor), box_of(tensor, tensor.to, member));
  }
  [[gnu::noinline]] constexpr AnyBox received(const Entry& tensor, int member) const {
    return intersection(source_of(tensor, member), target(tensor));
  }

  /// Whether the pieces of a single tensor are contiguous and in order in a block that holds `whole`, so that no
  /// packing is needed.
  template <class PieceOf>
  constexpr bool in_order(const AnyBox& whole, PieceOf piece_of) const {
    Index total = 0;
    for (int member = 0; member < members(); ++member) {
      const AnyBox piece = piece_of(member);
      const Index count = piece.elements();
      if (count != 0 && place_of(piece, whole) != total) return false;
      total += count;
    }
    return true;
  }
  /// Whether blocks must be packed rather than sent or received in place.
  constexpr bool copies() const {
    return entries_.size() > 1 || entries_.front().type != travels(entries_.front());
  }
  constexpr bool packs() const {
    if (copies()) return true;
    const Entry& tensor = entries_.front();
    return !in_order(source(tensor), [&](int member) { return sent(tensor, member); });
  }
  constexpr bool unpacks() const {
    if (copies()) return true;
    const Entry& tensor = entries_.front();
    return !in_order(target(tensor), [&](int member) { return received(tensor, member); });
  }
  constexpr Buffer allocate(Index count) const {
    return allocate_buffer(mesh_, count * size_of(type_), way_.use);
  }
  constexpr Index own_elements() const {
    Index count = 0;
    for (const Entry& tensor : entries_) count += count_of(tensor, target(tensor));
    return count;
  }

  /// Packs the outgoing pieces; allocates room for incoming ones.
  constexpr void make_room() {
    if (way_.kind == Collective::all_reduce) {
      if (copies()) packed_ = allocate(elements_);
      if (copies() && !mesh_.dry()) pack_for(self(), data(packed_));
    } else if (way_.kind == Collective::all_gather) {
      if (unpacks()) received_ = allocate(elements_);
    } else {
      pack();
      if (way_.kind == Collective::reduce_scatter ? copies() : unpacks())
        received_ = allocate(own_elements());
    }
  }
  constexpr void pack() {
    if (!packs()) return;
    packed_ = allocate(elements_);
    if (!mesh_.dry()) {
      char* place = data(packed_);
      for (int member = 0; member < members(); ++member) place = pack_for(member, place);
    }
    for (Entry& tensor : entries_) tensor.in = Buffer();  // packed_ has their contents
  }

  static char* data(const Buffer& buffer) { return static_cast<char*>(buffer->data); }
  char* pack_for(int member, char* place) const {
    for (const Entry& tensor : entries_) {
      const AnyBox piece = sent(tensor, member);
      convert_part(piece, tensor.type, data(tensor.in), source(tensor), travels(tensor), place, piece);
      place += piece.elements() * size_of(travels(tensor));
    }
    return place;
  }
  const char* unpack_from(int member, const char* place) const {
    for (const Entry& tensor : entries_) {
      const AnyBox piece = received(tensor, member);
      convert_part(piece, travels(tensor), place, piece, tensor.type, data(tensor.out), target(tensor));
      place += piece.elements() * size_of(travels(tensor));
    }
    return place;
  }
  void unpack() const {
    const bool reduced = way_.kind == Collective::all_reduce || way_.kind == Collective::reduce_scatter;
    const Buffer& from = way_.kind == Collective::all_reduce ? packed_ : received_;
    if (!from) return;
    const char* place = data(from);
    for (int member = 0; member < members(); ++member) {
      if (!reduced || member == self()) place = unpack_from(member, place);
    }
  }

  std::vector<Index> counts(bool outgoing) const;
  void communicate(bool background);
  [[gnu::noinline]] void keep(Request request) { request_ = make_pooled<Request>(std::move(request)); }
  constexpr void end_request() {
    if (request_) destroy_pooled(std::exchange(request_, nullptr));
  }

  MeshView mesh_;
  DataType type_;
  ExchangeWay way_;
  PooledList<Entry> entries_;
  Index elements_ = 0;
  std::uint64_t label_ = 0;  // of the parameters whose gradients these are
  Buffer packed_;            // pieces by receiver, each with all tensors; or everything, for a reduction
  Buffer received_;          // pieces in the order of their senders; or this rank's reduced part
  Request* request_ = nullptr;
  bool background_ = false;
  std::int64_t event_ = 0;  // number in the recorder's log
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::vector<Index> Exchange::counts(bool outgoing) const {
  std::vector<Index> all;
  for (int member = 0; member < members(); ++member) {
    Index& count = all.emplace_back(0);
    for (const Entry& tensor : entries_) {
      count += count_of(tensor, outgoing ? sent(tensor, member) : received(tensor, member));
    }
  }
  return all;
}

SHARDWISE_INLINE void Exchange::communicate(bool background) {
  const Communicator group = mesh_.communicator(way_.axes).labelled(label_);
  const Entry& first = entries_.front();
  const char* in = data(packed_ ? packed_ : first.in);
  char* out = data(received_                                        ? received_
                   : packed_ && way_.kind == Collective::all_reduce ? packed_
                                                                    : first.out);
  if (way_.kind == Collective::all_reduce) {
    if (background) return keep(group.all_reduce_async(in, out, elements_, type_, way_.op));
    return group.all_reduce(in, out, elements_, type_, way_.op);
  }
  if (way_.kind == Collective::reduce_scatter) {
    const std::vector<Index> blocks = counts(true);
    if (background) return keep(group.reduce_scatter_async(in, out, blocks, type_, way_.op));
    return group.reduce_scatter(in, out, blocks, type_, way_.op);
  }
  const std::vector<Index> arriving = counts(false), to = offsets_of(arriving);
  if (way_.kind == Collective::all_gather) {
    if (copies()) {  // this rank's own parts are packed directly to their destination
      char* place = out + to[static_cast<std::size_t>(self())] * size_of(type_);
      pack_for(self(), place);
      in = place;
    }
    if (background) return keep(group.all_gather_async(in, out, arriving, to, type_));
    return group.all_gather(in, out, arriving, to, type_);
  }
  const std::vector<Index> leaving = counts(true), from = offsets_of(leaving);
  if (background) return keep(group.all_to_all_async(in, leaving, from, out, arriving, to, type_));
  group.all_to_all(in, leaving, from, out, arriving, to, type_);
}

#endif

}  // namespace shardwise::detail
