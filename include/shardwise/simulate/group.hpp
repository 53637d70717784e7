// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The state shared by the ranks of a simulated communicator: their collectives, which must match, and their messages.

#include <cstring>
#include <deque>

#include <shardwise/comm/place_in_program.hpp>
#include <shardwise/comm/rounds.hpp>
#include <shardwise/layout/block.hpp>

namespace shardwise::detail::simulated {

/// The reduction of terms without MPI, in this order, ((0, 1), 2), …, as through shared memory; sums of bfloat16 are
/// computed in float and rounded once.
inline std::vector<char> reduced(const Elements& elements, Index count,
                                 const std::vector<const char*>& terms) {
  const auto bytes = static_cast<std::size_t>(count * elements.width);
  std::vector<char> result(terms[0], terms[0] + bytes);
  if (!elements.own && sums_wide(elements.type, elements.op)) {
    std::vector<char> others;
    for (std::size_t r = 1; r < terms.size(); ++r) others.insert(others.end(), terms[r], terms[r] + bytes);
    add_bf16(count, result.data(), others.data(), count, static_cast<int>(terms.size()) - 1, result.data());
    return result;
  }
  const OwnReduction& how = elements.own ? *elements.own : number_reduction(elements.type, elements.op);
  for (std::size_t r = 1; r < terms.size(); ++r) how.combine(count, terms[r], result.data());
  return result;
}

/// The same in the order of a `BlockOperation`: for each rank's block, its host's terms, beginning with its own, then
/// the sums of the other hosts, each beginning with its keeper's term.
inline std::vector<char> reduced_in_rounds(const Call& call, const Hosts& hosts,
                                           const std::vector<const char*>& terms) {
  std::vector<char> result;
  Index begin = 0, end = 0;
  for (int home = 0; home < hosts.size(); ++home, begin = end) {
    end = call.kind == Collective::all_reduce ? call.count * (home + 1) / hosts.size()
                                              : begin + call.counts[static_cast<std::size_t>(home)];
    std::vector<std::vector<char>> of_hosts;
    const auto add_host = [&](int first) {
      std::vector<const char*> here;
      const auto add = [&](int rank) {
        here.push_back(terms[static_cast<std::size_t>(rank)] + begin * call.elements.width);
      };
      add(first);
      for (const int rank : hosts.ranks_on(hosts.of(first))) {
        if (rank != first) add(rank);
      }
      of_hosts.push_back(reduced(call.elements, end - begin, here));
    };
    add_host(home);
    hosts.for_keepers(home, add_host);
    std::vector<const char*> sums;
    for (const std::vector<char>& sum : of_hosts) sums.push_back(sum.data());
    const std::vector<char> block = reduced(call.elements, end - begin, sums);
    result.insert(result.end(), block.begin(), block.end());
  }
  return result;
}

/// A collective as called by one rank. It copies its arguments, because lists and buffers may change while it is in
/// flight.
struct CalledBy {
  CalledBy(const Call& made, int by)
      : call(made),
        rank(static_cast<std::size_t>(by)),
        counts(made.counts.begin(), made.counts.end()),
        axes(made.axes),
        where(PlaceInProgram::here()) {
    const auto add = [](std::vector<Range>& parts, Numbers places, Numbers sizes) {
      for (std::size_t r = 0; r < sizes.size(); ++r) parts.push_back({places[r], sizes[r]});
    };
    const Range whole{0, call.kind == Collective::all_reduce ? call.count : sum_of(counts)};
    const Range own{0, counts.empty() ? 0 : counts[rank]};
    if (call.reduces()) taken = {whole};
    if (call.kind == Collective::all_reduce) given = {whole};
    if (call.kind == Collective::reduce_scatter) given = {own};
    if (call.kind == Collective::all_gather) taken = {own};
    if (call.kind == Collective::all_gather) add(given, call.offsets, call.counts);
    if (call.kind == Collective::all_to_all) add(taken, call.offsets, call.counts);
    if (call.kind == Collective::all_to_all) add(given, call.places, call.arriving);
    input = packed();
    call.counts = counts;
    call.axes = axes.c_str();
    call.offsets = call.arriving = call.places = {};  // the caller's lists
  }
  CalledBy& operator=(CalledBy&&) = delete;

  Call call;
  std::size_t rank;
  std::vector<Index> counts;
  std::vector<Range> taken, given;  ///< of its input and its output, in elements
  std::vector<char> input;          ///< its parts, concatenated
  std::string axes;
  PlaceInProgram where;

  std::string text() const {
    const std::string at = where.text();
    return text_of(call) + (at.empty() ? "" : " at " + at);
  }
  std::size_t bytes(const Range& part) const {
    return static_cast<std::size_t>(part.size * call.elements.width);
  }
  const char* input_at(const Range& part) const { return call.source() + part.begin * call.elements.width; }
  char* output_at(const Range& part) const { return call.target() + part.begin * call.elements.width; }
  /// Poisons the output with 0xff bytes, so that reading it too early is visible.
  void spoil_output() const {
    for (const Range& part : given) {
      if (part.size > 0) std::memset(output_at(part), 0xff, bytes(part));
    }
  }
  /// Whether its input was changed, unless the output overlaps it.
  bool input_changed() const {
    for (const Range& in : taken) {
      for (const Range& out : given) {
        if (input_at(in) < output_at(out) + bytes(out) && output_at(out) < input_at(in) + bytes(in))
          return false;
      }
    }
    return packed() != input;
  }

