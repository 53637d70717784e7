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

#include <shardwise/mesh/mpi.hpp>

namespace shardwise {

class Hosts {
 public:
  /// `ids`: for each rank a number that is the same where the host is.
  explicit Hosts(std::span<const int> ids) {
    std::vector<int> known;
    for (const int id : ids) {
      const auto place = std::find(known.begin(), known.end(), id);
      of_.push_back(static_cast<int>(place - known.begin()));
      if (place == known.end()) known.push_back(id);
    }
    count_ = static_cast<int>(known.size());
    std::vector<int> members(known.size());
    for (const int host : of_) lane_.push_back(members[static_cast<std::size_t>(host)]++);
    lanes_ = size() / count_;
    even_ = std::all_of(members.begin(), members.end(), [&](int number) { return number == lanes_; });
    if (!even_) lanes_ = 1;
    at_.resize(of_.size());
    for (int rank = 0; rank < size(); ++rank) at_[place_of(rank)] = rank;
  }

  int size() const { return static_cast<int>(of_.size()); }
  /// Hosts, and the host of a rank: numbered in the order of the ranks.
  int count() const { return count_; }
  int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }

  /// Ranks that each host has. Where they have different numbers: one, as if each rank had a host for itself.
  int lanes() const { return lanes_; }
  /// Ranks in a lane: one a host, or all.
  int lane_size() const { return size() / lanes_; }
  int lane(int rank) const { return even_ ? lane_[static_cast<std::size_t>(rank)] : 0; }
  /// The position of a rank within its lane, and the rank at a position of a lane.
  int position(int rank) const { return even_ ? of(rank) : rank; }
  int rank_at(int position, int lane) const {
    return at_[static_cast<std::size_t>(position * lanes_ + lane)];
  }

 private:
  std::size_t place_of(int rank) const {
    return static_cast<std::size_t>(position(rank) * lanes_ + lane(rank));
  }

  std::vector<int> of_, lane_, at_;
  int count_ = 0, lanes_ = 1;
  bool even_ = true;
};

namespace detail {

/// The first rank on this rank's host, as MPI sees hosts: where ranks can share memory. Collective.
inline int first_on_host(MPI_Comm ranks) {
  MPI_Comm host = MPI_COMM_NULL;
  int first = 0;
  MPI_Comm_rank(ranks, &first);
  check_mpi(MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, first, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  const int told = MPI_Bcast(&first, 1, MPI_INT, 0, host);
  MPI_Comm_free(&host);
  check_mpi(told, "MPI_Bcast");
  return first;
}

}  // namespace detail
}  // namespace shardwise
