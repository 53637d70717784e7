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

/// The most pieces of a tensor that travels in pieces.
inline constexpr int most_pieces = 8;

/// Tensors on one mesh whose elements are sent as `type`; `u8` without a reduction means unchanged. Call `add` for
/// each, `start`, then `finish`. One tensor can travel in pieces: `cut`, `start`, then `start_next` for the other
/// pieces, and `finish_next` for each.
class Exchange {
 public:
  constexpr Exchange(const MeshView& mesh, DataType type, const ExchangeWay& way)
      : mesh_(mesh), type_(type), way_(way) {}
  Exchange& operator=(Exchange&&) = delete;
  constexpr ~Exchange() {  // before the blocks are freed
    while (finished_ < next_) end_request();
  }

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

  /// Cuts the only tensor into at most `most` pieces of at least `least` bytes, along the first dimension that has
  /// several indices: each rank's block, so that all ranks send a part of each piece. Dimensions from `end` on are not
  /// cut.
  constexpr void cut(int most, Index least, int end) {
    const AnyBox all = larger_box(entries_.front());
    while (cut_ < end && all.size[cut_] <= 1) ++cut_;
    if (cut_ == end) return;
    pieces_ = static_cast<int>(
        std::clamp<Index>(elements_ * size_of(type_) / least, 1, std::min<Index>(most, all.size[cut_])));
  }
  constexpr int pieces() const { return pieces_; }
  /// Calls f(first, count) for the ranges of elements of a piece in this rank's block: the one that it sends, or the
  /// one that arrives.
  template <class F>
  constexpr void for_ranges(int piece, bool arriving, F f) const {
    const Entry& tensor = entries_.front();
    const AnyBox block = arriving ? target(tensor) : source(tensor);
    const auto range = [&](const AnyBox& of_all_pieces) {  // (g++ calls `whole` shadowed by a program's)
      const AnyBox box = part(of_all_pieces, piece);
      if (box.elements() > 0) f(place_of(box, block), box.elements());
    };
    if (pieces_ == 1) return range(block);
    bool apart = false;  // whether the parts of members lie apart
    for (int member = 0; member < members(); ++member)
      apart |= of_member(tensor, member, arriving).size[cut_] != block.size[cut_];
    if (!apart) return range(block);
    for (int member = 0; member < members(); ++member) range(of_member(tensor, member, arriving));
  }

