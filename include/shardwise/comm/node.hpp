// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Collectives among ranks that share memory, with the contract of `Communicator`. Reductions combine in rank
/// order, ((0, 1), 2), …, so all ranks and all runs get the same bits.

#include <shardwise/comm/node_rounds.hpp>
#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/comm/transport.hpp>

namespace shardwise::detail {

/// How elements are reduced, with MPI's handles.
struct ElementReduction : MpiWords {
  Index width;  // bytes per element
};

/// Helpers for the slots of ranks that share memory: parts of blocks, and numbers.
struct SlotParts {
  static std::size_t at(int r) { return static_cast<std::size_t>(r); }
  static void copy(char* to, const char* from, Index bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  static Index rounds_for(Index count, Index a_round) { return (count + a_round - 1) / a_round; }

  template <class T>
  static void write(char* to, T value) {
    std::memcpy(to, &value, sizeof(value));
  }
  template <class T = Index>
  static T read(const char* from) {
    T value{};
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  /// Part k of a block that is cut into `parts`, in bytes.
  struct Part {
    Index begin, bytes;
  };
  static Part cut(Index count, Index k, Index parts, Index width) {
    const Index begin = count * k / parts * width;
    return {begin, count * (k + 1) / parts * width - begin};
  }
};

/// All ranks call the same functions in the same order, as with MPI; a mismatch is an error on all ranks.
class NodeCollectives : SlotParts {
 public:
  /// Null on all ranks if they cannot share memory or one of them forbids it. Collective.
  static std::unique_ptr<NodeCollectives> make(MPI_Comm comm, int rank, int size) {
    if (size == 1 || !on_one_host(comm)) return nullptr;
    auto node = std::unique_ptr<NodeCollectives>(new NodeCollectives(comm, rank, size));
    if (!node->rounds_) node.reset();
    return node;
  }

  /// Whether the elements of a call fit, and, for an all-gather, the blocks are small enough to beat MPI's.
  bool takes(const Call& call) const {
    const Index width = call.elements.width;
    if (width > slot / 4 / (size_ + 1)) return false;
    return call.kind != Collective::all_gather ||
           *std::max_element(call.counts.begin(), call.counts.end()) * width < many_bytes;
  }
  void run(const Call& call) {
    rounds_.enter(number_of(call));
    if (call.kind == Collective::all_gather) return all_gather(call);
    if (call.kind == Collective::all_to_all) return all_to_all(call);
    if (!call.reduces()) return barrier();
    const ElementReduction how{in_mpi(call.elements), call.elements.width};
    call.kind == Collective::all_reduce ? all_reduce(call, how) : reduce_scatter(call, how);
  }

  /// Checks that all ranks are at the same call, before they execute it elsewhere.
  void agree(const Call& call) {
    rounds_.enter(number_of(call));
    barrier();
  }

 private:
  void barrier() {
    rounds_.start(0);
    rounds_.exchange();
  }

  void all_reduce(const Call& call, const ElementReduction& how) {
    const char* source = call.source();
    char* target = call.target();
    const Index count = call.count;
    const Index bytes = count * how.width;
    if (directly(bytes)) return all_reduce_directly(source, target, count, how);
    if (size_ > 2 && bytes > few_bytes) return all_reduce_slices(source, target, count, how);
    for (Index k = 0, rounds = rounds_for(count, slot / how.width); k < rounds; ++k) {
      const Part part = cut(count, k, rounds, how.width);
      char* mine = rounds_.start(part.bytes);
      copy(mine, source + part.begin, part.bytes);
      rounds_.exchange();
      reduce(target + part.begin, part.bytes, how, [&](int r, char*) {
        return r == 0 && rank_ == 0 ? source + part.begin : rounds_.written_by(r, part.bytes);
      });
    }
  }

  void all_gather(const Call& call) {
    const Numbers counts = call.counts;
    const Index width = call.elements.width;
    const auto place = [&](int r) { return call.target() + call.offsets[at(r)] * width; };
    const Index largest = *std::max_element(counts.begin(), counts.end());
    const Index rounds = rounds_for(largest, slot / width);
    for (Index k = 0; k < rounds; ++k) {
      const Index written = cut(largest, k, rounds, width).bytes + width;
      const Part mine = cut(counts[at(rank_)], k, rounds, width);
      copy(rounds_.start(written), call.source() + mine.begin, mine.bytes);
      rounds_.exchange();
      if (place(rank_) != call.source())
        copy(place(rank_) + mine.begin, call.source() + mine.begin, mine.bytes);
      for_others([&](int r) {
        const Part theirs = cut(counts[at(r)], k, rounds, width);
        copy(place(r) + theirs.begin, rounds_.written_by(r, written), theirs.bytes);
      });
    }
  }

  void all_to_all(const Call& call) {
    const Index width = call.elements.width;
    // A rank does not know the counts of the other ranks. So each slot begins with the sender's number of rounds
    // and, for each receiver, the position and the number of its elements.
    const auto entry = [&](int r) { return (2 * r + 1) * static_cast<Index>(sizeof(Index)); };
    const Index header = entry(size_);
    int other = -1;  // a rank that sends an unexpected count
    Index sent = 0;
    Index total = 0;
    for_others([&](int r) { total += call.counts[at(r)]; });
    const Index my_rounds = rounds_for(total, (slot - header) / width - size_);
    const auto send_to = [&](int r) { return call.source() + call.offsets[at(r)] * width; };
    const auto recv_from = [&](int r) { return call.target() + call.places[at(r)] * width; };
    copy(recv_from(rank_), send_to(rank_), call.counts[at(rank_)] * width);
    for (Index k = 0, rounds = std::max<Index>(my_rounds, 1); k < rounds; ++k) {
      char* mine = rounds_.start(slot);
      Index next = header;
      for_others([&](int r) {
        const Part part = k < my_rounds ? cut(call.counts[at(r)], k, my_rounds, width) : Part{};
        write(mine + entry(r), next);
        write(mine + entry(r) + Index{sizeof(Index)}, call.counts[at(r)]);
        copy(mine + next, send_to(r) + part.begin, part.bytes);
        next += part.bytes;
      });
      write(mine, my_rounds);
      rounds_.exchange();
      for_others([&](int r) {
        const char* theirs = rounds_.written_by(r, slot);
        const Index n = read(theirs);
        rounds = std::max(rounds, n);
        const Index count = read(theirs + entry(rank_) + Index{sizeof(Index)});
        if (count != call.arriving[at(r)]) return void((other = r, sent = count));
        if (k >= n) return;
        const Part part = cut(count, k, n, width);
        copy(recv_from(r) + part.begin, theirs + read(theirs + entry(rank_)), part.bytes);
      });
    }
    if (other >= 0)
      fail({"all_to_all: rank ", rank_, " expects ", call.arriving[at(other)], " elements of rank ", other,
            ", which sends ", sent});
  }

  void reduce_scatter(const Call& call, const ElementReduction& how) {
    const Index width = how.width;
    const Numbers counts = call.counts;
    Index total = 0, before = 0;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) before = total * width;
      total += counts[at(r)];
    }
    const Index mine = counts[at(rank_)] * width;
    const bool direct = directly(total * width);
    // In place, the result must not overwrite terms that others still need: until then it is kept at the position
    // of its block.
    const bool waits = call.in == call.out && (direct || mine > counts[0] * width);
    char* target = call.target() + (waits ? before : 0);
    if (direct) {
      announce(call.source());
      reduce_directly(target, call.source() + before, mine, before, how);
      barrier();
    } else {
      const Index rounds = rounds_for(total, slot / width - size_);
      for (Index k = 0; k < rounds; ++k) {
        Index written = 0, offset = 0, block = 0;
        for (int r = 0; r < size_; ++r) written += cut(counts[at(r)], k, rounds, width).bytes;
        char* to = rounds_.start(written);
        for (int r = 0; r < size_; ++r) {
          const Part part = cut(counts[at(r)], k, rounds, width);
          if (r != rank_ || waits) copy(to, call.source() + block + part.begin, part.bytes);
          if (r < rank_) offset += part.bytes;
          to += part.bytes;
          block += counts[at(r)] * width;
        }
        rounds_.exchange();
        const Part part = cut(counts[at(rank_)], k, rounds, width);
        reduce(target + part.begin, part.bytes, how, [&](int r, char*) {
          return r == rank_ && !waits ? call.source() + before + part.begin
                                      : rounds_.written_by(r, written) + offset;
        });
      }
    }
    if (waits) std::memmove(call.out, target, static_cast<std::size_t>(mine));
  }

