// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Hands requests from the threads that read and answer them to the one that computes, and tokens back.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../common/text_request.hpp"

namespace tools {

/// The changes that all ranks make before a step.
struct News {
  std::vector<TextRequest> added{};      ///< in the order of their numbers
  std::vector<std::size_t> cancelled{};  ///< numbers
  bool ends = false;                     ///< no more requests will come
  bool gives_up = false;                 ///< those that are under way are not finished
};

/// The results of the thread that computes.
struct Results {
  std::vector<NewToken> tokens;
  std::string failure;  ///< not empty: there will be no more
};

class RequestQueue {
 public:
  /// The request's number; nothing if the server ends.
  std::optional<std::size_t> submit(TextRequest request) {
    const std::lock_guard lock(mutex_);
    if (news_.ends) return std::nullopt;
    news_.added.push_back(std::move(request));
    news_changed_.notify_one();
    return next_++;
  }
  /// Frees what is left of a request.
  void cancel(std::size_t number) {
    const std::lock_guard lock(mutex_);
    news_.cancelled.push_back(number);
    news_changed_.notify_one();
  }
  /// Refuses requests from now on.
  void end(bool gives_up) {
    const std::lock_guard lock(mutex_);
    news_.ends = true;
    news_.gives_up = gives_up;
    news_changed_.notify_one();
  }
  bool ends() const {
    const std::lock_guard lock(mutex_);
    return news_.ends;
  }
  /// The results that have come since, after up to this time.
  Results wait_for_results(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    results_changed_.wait_for(lock, time,
                              [&] { return !results_.tokens.empty() || !results_.failure.empty(); });
    Results all{std::move(results_.tokens), results_.failure};
    results_.tokens.clear();
    results_changed_.notify_all();
    return all;
  }

  /// For the thread that computes: returns after up to this time, earlier if there are news. Whether there are any.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return news_changed_.wait_for(
        lock, time, [&] { return !news_.added.empty() || !news_.cancelled.empty() || news_.ends; });
  }
  News take() {
    const std::lock_guard lock(mutex_);
    News result;
    result.ends = news_.ends;
    result.gives_up = news_.gives_up;
    std::swap(result.added, news_.added);
    std::swap(result.cancelled, news_.cancelled);
    return result;
  }
  /// Waits if the thread that answers, which does not wait for clients, is far behind.
  void deliver(NewToken token) {
    std::unique_lock lock(mutex_);
    results_changed_.wait(lock, [&] { return results_.tokens.size() < most_results; });
    results_.tokens.push_back(std::move(token));
    results_changed_.notify_all();
  }
  /// Ends all requests.
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    results_.failure = why;
    results_changed_.notify_all();
  }

 private:
  static constexpr std::size_t most_results = 4096;

  mutable std::mutex mutex_;
  std::condition_variable news_changed_, results_changed_;
  std::size_t next_ = 0;
  News news_;
  Results results_;
};

}  // namespace tools