  /// Packs and communicates; with `background`, it may return before the communication is complete.
  constexpr void start(bool background) {
    background_ = background;
    make_room();
    start_next();
  }
  /// Starts the next piece; the first call is `start`.
  constexpr void start_next() {
    Recorder* recorder = mesh_.recorder();
    Started& started = started_[next_];
    if (recorder) {
      Index count = elements_;
      if (pieces_ > 1) {
        count = 0;
        for_ranges(next_, way_.kind == Collective::all_gather, [&](Index, Index more) { count += more; });
        count *= size_of(travels(entries_.front())) / size_of(type_);
      }
      started.event =
          recorder->communicate(way_.kind, mesh_.recorded(way_.axes), count * size_of(type_), background_);
      if (recorder->logs()) divide(*recorder);
    }
    if (!mesh_.dry()) communicate(started);
    ++next_;
    if (recorder && recorder->logs()) recorder->started(!started.request || started.request->test());
  }
  /// Waits for the oldest piece, and unpacks it.
  constexpr void finish_next() {
    const Started& started = started_[finished_];
    Recorder* recorder = background_ ? mesh_.recorder() : nullptr;
    if (recorder) recorder->wait(way_.kind, mesh_.recorded(way_.axes), started.event);
    if (started.request) started.request->wait();
    if (recorder) recorder->arrived(started.event);
    if (!mesh_.dry()) unpack(finished_);
    end_request();
  }
  /// Waits, unpacks, and releases all blocks.
  constexpr void finish() {
    while (finished_ < next_) finish_next();
    packed_ = received_ = Buffer();
    next_ = finished_ = 0;
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

  static constexpr int all_pieces = -1;
  struct Started {
    Request* request = nullptr;
    std::int64_t event = 0;  // number in the recorder's log
  };

  constexpr AnyBox larger_box(const Entry& tensor) const {
    return way_.kind == Collective::all_gather ? target(tensor) : source(tensor);
  }
  /// The elements of one tensor in this rank's call.
  constexpr Index elements_of(const Entry& tensor) const {
    if (way_.kind != Collective::all_to_all) return count_of(tensor, larger_box(tensor));
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

  constexpr AnyBox of_member(const Entry& tensor, int member, bool arriving) const {
    return arriving ? received(tensor, member) : sent(tensor, member);
  }
  /// The indices of a box that travel in one piece.
  constexpr AnyBox part(AnyBox box, int piece) const {
    if (pieces_ == 1 || piece == all_pieces) return box;
    const Index size = box.size[cut_], first = size * piece / pieces_;
    box.begin[cut_] += first;
    box.size[cut_] = size * (piece + 1) / pieces_ - first;
    return box;
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
    if (copies() || pieces_ > 1) return true;
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
      if (copies() && pieces_ == 1 && !mesh_.dry()) pack_for(self(), data(packed_));
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
    if (pieces_ > 1) return;  // `communicate` packs each
    if (!mesh_.dry()) {
      char* place = data(packed_);
      for (int member = 0; member < members(); ++member) place = pack_for(member, place);
    }
    for (Entry& tensor : entries_) tensor.in = Buffer();  // packed_ has their contents
  }

  static char* data(const Buffer& buffer) { return static_cast<char*>(buffer->data); }
  char* pack_for(int member, char* place) const {
    for (const Entry& tensor : entries_) {
      const AnyBox box = part(sent(tensor, member), next_);
      convert_part(box, tensor.type, data(tensor.in), source(tensor), travels(tensor), place, box);
      place += box.elements() * size_of(travels(tensor));
    }
    return place;
  }
  /// `place`: of the blocks of a member. Returns their end.
  const char* unpack_from(int member, const char* place, int piece) const {
    for (const Entry& tensor : entries_) {
      const AnyBox whole = received(tensor, member), box = part(whole, piece);
      const DataType type = travels(tensor);
      const char* from = place + (box.elements() > 0 ? place_of(box, whole) * size_of(type) : 0);
      convert_part(box, type, from, box, tensor.type, data(tensor.out), target(tensor));
      place += whole.elements() * size_of(type);
    }
    return place;
  }
  void unpack(int piece) const {
    const bool reduced = way_.kind == Collective::all_reduce || way_.kind == Collective::reduce_scatter;
    const Buffer& from = way_.kind == Collective::all_reduce ? packed_ : received_;
    if (!from) return;
    const char* place = data(from);
    for (int member = 0; member < members(); ++member) {
      if (!reduced || member == self()) place = unpack_from(member, place, piece);
    }
  }

  std::vector<Index> counts(bool outgoing, int piece) const;
  Request communicate();
  [[gnu::noinline]] void communicate(Started& started) {
    Request request = communicate();
    if (background_) started.request = make_pooled<Request>(std::move(request));
  }
  constexpr void end_request() {
    if (Request* request = std::exchange(started_[finished_++].request, nullptr)) destroy_pooled(request);
  }

  MeshView mesh_;
  DataType type_;
  ExchangeWay way_;
  PooledList<Entry> entries_;
  Index elements_ = 0;
  std::uint64_t label_ = 0;  // of the parameters whose gradients these are
  Buffer packed_;            // pieces by receiver, each with all tensors; or everything, for a reduction
  Buffer received_;          // pieces in the order of their senders; or this rank's reduced part
  Array<Started, most_pieces> started_{};
  int cut_ = 0;  // the dimension that is cut into pieces
  int pieces_ = 1, next_ = 0, finished_ = 0;
  bool background_ = false;
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::vector<Index> Exchange::counts(bool outgoing, int piece) const {
  std::vector<Index> all;
  for (int member = 0; member < members(); ++member) {
    Index& count = all.emplace_back(0);
    for (const Entry& tensor : entries_)
      count += count_of(tensor, part(of_member(tensor, member, !outgoing), piece));
  }
  return all;
}

/// Returns an empty request in the foreground.
SHARDWISE_INLINE Request Exchange::communicate() {
  const Communicator group = mesh_.communicator(way_.axes).labelled(label_);
  const Entry& first = entries_.front();
  const auto place_in = [&](const AnyBox& whole) {  // bytes before this piece
    const AnyBox box = part(whole, next_);
    return box.elements() > 0 ? place_of(box, whole) * size_of(travels(first)) : 0;
  };
  const char* in = data(packed_ ? packed_ : first.in);
  char* out = data(received_                                        ? received_
                   : packed_ && way_.kind == Collective::all_reduce ? packed_
                                                                    : first.out);
  if (way_.kind == Collective::all_reduce) {
    Index count = elements_;
    if (pieces_ > 1) {
      const Index before = place_in(source(first));
      if (packed_) pack_for(self(), data(packed_) + before);
      in += before, out += before, count = count_of(first, part(source(first), next_));
    }
    if (background_) return group.all_reduce_async(in, out, count, type_, way_.op);
    return group.all_reduce(in, out, count, type_, way_.op), Request();
  }
  if (way_.kind == Collective::reduce_scatter) {
    const std::vector<Index> blocks = counts(true, next_);
    if (pieces_ > 1) {
      Index before = 0;
      for (int piece = 0; piece < next_; ++piece) before += sum_of(counts(true, piece));
      char* place = data(packed_) + before * size_of(type_);
      in = place, out += place_in(target(first));
      for (int member = 0; member < members(); ++member) place = pack_for(member, place);
    }
    if (background_) return group.reduce_scatter_async(in, out, blocks, type_, way_.op);
    return group.reduce_scatter(in, out, blocks, type_, way_.op), Request();
  }
  const std::vector<Index> arriving = counts(false, next_);
  std::vector<Index> to = offsets_of(pieces_ == 1 ? arriving : counts(false, all_pieces));
  if (way_.kind == Collective::all_gather) {
    if (pieces_ > 1) {
      for (int member = 0; member < members(); ++member)
        to[static_cast<std::size_t>(member)] += place_in(received(first, member)) / size_of(type_);
      in += place_in(source(first));
    }
    if (copies()) {  // this rank's own parts are packed directly to their destination
      char* place = out + to[static_cast<std::size_t>(self())] * size_of(type_);
      pack_for(self(), place);
      in = place;
    }
    if (background_) return group.all_gather_async(in, out, arriving, to, type_);
    return group.all_gather(in, out, arriving, to, type_), Request();
  }
  const std::vector<Index> leaving = counts(true, next_), from = offsets_of(leaving);
  if (background_) return group.all_to_all_async(in, leaving, from, out, arriving, to, type_);
  return group.all_to_all(in, leaving, from, out, arriving, to, type_), Request();
}

#endif

}  // namespace shardwise::detail
