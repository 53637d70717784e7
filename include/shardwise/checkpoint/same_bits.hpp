// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Finds bits that a processor or a memory has flipped. A program's bits repeat: so copies of a tensor on several ranks
/// are equal, and a step that is made twice from one state sends the same data and ends in the same state.
///
/// ```
/// compare_copies(run);                                                       // throws, and names tensor and ranks
/// if (auto found = repeat_step(run, [&] { train_step(step); })) std::puts(found->text.c_str());
/// StepFingerprints mine = fingerprints_of(run, [&] { train_step(step); });     // for another run of the step
/// ```

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/fingerprint.hpp>

namespace shardwise {

/// The result of `repeat_step`, if bits differ.
struct StepDifference {
  /// Of the contents: whose data differed first. If ranks send different numbers of messages, as the stages of a
  /// pipeline do, that cannot be compared: all whose data differ.
  std::vector<int> ranks;
  bool repaired = false;  ///< whether a third run had the same bits as one of the two, on every rank
  std::string text;       ///< "rank 2: what it sent in message 7 differs between two runs of a step, …"
};

/// The data of a step on one rank, as fingerprints.
struct StepFingerprints {
  std::vector<std::uint64_t> sent;      ///< what it sent, message by message
  std::vector<std::uint64_t> contents;  ///< its blocks after the step, then its numbers, as they were added
};

namespace detail {

inline Index bytes_of_block(const AnyTensor& x) { return x.local_elements() * x.element_bytes(); }

/// The tensor as it is now, also if its value is still on its way.
inline AnyTensor finished(const CheckpointBlock& block, bool writes = false) {
  if (block.parameter) block.parameter->await();
  return block.now(writes);
}

inline std::uint64_t fingerprint_of(const void* data, Index bytes) {
  return fingerprint_of(std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(bytes)));
}
inline std::uint64_t fingerprint_of(const AnyTensor& x) {
  return fingerprint_of(x.buffer->data, bytes_of_block(x));
}

/// Adds the fingerprints of what this rank sends, as long as it lives.
class SentFingerprints final : public SentData {
 public:
  explicit SentFingerprints(std::vector<std::uint64_t>& all)
      : all_(all), outer_(std::exchange(sent_data, this)) {}
  SentFingerprints& operator=(SentFingerprints&&) = delete;
  ~SentFingerprints() { sent_data = outer_; }
  void sent(const void* data, Index bytes) override {
    all_.push_back(fingerprint_of(data, bytes));
    if (outer_) outer_->sent(data, bytes);
  }

 private:
  std::vector<std::uint64_t>& all_;
  SentData* outer_;
};

/// The blocks and numbers of a rank, as they were.
class StateCopy {
 public:
  explicit StateCopy(const CheckpointContents& contents) {
    Index bytes = 0;
    for (const CheckpointBlock& block : contents.blocks()) bytes += bytes_of_block(block.tensor);
    bytes_.reserve(static_cast<std::size_t>(bytes));
    for (const CheckpointBlock& block : contents.blocks()) {
      const AnyTensor x = finished(block);
      const auto* data = static_cast<const char*>(x.buffer->data);
      bytes_.insert(bytes_.end(), data, data + bytes_of_block(x));
    }
    for (const auto& [name, number] : contents.numbers()) numbers_.push_back(*number);
  }
  void restore(const CheckpointContents& contents) const {
    const char* from = bytes_.data();
    for (const CheckpointBlock& block : contents.blocks()) {
      const AnyTensor x = finished(block, true);
      std::memcpy(x.buffer->data, from, static_cast<std::size_t>(bytes_of_block(x)));
      from += bytes_of_block(x);
      if (block.parameter) block.parameter->writable();  // it has another value
    }
    for (std::size_t i = 0; i < numbers_.size(); ++i) *contents.numbers()[i].second = numbers_[i];
  }

 private:
  std::vector<char> bytes_;
  std::vector<std::int64_t> numbers_;
};

/// Fingerprints of this rank's blocks, then its numbers.
inline std::vector<std::uint64_t> fingerprints_now(const CheckpointContents& contents) {
  std::vector<std::uint64_t> all;
  for (const CheckpointBlock& block : contents.blocks()) all.push_back(fingerprint_of(finished(block)));
  for (const auto& [name, number] : contents.numbers()) all.push_back(static_cast<std::uint64_t>(*number));
  return all;
}

}  // namespace detail

/// Makes a step, and returns its fingerprints. All such steps begin alike, also after a load: each gathers its
/// parameters again.
template <class Step>
StepFingerprints fingerprints_of(const CheckpointContents& contents, Step step) {
  for (const detail::CheckpointBlock& block : contents.blocks()) {
    if (block.parameter) block.parameter->writable();
  }
  StepFingerprints found;
  {
    const detail::SentFingerprints observed(found.sent);
    step();
  }
  found.contents = detail::fingerprints_now(contents);
  return found;
}

/// Calls f(name, fingerprint) for this rank's block of each gradient, after `reduce_gradients`.
template <class Module, class F>
void fingerprint_gradients(Module& module, F f) {
  for (const auto& parameter : detail::distinct(detail::named_parameters_of(module))) {
    if (!parameter.cell->finished.filled()) continue;
    f(parameter.name, detail::fingerprint_of(parameter.cell->finished_gradient()));
  }
}