  static constexpr Index slot = NodeRounds::slot_bytes;
  /// Up to this size every rank reduces everything, because a second message would cost more.
  static constexpr Index few_bytes = Index{8} << 10;
  /// From this size on, two copies through the cache cost more than one by the kernel.
  static constexpr Index many_bytes = Index{256} << 10;
  static constexpr Index space_bytes = Index{64} << 10;

  NodeCollectives(MPI_Comm comm, int rank, int size) : rank_(rank), size_(size), rounds_(comm, rank, size) {}

  /// f(r) for all other ranks, starting with the next one, so that not all ranks read from the same one.
  template <class F>
  void for_others(F f) {
    for (int i = 1; i < size_; ++i) f((rank_ + i) % size_);
  }

  /// target = the reduction of all ranks' terms. term(r, space) returns the address of rank r's term; it may copy
  /// the term to `space`.
  template <class Term>
  void reduce(char* target, Index bytes, const ElementReduction& how, Term term) {
    const int n = static_cast<int>(bytes / how.width);
    for (int r = 0; r < size_; ++r) {
      const char* t = term(r, r == 0 ? target : space_.get());
      if (r > 0) {
        check_mpi(MPI_Reduce_local(t, target, n, how.type, how.op), "MPI_Reduce_local");
      } else if (t != target) {
        copy(target, t, bytes);
      }
    }
  }

