// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which ranks of a communicator share a host, and how far that is even: then what goes from host to host can go in
/// lanes, the first rank of each host to the first of another, the second to the second (Jocksch et al., 2021; NCCL's
/// rails).

#include <algorithm>
#include <span>
#include <vector>

namespace shardwise {

class Hosts {
 public:
  /// `ids`: for each rank a number that is the same where the host is.
  constexpr explicit Hosts(std::span<const int> ids) {
    std::vector<int> known;
    for (const int id : ids) {
      const auto place = std::find(known.begin(), known.end(), id);
      of_.push_back(static_cast<int>(place - known.begin()));
      if (place == known.end()) known.push_back(id);
    }
    count_ = static_cast<int>(known.size());
    std::vector<int> members(known.size(), 0);
    for (const int host : of_) lane_.push_back(members[static_cast<std::size_t>(host)]++);
    lanes_ = size() / count_;
    even_ = std::all_of(members.begin(), members.end(), [&](int number) { return number == lanes_; });
    if (!even_) lanes_ = 1;
    at_.resize(of_.size(), 0);
    for (int rank = 0; rank < size(); ++rank) at_[place(position(rank), lane(rank))] = rank;
  }

  constexpr int size() const { return static_cast<int>(of_.size()); }
  /// Hosts, and the host of a rank: numbered in the order of the ranks.
  constexpr int count() const { return count_; }
  constexpr int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }

  /// Ranks that each host has. Where they have different numbers: one, as if each rank had a host for itself.
  constexpr int lanes() const { return lanes_; }
  /// Ranks in a lane: one a host, or all.
  constexpr int lane_size() const { return size() / lanes_; }
  constexpr int lane(int rank) const { return even_ ? lane_[static_cast<std::size_t>(rank)] : 0; }
  /// The position of a rank within its lane, and the rank at a position of a lane.
  constexpr int position(int rank) const { return even_ ? of(rank) : rank; }
  constexpr int rank_at(int position, int lane) const { return at_[place(position, lane)]; }

 private:
  constexpr std::size_t place(int position, int lane) const {
    return static_cast<std::size_t>(position) * static_cast<std::size_t>(lanes_) +
           static_cast<std::size_t>(lane);
  }

  std::vector<int> of_, lane_, at_;
  int count_ = 0, lanes_ = 1;
  bool even_ = true;
};

}  // namespace shardwise
