// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Moves blocks of any tensor types from the ranks of one mesh to those of another: each rank sends one message to
/// each rank that needs part of its block. On a dry mesh the same code only counts.

#include <shardwise/base/hash.hpp>
#include <shardwise/memory/pooled_list.hpp>
#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::detail {

/// Chooses which replica of a source block serves a receiver: its own; else that of its counterpart, which spreads
/// the work; but one on the receiver's host if there is any.
template <class RankOf, class ShareHost>
constexpr int chosen_copy(int copies, int counterpart, int receiver, RankOf rank_of, ShareHost share_host) {
  int near = 0;
  for (int copy = 0; copy < copies; ++copy) {
    if (rank_of(copy) == receiver) return copy;
    near += share_host(rank_of(copy)) ? 1 : 0;
  }
  const int preferred = counterpart % copies;
  if (near == 0 || share_host(rank_of(preferred))) return preferred;
  // Consecutive receivers choose different replicas, and so do those of one host if ranks are assigned to hosts in
  // turn.
  int copy = 0;
  for (int skipped = (counterpart + counterpart * near / copies) % near;; ++copy) {
    if (share_host(rank_of(copy)) && skipped-- == 0) return copy;
  }
}

/// Tensors that are moved together from the ranks `from` to the ranks `to` of a job. Construct, `add` each,
/// `start`, `finish`.
class MeshTransfer final : public AnyInFlight {
 public:
  /// `mesh`: that of the blocks that this rank sends, or, if it sends none, receives. A rank on both meshes may do
  /// both in one transfer or in two.
  constexpr MeshTransfer(const MeshView& mesh, const RankGrid& from, const RankGrid& to, bool sends,
                         bool receives)
      : mesh_(mesh),
        from_(from),
        to_(to),
        self_(mesh.rank_in_job()),
        source_(sends ? from.find(self_) : -1),
        target_(receives ? to.find(self_) : -1) {
    const MeshPlace& own = mesh.place();
    if (from != own.ranks) check_ranks(from, own, "the mesh that sends");
    if (to != own.ranks) check_ranks(to, own, "the mesh that receives");
  }
  constexpr ~MeshTransfer() { end_flight(); }  // before the blocks are freed

  /// Adds a tensor: `sent` on a rank of `from`, `received` on a rank of `to`, or both; with the layouts `from` and
  /// `to`.
  constexpr void add(const AnyTensor& sent, const Layout& from, const AnyTensor& received, const Layout& to) {
    const AnyTensor& known = sent ? sent : received;
    const bool alone = tensors_.empty() || type_ == known.type;  // pieces of several are aligned to 8 bytes
    type_ = alone && numbers_in(known.type) == 1 ? known.type : DataType::u8;
    Entry& tensor =
        tensors_.emplace_back(known.shape, known.rank, known.type, from, to, sent.buffer, received.buffer);
    if (source_ >= 0) tensor.own[false] = source_box(tensor, from_.member(source_));
    if (target_ >= 0) tensor.own[true] = target_box(tensor, to_.member(target_));
    last_ = received;
  }
  constexpr void start() {
    label();
    for (int member = 0; source_ >= 0 && member < to_.size(); ++member) plan(member, false);
    for (int member = 0; target_ >= 0 && member < from_.size(); ++member) plan(member, true);
    for (bool incoming : {false, true}) {
      if (packed_bytes_[incoming] == 0) continue;
      packed_[incoming] = allocate_buffer(mesh_, packed_bytes_[incoming], MemoryUse::gathered);
    }
    if (!mesh_.dry()) communicate();
  }
  /// Returns the tensor that was added last. Throws `std::runtime_error` if a rank has sent something else.
  constexpr AnyTensor finish() override {
    Recorder* recorder = planned_.empty() ? nullptr : mesh_.job_recorder();
    if (recorder) recorder->wait(Collective::send, axes_, event_ + sent_ - 1);
    if (in_flight_) {
      in_flight_->request.wait();
      if (recorder) recorder->arrived(event_, sent_);
      unpack();
    }
    end_flight();
    packed_[0] = packed_[1] = Buffer();
    tensors_.clear();
    planned_.clear();
    return std::exchange(last_, AnyTensor());
  }

 private:
  struct Entry {
    AnyShape shape;
    int rank;
    DataType type;
    Layout from, to;
    Buffer in, out;
    Array<AnyBox, 2> own{};  ///< of this rank; second: incoming
  };
  /// The message to or from one rank. `place`: its first byte in the block of `whole`, or the place where it is packed.
  struct PlannedMessage {
    int member;
    bool incoming;
    Index bytes;
    Index place;
    const Entry* whole;
  };

