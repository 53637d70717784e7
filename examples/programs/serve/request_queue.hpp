// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Hands requests from the threads that read them to the one that computes, and tokens back.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../common/text_request.hpp"

namespace tools {

/// The tokens of one request, on their way to the thread that answers it. There are at most as many as the request
/// asks for, so a reader that is slow does not hold up others.
class Reply {
 public:
  struct Next {
    std::deque<NewToken> tokens;
    std::string failure;  ///< not empty: there will be no more
  };
  /// The tokens that have come since, after up to this time.
  Next wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return !next_.tokens.empty() || !next_.failure.empty(); });
    Next result{std::move(next_.tokens), next_.failure};
    next_.tokens.clear();
    return result;
  }

  void add(NewToken token) {
    const std::lock_guard lock(mutex_);
    next_.tokens.push_back(std::move(token));
    changed_.notify_one();
  }
  void fail(std::string why) {
    const std::lock_guard lock(mutex_);
    next_.failure = std::move(why);
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Next next_;
};

/// The changes that all ranks make before a step.
struct News {
  std::vector<TextRequest> added{};      ///< in the order of their numbers
  std::vector<std::size_t> cancelled{};  ///< numbers
  bool ends = false;                     ///< no more requests will come
  bool gives_up = false;                 ///< those that are under way are not finished
};

class RequestQueue {
 public:
  /// `longest`: requests that have not ended, at most.
  explicit RequestQueue(std::size_t longest) : longest_(longest) {}

  /// Null if there are too many requests, or if the server ends.
  std::shared_ptr<Reply> submit(TextRequest request) {
    const std::lock_guard lock(mutex_);
    if (news_.ends || open_ == longest_) return nullptr;
    ++open_;
    auto reply = std::make_shared<Reply>();
    replies_[next_] = reply;
    numbers_[reply.get()] = next_++;
    news_.added.push_back(std::move(request));
    changed_.notify_one();
    return reply;
  }
  /// Frees what is left of a request whose client is gone.
  void cancel(const std::shared_ptr<Reply>& reply) {
    const std::lock_guard lock(mutex_);
    const auto found = numbers_.find(reply.get());
    if (found == numbers_.end()) return;  // it has ended
    news_.cancelled.push_back(found->second);
    forget(found->second);
    changed_.notify_one();
  }
  /// Refuses requests from now on.
  void end(bool gives_up) {
    const std::lock_guard lock(mutex_);
    news_.ends = true;
    news_.gives_up = gives_up;
    changed_.notify_one();
  }
  bool ends() const {
    const std::lock_guard lock(mutex_);
    return news_.ends;
  }

  /// For the thread that computes: returns after up to this time, earlier if there are news. Whether there are any.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time,
                             [&] { return !news_.added.empty() || !news_.cancelled.empty() || news_.ends; });
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
  /// To the reply of the request with this number, unless it was cancelled.
  void deliver(NewToken token) {
    const std::lock_guard lock(mutex_);
    const auto found = replies_.find(token.request);
    if (found == replies_.end()) return;
    const bool last = token.end != TextEnd::none;
    const std::size_t number = token.request;
    found->second->add(std::move(token));
    if (last) forget(number);
  }
  /// Ends all requests.
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    for (auto& [number, reply] : replies_) reply->fail(why);
    replies_.clear();
    numbers_.clear();
    open_ = 0;
  }

 private:
  void forget(std::size_t number) {
    const auto found = replies_.find(number);
    numbers_.erase(found->second.get());
    replies_.erase(found);
    --open_;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t longest_, open_ = 0, next_ = 0;
  News news_;
  std::map<std::size_t, std::shared_ptr<Reply>> replies_;
  std::map<const Reply*, std::size_t> numbers_;
};

}  // namespace tools
