// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The interface between this library and the means of communication: MPI or a simulation. A collective arrives as
/// a value that describes it, so generic code (a check, a watchdog) can handle all of them.

#include <limits>
#include <numeric>

#include <shardwise/comm/progress.hpp>
#include <shardwise/comm/reducible.hpp>
#include <shardwise/layout/hosts.hpp>
#include <shardwise/layout/transition.hpp>

namespace shardwise::detail {

using Numbers = std::span<const Index>;

inline Index sum_of(Numbers counts) { return std::reduce(counts.begin(), counts.end()); }
inline std::vector<Index> offsets_of(Numbers counts) {
  std::vector<Index> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), Index{0});
  return offsets;
}
/// The count as MPI takes it. Throws `std::length_error` if it does not fit an `int`, `std::invalid_argument` if it is
/// negative.
inline int mpi_count(Index count, const char* function) {
  if (count < 0) fail({function, ": the count ", count, " is negative"});
  if (count > std::numeric_limits<int>::max())
    fail<std::length_error>(
        {function, ": ", count, " elements are more than MPI moves in one call (2147483647)"});
  return static_cast<int>(count);
}

/// A collective as called by a rank. Counts and offsets are in elements, one per rank.
struct Call {
  Collective kind;  ///< none: a barrier
  const void* in = nullptr;
  void* out = nullptr;
  Elements elements{};
  Index count = 0;  ///< of an all-reduce
  /// The blocks of an all-gather or (without offsets) a reduce-scatter; the blocks that an all-to-all sends.
  Numbers counts{}, offsets{};
  Numbers arriving{}, places{};  ///< the blocks that an all-to-all receives
  bool background = false;       ///< only start it
  std::uint64_t label = 0;       ///< of the tensors, such as which parameters have a gradient; 0: none
  const char* axes = "";         ///< the axes of the ranks, for error texts: "tp"

  const char* name() const { return kind == Collective::none ? "barrier" : name_of(kind); }
  const char* source() const { return static_cast<const char*>(in); }
  char* target() const { return static_cast<char*>(out); }
  bool reduces() const { return kind == Collective::all_reduce || kind == Collective::reduce_scatter; }
  Index bytes() const { return (kind == Collective::all_reduce ? count : sum_of(counts)) * elements.width; }
};

/// "all_reduce of 12 f32 (sum) over tp"
inline std::string text_of(const Call& call) {
  std::string words = call.name();
  if (call.background) words += "_async";
  const auto add = [&](Numbers counts) {
    constexpr std::size_t shown = 8;
    for (std::size_t i = 0; i < std::min(counts.size(), shown); ++i)
      words += (i > 0 ? ", " : "") + std::to_string(counts[i]);
    if (counts.size() > shown) words += ", … (" + std::to_string(counts.size()) + " ranks)";
  };
  if (call.kind != Collective::none) words += " of ";
  if (call.kind == Collective::all_reduce) words += std::to_string(call.count);
  add(call.counts);
  if (call.kind != Collective::none) words += " " + text_of(call.elements);
  if (call.reduces() && !call.elements.own) words += std::string(" (") + name_of(call.elements.op) + ")";
  if (call.label != 0) words += " of gradients #" + std::to_string(call.label % 100000);
  return *call.axes == 0 ? words : words + " over " + call.axes;
}

/// The properties that must be equal on all ranks, as numbers; the counts of an all-to-all are not included.
inline std::array<Index, 8> signature(const Call& call) {
  Fnv1a blocks;
  if (call.kind != Collective::all_to_all) {
    for (const Index count : call.counts) blocks.add(static_cast<std::uint64_t>(count));
  }
  const Elements& elements = call.elements;
  return {static_cast<Index>(call.kind),
          call.background ? 1 : 0,
          elements.width,
          elements.own ? elements.own->id : static_cast<Index>(elements.type),
          call.reduces() ? static_cast<Index>(elements.op) : -1,
          call.count,
          static_cast<Index>(blocks.value),
          std::bit_cast<Index>(call.label)};
}

/// A hash of the signature: different signatures very likely give different numbers.
inline std::uint64_t number_of(const Call& call) {
  Fnv1a all;
  for (const Index number : signature(call)) all.add(static_cast<std::uint64_t>(number));
  return all.value;
}

/// A message to or from a rank. Between two ranks, messages arrive in the order in which they were started, as in
/// one queue per direction; different labels at the two ends reveal that the ranks disagree.
struct Message {
  int rank;
  void* data;
  Index count;  ///< elements
  int label;    ///< 0 to 32767: the label sent, or expected
  bool incoming;
  Index arrived = 0;  ///< elements, once complete; excess elements are not counted
  int arrived_label = 0;
  bool too_long = false;
  int code = MPI_SUCCESS;
};
using MessageList = std::vector<Message>;

/// Gets the data that this rank sends, for a comparison of two runs.
struct SentData {
  virtual void sent(const void* data, Index bytes) = 0;
  void sent(const Call& call, int rank) {
    const Index width = call.elements.width;
    switch (call.kind) {
      case Collective::all_gather:
        return sent(call.in, call.counts[static_cast<std::size_t>(rank)] * width);
      case Collective::all_to_all:
        for (std::size_t r = 0; r < call.counts.size(); ++r)
          sent(call.source() + call.offsets[r] * width, call.counts[r] * width);
        return;
      default:
        return sent(call.in, call.bytes());
    }
  }
  void sent(const MessageList& messages, Index width) {
    for (const Message& message : messages)
      if (!message.incoming) sent(message.data, message.count * width);
  }

 protected:
  ~SentData() = default;
};
inline constinit thread_local SentData* sent_data = nullptr;

/// Communication among the ranks of one communicator. All of them call the same collectives in the same order.
class Transport {
 public:
  Transport(int rank, Hosts hosts) : rank_(rank), hosts_(std::move(hosts)) {}
  Transport& operator=(Transport&&) = delete;
  virtual ~Transport() = default;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return hosts_.size(); }
  const Hosts& hosts() const noexcept { return hosts_; }
  virtual const char* name() const noexcept = 0;
  virtual MPI_Comm native() const noexcept { return MPI_COMM_NULL; }
  /// Whether ranks compare calls before they execute them.
  virtual bool checks() const noexcept { return false; }

  /// Returns when this rank's part is complete.
  virtual void run(const Call& call) = 0;
  /// Starts it; or completes it and returns null if overlap gains nothing. The operation owns the buffers, but not
  /// the lists.
  virtual RequestState* begin(const Call& call) = 0;
  /// Starts a group of messages. Failures are reported in the list.
  virtual RequestState* begin(std::shared_ptr<MessageList> messages, DataType type) = 0;
  /// A transport among some ranks, which include this one, in the order given; `on` are their hosts. Collective
  /// over them.
  virtual std::shared_ptr<Transport> subgroup(std::span<const int> ranks, Hosts on) = 0;

 private:
  int rank_;
  Hosts hosts_;
};

}  // namespace shardwise::detail