 private:
  std::vector<char> packed() const {
    std::vector<char> all;
    for (const Range& part : taken) {
      if (part.size > 0) all.insert(all.end(), input_at(part), input_at(part) + bytes(part));
    }
    return all;
  }
};

/// A collective: it is complete when all ranks have called it, and is deleted when all have received their results.
struct Collected {
  explicit Collected(int ranks) : calls(static_cast<std::size_t>(ranks)) {}

  std::vector<std::unique_ptr<CalledBy>> calls;
  int called = 0, left = 0;
  std::vector<char> sum;  ///< if it reduces
  bool complete() const { return called == static_cast<int>(calls.size()); }

  /// Called when it is complete. Throws a `std::runtime_error` if parts of an all-to-all do not match.
  void compute(const Hosts& hosts) {
    const Call& first = calls[0]->call;
    std::vector<const char*> terms;
    for (const auto& by : calls) terms.push_back(by->input.data());
    if (first.reduces()) {
      sum = in_rounds(first, hosts) ? reduced_in_rounds(first, hosts, terms)
                                    : reduced(first.elements, calls[0]->taken[0].size, terms);
    }
    for (std::size_t r = 0; first.kind == Collective::all_to_all && r < calls.size(); ++r) {
      for (std::size_t to = 0; to < calls.size(); ++to) {
        const Index sent = calls[r]->taken[to].size, expected = calls[to]->given[r].size;
        if (sent == expected) continue;
        fail<std::runtime_error>({"the ", r, "th rank sends ", sent, " elements to the ", to,
                                  "th, which expects ", expected, ": ", calls[r]->text(), " and ",
                                  calls[to]->text()});
      }
    }
  }
  /// Copies a rank's result to its output.
  void deliver(int rank) {
    const CalledBy& by = *calls[static_cast<std::size_t>(rank)];
    for (std::size_t r = 0; r < by.given.size(); ++r) {
      if (by.given[r].size > 0) std::memcpy(by.output_at(by.given[r]), source(by, r), by.bytes(by.given[r]));
    }
    ++left;
  }

 private:
  const char* source(const CalledBy& by, std::size_t part) const {
    const auto before = [&](const CalledBy& sender) {
      std::size_t bytes = 0;
      for (std::size_t r = 0; r < by.rank; ++r)
        bytes += static_cast<std::size_t>(sender.counts[r] * sender.call.elements.width);
      return bytes;
    };
    if (by.call.kind == Collective::all_reduce) return sum.data();
    if (by.call.kind == Collective::reduce_scatter) return sum.data() + before(by);
    const CalledBy& sender = *calls[part];
    return sender.input.data() + (by.call.kind == Collective::all_to_all ? before(sender) : 0);
  }
};

struct Mail {
  int label;
  std::vector<char> data;
  PlaceInProgram where;
};

/// The messages from one rank to another: the nth one sent goes to the nth receive.
struct Mailbox {
  std::deque<Mail> sent;
  std::size_t receivers = 0;
};

/// The state shared by the ranks of a communicator, which have their numbers in the whole simulation.
struct Group {
  explicit Group(std::vector<int> members) : ranks(std::move(members)), next(ranks.size()) {}

  std::vector<int> ranks;
  std::deque<Collected> collectives;  ///< those not yet deleted
  std::size_t forgotten = 0;
  std::vector<std::size_t> next;  ///< the number of collectives that each rank has called
  std::map<std::pair<int, int>, Mailbox> mail;

  Collected& collective(std::size_t number) { return collectives[number - forgotten]; }
  /// Rank number `rank` of the group calls its next collective. Returns the collective's number; throws a
  /// `std::runtime_error` if the call differs from that of other ranks.
  std::size_t call(int rank, const Hosts& hosts, std::unique_ptr<CalledBy> made) {
    const std::size_t number = next[static_cast<std::size_t>(rank)]++;
    if (number - forgotten == collectives.size()) collectives.emplace_back(static_cast<int>(ranks.size()));
    Collected& it = collective(number);
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (!it.calls[other] || signature(it.calls[other]->call) == signature(made->call)) continue;
      fail<std::runtime_error>({"ranks differ in their collective ", number, ": rank ",
                                ranks[static_cast<std::size_t>(rank)], " calls ", made->text(), ", but rank ",
                                ranks[other], " ", it.calls[other]->text()});
    }
    it.calls[static_cast<std::size_t>(rank)] = std::move(made);
    ++it.called;
    if (it.complete()) it.compute(hosts);
    return number;
  }
  void deliver(std::size_t number, int rank) {
    collective(number).deliver(rank);
    while (!collectives.empty() && collectives.front().left == static_cast<int>(ranks.size())) {
      collectives.pop_front();
      ++forgotten;
    }
  }
  /// The ranks that have not called it yet.
  std::string missing(std::size_t number) {
    std::string words;
    int count = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (collective(number).calls[r]) continue;
      words += (count++ > 0 ? ", " : "") + std::to_string(ranks[r]);
    }
    return (count == 1 ? "rank " : "ranks ") + words;
  }
};

}  // namespace shardwise::detail::simulated