  /// The part of its block that member `source` of `from` sends to member `target` of `to`.
  [[gnu::noinline]] constexpr AnyBox piece(const Entry& tensor, int source, int target) const {
    const MeshSizes at = from_.member(source), wanted = to_.member(target);
    const AnyBox common = intersection(source == source_ ? tensor.own[false] : source_box(tensor, at),
                                       target == target_ ? tensor.own[true] : target_box(tensor, wanted));
    if (common.elements() == 0 || adds_zeros(tensor.to, wanted)) return {};
    return from_.rank(at) == sender(tensor, at, wanted) ? common : AnyBox{};
  }
  constexpr AnyBox source_box(const Entry& tensor, const MeshSizes& at) const {
    return local_box(tensor.shape, tensor.from, from_.sizes, at);
  }
  constexpr AnyBox target_box(const Entry& tensor, const MeshSizes& at) const {
    return local_box(tensor.shape, tensor.to, to_.sizes, at);
  }
  constexpr int sender(const Entry& tensor, const MeshSizes& at, const MeshSizes& wanted) const {
    const AxisSet copied = tensor.from.axes_where([](Placement p) { return !p.is_shard(); });
    const int copies = group_size(from_.sizes, from_.axes, copied);
    if (copies == 1) return from_.rank(at);
    const AxisSet cut = tensor.to.axes_where([](Placement p) { return p.is_shard(); });
    const AxisSet alike = tensor.to.axes_where([](Placement p) { return p.is_full(); });
    const int counterpart =
        group_rank(to_.sizes, wanted, to_.axes, cut) * group_size(to_.sizes, to_.axes, alike) +
        group_rank(to_.sizes, wanted, to_.axes, alike);
    const int receiver = to_.rank(wanted);
    auto rank_of = [&](int copy) {
      return from_.rank(group_member(from_.sizes, at, from_.axes, copied, copy));
    };
    return rank_of(chosen_copy(copies, counterpart, receiver, rank_of,
                               [&](int rank) { return mesh_.share_host(rank, receiver); }));
  }

  constexpr AnyBox piece_for(const Entry& tensor, const PlannedMessage& planned) const {
    return planned.incoming ? piece(tensor, planned.member, target_) : piece(tensor, source_, planned.member);
  }
  constexpr int rank_of(const PlannedMessage& planned) const {
    const RankGrid& other = planned.incoming ? from_ : to_;
    return other.rank(other.member(planned.member));
  }
  constexpr bool copies_here() const { return source_ >= 0 && target_ >= 0; }
  /// The bytes of a piece in a message of several, rounded up so that each piece is aligned.
  static constexpr Index room(Index bytes) { return (bytes + 7) / 8 * 8; }

  /// Plans the message to or from a member of the other mesh, if it is not empty.
  constexpr void plan(int member, bool incoming) {
    PlannedMessage planned{member, incoming, 0, -1, nullptr};
    const int rank = rank_of(planned);
    if (rank == self_ && copies_here()) return;
    int pieces = 0;
    Index packed = 0;
    for (const Entry& tensor : tensors_) {
      const AnyBox part = piece_for(tensor, planned);
      if (part.elements() == 0) continue;
      const Index element = size_of(tensor.type);
      planned.bytes = part.elements() * element;
      packed += room(planned.bytes);
      planned.whole = &tensor;
      planned.place = place_of(part, tensor.own[incoming]) * element;
      ++pieces;
    }
    if (pieces == 0) return;
    if (pieces > 1) planned.bytes = packed;
    if (pieces > 1 || planned.place < 0) {
      planned.whole = nullptr;
      planned.place = packed_bytes_[incoming];
      packed_bytes_[incoming] += room(planned.bytes);
    }
    planned_.push_back(planned);
    Recorder* recorder = mesh_.job_recorder();
    if (!recorder || rank == self_) return;
    const AxisSet axes = mesh_.place().axes_between(self_, rank);
    axes_ |= axes;
    if (incoming) return;
    const std::int64_t event = recorder->send(axes, planned.bytes, !mesh_.share_host(self_, rank));
    if (sent_++ == 0) event_ = event;
  }