  // ---- Large blocks, read directly from the other ranks' memory -------------------------------------------------
  bool directly(Index bytes) {
    if (!rounds_.can_read() || bytes < many_bytes) return false;
    if (!space_) space_.reset(new char[2 * space_bytes]);
    return true;
  }
  void announce(const char* block) {
    write(rounds_.start(sizeof(block)), block);
    rounds_.exchange();
  }
  const char* address(int r) { return read<const char*>(rounds_.written_by(r, sizeof(const char*))); }
  /// target = the reduction of `mine` and the same part of the blocks that the others announced.
  void reduce_directly(char* target, const char* mine, Index bytes, Index offset,
                       const ElementReduction& how) {
    const Index step = space_bytes / how.width * how.width;
    for (Index i = 0; i < bytes; i += step) {
      const Index n = std::min(step, bytes - i);
      const char* own = mine + i;
      if (own == target + i && rank_ != 0) {
        copy(space_.get() + space_bytes, own, n);
        own = space_.get() + space_bytes;
      }
      reduce(target + i, n, how, [&](int r, char* space) {
        if (r == rank_) return own;
        rounds_.read(r, address(r) + offset + i, space, n);
        return static_cast<const char*>(space);
      });
    }
  }
  /// Each rank reduces one slice, then reads the others' slices.
  void all_reduce_directly(const char* in, char* out, Index count, const ElementReduction& how) {
    const auto slice = [&](int r) { return cut(count, r, size_, how.width); };
    announce(in);
    const Part mine = slice(rank_);
    reduce_directly(out + mine.begin, in + mine.begin, mine.bytes, mine.begin, how);
    announce(out);
    for_others(
        [&](int r) { rounds_.read(r, address(r) + slice(r).begin, out + slice(r).begin, slice(r).bytes); });
    barrier();
  }

  // ---- Through the slots --------------------------------------------------------------------------------------------
  /// Each rank reduces one slice of each piece. Its slot holds a piece, followed by its slice of the previous piece.
  void all_reduce_slices(const char* in, char* out, Index count, const ElementReduction& how) {
    const Index most = (slot / how.width / (size_ + 1) - 1) * size_;  // elements of a piece
    const Index pieces = rounds_for(count, most), results = most * how.width;
    Part before{};
    for (Index k = 0; k <= pieces; ++k) {
      const Part piece = k < pieces ? cut(count, k, pieces, how.width) : Part{};
      const auto slice = [&](int r) { return cut(before.bytes / how.width, r, size_, how.width); };
      const Part mine = slice(rank_);
      char* result = rounds_.next(slot) + results;
      if (k > 0) {
        reduce(result, mine.bytes, how,
               [&](int r, char*) { return rounds_.written_by(r, slot) + mine.begin; });
        copy(out + before.begin + mine.begin, result, mine.bytes);
      }
      copy(rounds_.start(slot), in + piece.begin, piece.bytes);
      rounds_.exchange();
      if (k > 0) {
        for_others([&](int r) {
          copy(out + before.begin + slice(r).begin, rounds_.written_by(r, slot) + results, slice(r).bytes);
        });
      }
      before = piece;
    }
  }

  int rank_, size_;
  NodeRounds rounds_;
  std::unique_ptr<char[]> space_;
};

}  // namespace shardwise::detail
