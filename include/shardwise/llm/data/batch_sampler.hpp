// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Selects the sequences of each batch, in random orders. The result depends only on the options and the number of
/// the step, on any rank and mesh: a run that resumes at step k only needs to know k.
///
/// ```
/// BatchSampler sampler(corpus.size(), {.length = 1024, .batch = 64, .micro_batches = 4, .seed = 1});
/// for (auto batch : sampler.batches(from_step) | ranges::views::take(10)) { … }   // 64 sequences each
/// BatchSampler mix({{books.size(), 3}, {code.size(), 1}}, {.length = 1024, .batch = 64});   // 48 of books, 16 of code
/// constexpr Permutation order(1000003, seed, epoch);
/// Index first = order(0);   // every number below 1000003 once
/// ```

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#if !__has_include(<range/v3/view/iota.hpp>)
#error "shardwise/llm/data needs range-v3 (Debian: librange-v3-dev)"
#endif
#include <range/v3/algorithm/partition_point.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/slice.hpp>
#include <range/v3/view/transform.hpp>

#include <shardwise/base/text.hpp>
#include <shardwise/kernel/philox.hpp>
#include <shardwise/layout/block.hpp>

namespace shardwise::llm {

/// A permutation of [0, n) as a function of `n`, `seed` and `number`, without a list: each place is computed
/// separately, in O(1) time and memory. It is the generalised Feistel cipher of Black and Rogaway ("Ciphers with
/// arbitrary finite domains", CT-RSA 2002) on a pair of digits, with Philox as its round function; a result outside
/// [0, n) is enciphered again ("cycle walking"), which fewer than one in √n places need.
class Permutation {
 public:
  /// Throws `std::invalid_argument` if `n` is negative.
  constexpr explicit Permutation(Index n, std::uint64_t seed, std::uint64_t number = 0)
      : size_(n), seed_(seed), number_(number) {
    if (n < 0) detail::fail({"Permutation: ", n, " elements"});
    const auto count = static_cast<std::uint64_t>(n);
    low_ = ceiling_root(count);
    high_ = low_ > 0 ? (count + low_ - 1) / low_ : 0;
  }

  constexpr Index size() const { return size_; }

  /// The number at a place. Throws `std::out_of_range` unless 0 ≤ place < size().
  constexpr Index operator()(Index place) const {
    if (place < 0 || place >= size_) {
      detail::fail<std::out_of_range>({"Permutation: place ", place, " of ", size_});
    }
    auto value = static_cast<std::uint64_t>(place);
    do value = encipher(value);
    while (value >= static_cast<std::uint64_t>(size_));
    return static_cast<Index>(value);
  }

 private:
  /// Even, so that the digits end in their original order. With 8 rounds, the frequencies of the orders of five
  /// numbers differ by about 15 %.
  static constexpr std::uint32_t rounds = 16;

  /// The least r with r² ≥ n.
  static constexpr std::uint64_t ceiling_root(std::uint64_t n) {
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 31; bit > 0; bit >>= 1) {
      if ((root | bit) * (root | bit) < n) root |= bit;
    }
    return n > 0 ? root + 1 : 0;
  }

