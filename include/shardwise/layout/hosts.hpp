// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which ranks of a communicator share a host, and who speaks for whom there. What goes from host to host then goes once:
/// a host's first rank deals with the first of the others, its second with the second (Jocksch et al., 2021; NCCL's rails).

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
      const auto host = static_cast<std::size_t>(place - known.begin());
      if (place == known.end()) {
        known.push_back(id);
        ranks_on_.emplace_back();
      }
      number_.push_back(ranks_on_[host].size());
      ranks_on_[host].push_back(size());
      of_.push_back(static_cast<int>(host));
    }
  }

  constexpr int size() const { return static_cast<int>(of_.size()); }
  /// Hosts, and the host of a rank: numbered in the order of the ranks.
  constexpr int count() const { return static_cast<int>(ranks_on_.size()); }
  constexpr int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  /// The ranks of a host, in their order.
  constexpr const std::vector<int>& ranks_on(int host) const {
    return ranks_on_[static_cast<std::size_t>(host)];
  }
  /// The rank of a host that keeps there what belongs to `rank`: itself on its own host; on another one the first for
  /// the first, the second for the second, and where there are fewer, from the first on again.
  constexpr int keeper(int host, int rank) const {
    const std::vector<int>& ranks = ranks_on(host);
    return ranks[number(rank) % ranks.size()];
  }
  /// f(other) for those whose things `rank` keeps, host by host: of its own host itself.
  template <class F>
  constexpr void for_kept(int rank, F f) const {
    const std::size_t together = ranks_on(of(rank)).size();
    for (const std::vector<int>& ranks : ranks_on_) {
      for (std::size_t i = number(rank); i < ranks.size(); i += together) f(ranks[i]);
    }
  }
  /// f(other) for those that keep what belongs to `rank` on the other hosts.
  template <class F>
  constexpr void for_keepers(int rank, F f) const {
    for (int host = 0; host < count(); ++host) {
      if (host != of(rank)) f(keeper(host, rank));
    }
  }

 private:
  constexpr std::size_t number(int rank) const { return number_[static_cast<std::size_t>(rank)]; }

  std::vector<int> of_;
  std::vector<std::size_t> number_;  ///< of a rank on its host
  std::vector<std::vector<int>> ranks_on_;
};

}  // namespace shardwise