  /// Distinguishes this transfer from others between these ranks: 12 bits of a hash, and the element type.
  constexpr void label() {
    Fnv1a hash;
    auto add = [&](auto number) { hash.add(static_cast<std::uint64_t>(number)); };
    auto add_all = [&](const Layout& layout, const RankGrid& grid) {
      for (int axis = 0; axis < grid.axes; ++axis) {
        add(layout[axis] == reduced ? replicate.code : layout[axis].code);
        add(grid.sizes[axis]);
      }
    };
    for (const Entry& tensor : tensors_) {
      add(tensor.rank);
      for (const Index extent : tensor.shape) add(extent);
      add_all(tensor.from, from_);
      add_all(tensor.to, to_);
    }
    label_ = static_cast<int>((hash.value >> 40 & 0xfff) << 3) + static_cast<int>(type_);
  }

  char* data(const PlannedMessage& planned) const {
    const Buffer& block = !planned.whole     ? packed_[planned.incoming]
                          : planned.incoming ? planned.whole->out
                                             : planned.whole->in;
    return static_cast<char*>(block->data) + planned.place;
  }
  void communicate() {
    in_flight_ = make_pooled<MessagesInFlight>();
    for (const PlannedMessage& planned : planned_) {
      if (!planned.incoming && !planned.whole) copy_pieces(planned);
      in_flight_->messages->push_back({.rank = rank_of(planned),
                                       .data = data(planned),
                                       .count = planned.bytes / size_of(type_),
                                       .label = label_,
                                       .incoming = planned.incoming});
    }
    in_flight_->request = mesh_.job().send_and_receive(in_flight_->messages, type_);
    for (const Entry& tensor : tensors_) {
      if (target_ >= 0 && adds_zeros(tensor.to, to_.member(target_))) {
        std::memset(tensor.out->data, 0, static_cast<std::size_t>(tensor.out->bytes));
      } else if (copies_here() && !tensor.in.same_as(tensor.out)) {
        copy_part(size_of(tensor.type), piece(tensor, source_, target_), tensor.in->data, tensor.own[false],
                  tensor.out->data, tensor.own[true]);
      }
    }
  }
  void unpack() {
    for (const Message& message : *in_flight_->messages) check(message);
    for (const PlannedMessage& planned : planned_) {
      if (planned.incoming && !planned.whole) copy_pieces(planned);
    }
  }
  void copy_pieces(const PlannedMessage& planned) const {
    char* place = data(planned);
    for (const Entry& tensor : tensors_) {
      const AnyBox part = piece_for(tensor, planned), own = tensor.own[planned.incoming];
      const Index element = size_of(tensor.type);
      if (part.elements() == 0) continue;
      if (planned.incoming) {
        copy_part(element, part, place, part, tensor.out->data, own);
      } else {
        copy_part(element, part, tensor.in->data, own, place, part);
      }
      place += room(part.elements() * element);
    }
  }
  void check(const Message& message) const {
    if (!message.incoming) return check_mpi(message.code, "MPI_Isend");
    if (message.code == MPI_SUCCESS && message.arrived == message.count && message.arrived_label == label_)
      return;
    if (!message.too_long) check_mpi(message.code, "MPI_Irecv");
    const Entry& first = tensors_.front();
    const std::vector<Index> shape(first.shape.begin(), first.shape.begin() + first.rank);
    const auto sent = static_cast<DataType>(message.arrived_label & 7);
    const std::string came = message.too_long
                                 ? "more than that"
                                 : text({message.arrived * size_of(type_), " bytes of ", name_of(sent)});
    fail<std::runtime_error>(
        {"receive: rank ", self_, " expects of a tensor ", shape, " of ", name_of(type_),
         tensors_.size() > 1 ? ", and others," : "", " ", message.count * size_of(type_), " bytes from rank ",
         message.rank, ", which has sent ", came,
         ": the two differ in shape, element type or layouts, or in the order of their messages"});
  }
  constexpr void end_flight() {
    if (in_flight_) destroy_pooled(std::exchange(in_flight_, nullptr));
  }

  MeshView mesh_;
  RankGrid from_, to_;
  int self_;
  int source_, target_;  // this rank's number on each mesh, or -1: it is not there, or takes no part
  DataType type_ = DataType::u8;
  int label_ = 0;
  PooledList<Entry> tensors_;
  std::vector<PlannedMessage, PoolAllocator<PlannedMessage>> planned_;
  Index packed_bytes_[2]{};  // outgoing, incoming
  Buffer packed_[2];
  AnyTensor last_;
  MessagesInFlight* in_flight_ = nullptr;
  AxisSet axes_ = 0;        // along which messages are sent
  std::int64_t event_ = 0;  // the number of the first message sent, in the recorder's log
  int sent_ = 0;
};

}  // namespace shardwise::detail
