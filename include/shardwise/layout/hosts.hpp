// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Groups the ranks of a communicator by host, and pairs ranks across hosts so that data travel between two hosts
/// once: the first rank of one host talks to the first ranks of the others, the second to the second (Jocksch et
/// al., 2021; NCCL's rails).

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace shardwise {

/// Which ranks share a host.
class Hosts {
 public:
  /// `ids`: one number per rank, equal for ranks on the same host.
  constexpr explicit Hosts(std::span<const int> ids) {
    std::vector<std::pair<int, std::size_t>> known;  // ids and numbers of hosts, by id
    for (const int id : ids) {
      auto place = std::lower_bound(known.begin(), known.end(), std::pair(id, std::size_t{0}));
      if (place == known.end() || place->first != id) {
        place = known.insert(place, {id, ranks_on_.size()});
        ranks_on_.emplace_back();
      }
      const std::size_t host = place->second;
      number_.push_back(ranks_on_[host].size());
      ranks_on_[host].push_back(size());
      of_.push_back(static_cast<int>(host));
    }
  }

  /// The number of ranks.
  constexpr int size() const { return static_cast<int>(of_.size()); }
  /// Hosts are numbered in the order of their first ranks.
  constexpr int count() const { return static_cast<int>(ranks_on_.size()); }
  constexpr int of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  constexpr const std::vector<int>& ranks_on(int host) const {
    return ranks_on_[static_cast<std::size_t>(host)];
  }
  /// The rank on `host` that handles the data of `rank`: `rank` itself on its own host; elsewhere the rank with the
  /// same number on its host, modulo the number of ranks there.
  constexpr int keeper(int host, int rank) const {
    const std::vector<int>& ranks = ranks_on(host);
    return ranks[number(rank) % ranks.size()];
  }
  /// f(other) for each rank whose data `rank` keeps, host by host; on its own host only for itself.
  template <class F>
  constexpr void for_kept(int rank, F f) const {
    const std::size_t together = ranks_on(of(rank)).size();
    for (const std::vector<int>& ranks : ranks_on_) {
      for (std::size_t i = number(rank); i < ranks.size(); i += together) f(ranks[i]);
    }
  }
  /// f(other) for each rank that keeps the data of `rank` on another host.
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