  /// A bijection of [0, low · high), a range of n numbers and fewer than √n + 1 more.
  constexpr std::uint64_t encipher(std::uint64_t value) const {
    std::uint64_t left = value % low_, right = value / low_;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed = (left + random(round, right)) % (round % 2 == 0 ? low_ : high_);
      left = right;
      right = mixed;
    }
    return right * low_ + left;
  }

  /// Digits are below 2^32, because n is below 2^63. The last counter word is 0 in all streams of kernel/philox.hpp.
  constexpr std::uint64_t random(std::uint32_t round, std::uint64_t digit) const {
    const auto words =
        kernel::philox({static_cast<std::uint32_t>(digit), static_cast<std::uint32_t>(number_),
                        static_cast<std::uint32_t>(number_ >> 32), 1 + round},
                       {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    return (std::uint64_t{words[0]} << 31) ^ words[1];  // adding `left` does not overflow
  }

  Index size_;
  std::uint64_t seed_, number_;
  std::uint64_t low_ = 0, high_ = 0;  // the digits' radices
};

/// The treatment of sequences at the end of an epoch that do not fill a batch.
enum class LastBatch {
  drop,  ///< dropped, like tokens that do not fill a sequence; another epoch has another order
  pad    ///< a batch with rows and targets of padding
};

struct BatchOptions {
  Index length = 0;         ///< of a sequence: inputs, and the same number of targets
  Index batch = 0;          ///< sequences per step, over all ranks and micro-batches
  Index micro_batches = 1;  ///< parts of a step that run one after another
  std::uint64_t seed = 0;   ///< of the random orders
  LastBatch last = LastBatch::drop;
  Index ignore_index = ignore_index_default;  ///< the target that is not counted, negative
  bool shuffle = true;                        ///< else each epoch has the sequences in order
};

/// One of several sources of tokens, and its weight.
struct MixedSource {
  Index tokens = 0, weight = 1;
};

/// The tokens split into sequences, in a different order in each epoch. Sequence i has the inputs [i · length, (i +
/// 1) · length) and targets shifted by one token, so neighbouring sequences share one token.
///
/// A mix takes the sequences of several sources, whose tokens follow one another, in proportion to their weights. Of
/// the first n sequences, each source has its share, to within one sequence for itself and each source before it. A
/// source is read in its own random order, then again in another one, and so on. An epoch is the least number of steps
/// in which each source is read as a whole.
class BatchSampler {
 public:
  /// Throws `std::invalid_argument` for options out of range, a batch that is not a multiple of the number of
  /// micro-batches, and too few tokens for one batch (with `LastBatch::pad`, for one target).
  constexpr BatchSampler(Index tokens, const BatchOptions& options) : options_(options) {
    check_options();
    add({tokens, 1});
    const bool pads = options.last == LastBatch::pad;
    steps_ = sequences_ / options.batch + (pads && sequences_ % options.batch != 0 ? 1 : 0);
    if (steps_ == 0) {
      detail::fail({"BatchSampler: ", tokens, " tokens make ", sequences_, " sequences of ", options.length,
                    " and a target, but a step needs ", pads ? 1 : options.batch});
    }
  }
  /// A mix. With `LastBatch::pad`, the last sequence of a source may be shorter; no batch has rows of padding. Throws
  /// `std::invalid_argument` also if `sources` is empty, if a source has no sequence, if a weight is less than 1, or if
  /// their sum is above 2^31 - 1.
  BatchSampler(const std::vector<MixedSource>& sources, const BatchOptions& options) : options_(options) {
    check_options();
    if (sources.empty()) detail::fail({"BatchSampler: sources is empty, expected at least one"});
    constexpr Index most = std::numeric_limits<std::int32_t>::max();  // products fit into 64 bits
    for (const MixedSource& each : sources) {
      if (each.weight < 1 || each.weight > most - weights_) {
        detail::fail({"BatchSampler: the weight ", each.weight, ": expected at least 1, and at most ", most,
                      " for the sum of all weights"});
      }
      add(each);
      if (sources_.back().sequences > 0) continue;
      detail::fail({"BatchSampler: the ", each.tokens, " tokens of source ", std::ssize(sources_),
                    " do not make a sequence of ", options.length, " and a target"});
    }
    mixes_ = true;
    const auto unread = [&](Index steps) {
      const std::vector<Index> read = counts(steps * options.batch);
      for (std::size_t i = 0; i < read.size(); ++i) {
        if (read[i] < sources_[i].sequences) return true;
      }
      return false;
    };
    steps_ =
        *ranges::partition_point(ranges::views::iota(Index{1}, (Index{1} << 62) / options.batch), unread);
  }

  /// The number of tokens of all sources together, the options, and the number of sequences.
  constexpr Index tokens() const { return tokens_; }
  constexpr const BatchOptions& options() const { return options_; }
  constexpr Index sequence_count() const { return sequences_; }
  /// The number of sequences in a micro-batch, over all ranks.
  constexpr Index micro_batch() const { return options_.batch / options_.micro_batches; }

  /// The number of steps in an epoch; and the epoch of a step, both from 0.
  constexpr Index steps_per_epoch() const { return steps_; }
  constexpr Index epoch_of(Index step) const {
    check(step);
    return step / steps_;
  }

  /// The sequences of a step as a lazy range of `std::optional<Index>`; an empty one is a row of padding. Steps
  /// count from 0 without end. Throws `std::invalid_argument` for a negative step.
  auto sequences(Index step) const {
    check(step);
    return ranges::views::iota(Index{0}, options_.batch) |
           ranges::views::transform([sampler = *this, step](Index row) { return sampler.at(step, row); });
  }
  /// The same for one of its micro-batches, in [0, micro_batches).
  auto sequences(Index step, Index micro) const {
    check(step, micro);
    return sequences(step) | ranges::views::slice(micro * micro_batch(), (micro + 1) * micro_batch());
  }

  /// The infinite lazy range `sequences(from_step)`, `sequences(from_step + 1)`, …
  auto batches(Index from_step) const {
    check(from_step);
    return ranges::views::iota(from_step) |
           ranges::views::transform([sampler = *this](Index step) { return sampler.sequences(step); });
  }

  /// The positions of a sequence's inputs; its targets are shifted by one. The last sequence of a corpus may be
  /// shorter than `length`.
  constexpr Range inputs_of(Index sequence) const {
    if (sequence < 0 || sequence >= sequences_) {
      detail::fail<std::out_of_range>({"BatchSampler: sequence ", sequence, " of ", sequences_});
    }
    const Source& source = *std::find_if(sources_.begin(), sources_.end(), [=](const Source& each) {
      return sequence < each.first_sequence + each.sequences;
    });
    const Index begin = (sequence - source.first_sequence) * options_.length;
    return {source.first_token + begin, std::min(options_.length, source.tokens - 1 - begin)};
  }

  /// The number of targets in a step that count: over all ranks and micro-batches, without padding.
  constexpr Index counted(Index step) const {
    check(step);
    if (options_.last == LastBatch::drop) return options_.batch * options_.length;
    Index targets = 0;
    for (Index row = 0; row < options_.batch; ++row) {
      if (const auto sequence = at(step, row)) targets += inputs_of(*sequence).size;
    }
    return targets;
  }

  /// The number of sequences of each source.
  std::vector<Index> sizes() const {
    std::vector<Index> sizes;
    for (const Source& each : sources_) sizes.push_back(each.sequences);
    return sizes;
  }
  /// How many of the first `places` sequences of a run are of each source of a mix.
  constexpr std::vector<Index> counts(Index places) const {
    std::vector<Index> counts;
    Index rest = weights_;
    for (const Source& each : sources_) {  // its part of what is left for it and those after it
      counts.push_back(places / rest * each.weight + places % rest * each.weight / rest);
      places -= counts.back();
      rest -= each.weight;
    }
    return counts;
  }

  /// Throws `std::invalid_argument` for a step or micro-batch out of range.
  constexpr void check(Index step, Index micro = 0) const {
    if (step < 0) detail::fail({"BatchSampler: step ", step, " is negative"});
    if (micro < 0 || micro >= options_.micro_batches) {
      detail::fail({"BatchSampler: micro-batch ", micro, " of ", options_.micro_batches});
    }
  }

 private:
  static constexpr void check_positive(Index value, const char* name) {
    if (value >= 1) return;
    detail::fail({"BatchSampler: ", name, " is ", value, ": expected at least 1"});
  }

  constexpr void check_options() const {
    check_positive(options_.length, "length");
    check_positive(options_.batch, "batch");
    check_positive(options_.micro_batches, "micro_batches");
    if (options_.batch % options_.micro_batches != 0) {
      detail::fail({"BatchSampler: batch ", options_.batch, " is not a multiple of micro_batches ",
                    options_.micro_batches});
    }
    if (options_.ignore_index >= 0 || options_.ignore_index < std::numeric_limits<std::int32_t>::min()) {
      detail::fail({"BatchSampler: ignore_index ", options_.ignore_index,
                    ": expected a negative number of 32 bits, which is not a token"});
    }
  }

  struct Source {
    Index tokens, weight, first_token, first_sequence, sequences;
  };
  constexpr void add(const MixedSource& source) {
    const Index targets = std::max<Index>(source.tokens - 1, 0), length = options_.length;
    const bool shorter = options_.last == LastBatch::pad && targets % length != 0;
    sources_.push_back(
        {source.tokens, source.weight, tokens_, sequences_, targets / length + (shorter ? 1 : 0)});
    tokens_ += source.tokens;
    sequences_ += sources_.back().sequences;
    weights_ += source.weight;
  }

  /// The sequence in a row of a step.
  constexpr std::optional<Index> at(Index step, Index row) const {
    if (!mixes_) return at_place(0, step / steps_, step % steps_ * options_.batch + row);
    const Index place = step * options_.batch + row;
    const std::vector<Index> before = counts(place), with = counts(place + 1);
    std::size_t i = 0;
    while (before[i] == with[i]) ++i;
    return at_place(i, before[i] / sources_[i].sequences, before[i] % sources_[i].sequences);
  }
  constexpr std::optional<Index> at_place(std::size_t number, Index epoch, Index place) const {
    const Source& source = sources_[number];
    if (place >= source.sequences) return std::nullopt;
    if (options_.shuffle) {  // sources of one size have different orders
      const std::uint64_t seed = options_.seed + number * 0x9E3779B97F4A7C15;
      place = Permutation(source.sequences, seed, static_cast<std::uint64_t>(epoch))(place);
    }
    return source.first_sequence + place;
  }

  BatchOptions options_;
  std::vector<Source> sources_;
  bool mixes_ = false;
  Index tokens_ = 0, sequences_ = 0, weights_ = 0;  ///< of all sources
  Index steps_ = 0;
};

}  // namespace shardwise::llm
