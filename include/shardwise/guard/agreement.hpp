// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Turns one rank's problem into an error of every rank: all throw the same message, and no rank waits for ever.

#include <functional>
#include <map>

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/communicator.hpp>

namespace shardwise::detail {

inline std::string ranks_text(const std::vector<int>& ranks, int size) {
  if (static_cast<int>(ranks.size()) == size) return size == 1 ? "rank 0" : "all ranks";
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : " ") + std::to_string(ranks[i]);
  return text;
}

/// The problems of this rank.
class Problems {
 public:
  void add(std::string problem) { list_.push_back(std::move(problem)); }
  /// Runs f(). An exception becomes a problem.
  template <class F>
  void guard(F f) {
    try {
      f();
    } catch (const std::exception& error) {
      add(error.what());
    }
  }
  bool none() const { return list_.empty(); }

  /// Throws a `std::runtime_error` on all ranks if any has a problem: "TASK: PROBLEM (rank 1)". The message has the
  /// first ten problems, each with its ranks, and the first 500 bytes of a long one. Collective.
  void throw_together(const Communicator& ranks, std::string_view task) const;

 private:
  static constexpr std::size_t told = 10, longest = 500;  // problems, and bytes of each

  /// This rank's first problems, each ended by a zero byte.
  std::string packed() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(told, list_.size()); ++i) {
      std::string problem = excerpt(list_[i], longest);
      std::replace(problem.begin(), problem.end(), '\0', ' ');
      text += problem + '\0';
    }
    return text;
  }

  std::vector<std::string> list_;
};

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void Problems::throw_together(const Communicator& ranks, std::string_view task) const {
  const Index mine[]{static_cast<Index>(list_.size())};
  const std::vector<Index> counts = ranks.all_gather(mine);
  // The ranks' lists overlap, so the longest is a lower bound of the total.
  const Index most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return;
  const std::vector<std::string> texts = ranks.all_gather(packed());

  std::vector<std::string> problems;  // in the order in which the ranks report them
  std::map<std::string, std::vector<int>, std::less<>> found_by;
  for (int r = 0; r < ranks.size(); ++r) {
    for (std::string_view rest = texts[static_cast<std::size_t>(r)]; !rest.empty();) {
      const std::string problem(take_part(rest, '\0'));
      auto& who = found_by[problem];
      if (who.empty()) problems.push_back(problem);
      if (who.empty() || who.back() != r) who.push_back(r);
    }
  }
  const auto shown = std::min(told, problems.size());
  const auto count = std::max(static_cast<std::size_t>(most), problems.size());
  std::string message = std::string(task) + ": ";
  if (count > 1) message += std::to_string(count) + " problems: ";
  for (std::size_t i = 0; i < shown; ++i) {
    message += count > 1 ? "\n  " : "";
    message += problems[i] + " (" + ranks_text(found_by[problems[i]], ranks.size()) + ")";
  }
  if (count > shown) message += "\n  and " + std::to_string(count - shown) + " more";
  throw std::runtime_error(message);
}

#endif

}  // namespace shardwise::detail

namespace shardwise {

/// Runs work(), which must not be collective, on each rank. If it throws on one rank, all ranks throw a
/// `std::runtime_error` when they have done theirs: "TASK: what() (rank 1)". So no rank waits for one that has failed.
/// Collective.
template <class F>
void throw_on_all_ranks(const Communicator& ranks, std::string_view task, F work) {
  detail::Problems problems;
  problems.guard(work);
  problems.throw_together(ranks, task);
}

}  // namespace shardwise