/// Compares two runs of a step from the same state, perhaps of two jobs. Nothing if all ranks have the same
/// fingerprints. Collective.
std::optional<StepDifference> difference_of(const Communicator& ranks, const StepFingerprints& first,
                                            const StepFingerprints& second);

/// Makes a step twice from the same contents, which must be all that it reads and changes, and compares what each rank
/// sends and what it has afterwards. If bits differ, it makes the step once more: the contents are then those of the
/// third run. The ranks whose data differed first have computed or kept something else; the others received it.
/// A first step that sends other messages than a later one, to set something up, is not a difference. It needs memory
/// for a copy of the contents, and the time of two steps. Collective.
template <class Step>
std::optional<StepDifference> repeat_step(const CheckpointContents& contents, Step step) {
  const Communicator& ranks = contents.ranks();
  const detail::StateCopy before(contents);
  const auto again = [&] {
    before.restore(contents);
    return fingerprints_of(contents, step);
  };
  const StepFingerprints first = again(), second = again();
  std::optional<StepDifference> found = difference_of(ranks, first, second);
  if (!found) return found;
  const StepFingerprints third = again();
  const bool is_second = !difference_of(ranks, second, third);
  if (is_second && !ranks.agree(first.sent.size() == second.sent.size())) return std::nullopt;
  found->repaired = is_second || !difference_of(ranks, first, third);
  found->text += found->repaired ? ", and a third run has the bits of one of them"
                                 : ", and a third run has other bits again";
  return found;
}

/// Compares the copies that ranks have of the same block of a tensor. Throws `std::runtime_error`, on all ranks, which
/// names the tensors, and the ranks whose bits are equal: the fewest first. Collective: it gathers 16 bytes per tensor
/// and rank.
void compare_copies(const CheckpointContents& contents);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::optional<StepDifference> difference_of(const Communicator& ranks,
                                                             const StepFingerprints& first,
                                                             const StepFingerprints& second) {
  constexpr Index never = std::numeric_limits<Index>::max();
  const auto messages = std::ssize(first.sent);
  const auto differs = [](const auto& one, const auto& other, Index before) {
    const Index place = std::ranges::mismatch(one, other).in1 - one.begin();
    return one == other ? never : before + place;
  };
  const Index mine[]{
      std::min(differs(first.sent, second.sent, 0), differs(first.contents, second.contents, messages)),
      messages};
  const std::vector<Index> all = ranks.all_gather(mine);
  Index earliest = never;
  bool alike = true;  // the ranks' sequences of messages
  for (std::size_t i = 0; i < all.size(); i += 2) {
    earliest = std::min(earliest, all[i]);
    alike = alike && all[i + 1] == all[1];
  }
  if (earliest == never) return std::nullopt;
  StepDifference found;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    if (alike ? all[i] == earliest : all[i] != never) found.ranks.push_back(static_cast<int>(i / 2));
  }
  const bool one = found.ranks.size() == 1;
  found.text = detail::ranks_text(found.ranks, ranks.size()) + (one ? ": what it " : ": what they ");
  if (!alike) {
    found.text += one ? "sent or has at the end" : "sent or have at the end";
  } else if (earliest < all[1]) {
    found.text += "sent in message " + std::to_string(earliest);
  } else {
    found.text += one ? "has at the end" : "have at the end";
  }
  found.text += " differs between two runs of a step from the same state";
  return found;
}

SHARDWISE_INLINE void compare_copies(const CheckpointContents& contents) {
  detail::Problems problems;
  for (const detail::CheckpointBlock& block : contents.blocks()) {
    const detail::AnyTensor x = detail::finished(block);
    const AxisSet cutting = x.layout.axes_where([](Placement p) { return p.is_shard(); });
    const Index mine[]{group_rank(x.mesh.sizes(), x.mesh.coordinates(), x.mesh.axes(), cutting),
                       std::bit_cast<Index>(detail::fingerprint_of(x))};
    const Communicator& ranks = x.mesh.communicator();
    const std::vector<Index> all = ranks.all_gather(mine);
    std::map<Index, std::vector<int>> having;  // these bits, of the same block
    int first = -1;
    for (int r = 0; r < ranks.size(); ++r) {
      const auto place = 2 * static_cast<std::size_t>(r);
      if (all[place] != mine[0]) continue;
      having[all[place + 1]].push_back(r);
      if (first < 0) first = r;
    }
    if (having.size() < 2 || first != ranks.rank()) continue;
    std::vector<std::vector<int>> groups;
    for (auto& [bits, who] : having) groups.push_back(std::move(who));
    std::ranges::sort(groups, {}, [](const auto& who) { return std::pair(who.size(), who.front()); });
    std::string text;
    for (const std::vector<int>& who : groups)
      text += (text.empty() ? "" : " and ") + detail::ranks_text(who, ranks.size() + 1);
    problems.add("\"" + block.name + "\": the copies of " + text + " have different bits");
  }
  problems.throw_together(contents.ranks(), "compare_copies");
}

#endif

}  // namespace shardwise
