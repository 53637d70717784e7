// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A list whose elements live in the pool, also in constant expressions: a repeating step allocates nothing.
/// Elements do not move.

#include <shardwise/memory/pooled.hpp>

namespace shardwise::detail {

template <class T>
class PooledList {
  struct Node {
    T value;
    Node* next = nullptr;
    template <class... Args>
    constexpr explicit Node(Args&&... args) : value{static_cast<Args&&>(args)...} {}
  };
  template <class Value>
  struct Iterator {
    Node* node;
    constexpr Value& operator*() const { return node->value; }
    constexpr Iterator& operator++() {
      node = node->next;
      return *this;
    }
    constexpr bool operator!=(const Iterator& other) const { return node != other.node; }
  };

 public:
  constexpr PooledList() = default;
  PooledList& operator=(PooledList&&) = delete;
  constexpr ~PooledList() {
    while (first_) pop_front();  // not `clear`: each call costs compile time (see `make_pooled`)
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& front() { return first_->value; }
  constexpr const T& front() const { return first_->value; }
  constexpr Iterator<T> begin() { return {first_}; }
  constexpr Iterator<T> end() { return {nullptr}; }
  constexpr Iterator<const T> begin() const { return {first_}; }
  constexpr Iterator<const T> end() const { return {nullptr}; }

  template <class... Args>
  constexpr T& emplace_back(Args&&... args) {
    return append(make_pooled<Node>(static_cast<Args&&>(args)...));
  }
  constexpr void pop_front() { destroy_pooled(unlink(first_->value)); }
  /// Moves an element of this list to the end of another.
  constexpr T& move_to(PooledList& other, const T& element) { return other.append(unlink(element)); }
  constexpr void clear() {
    while (first_) pop_front();
  }

 private:
  constexpr T& append(Node* node) {
    (last_ ? last_->next : first_) = node;
    last_ = node;
    ++size_;
    return node->value;
  }
  constexpr Node* unlink(const T& element) {
    Node *before = nullptr, *node = first_;
    for (; &node->value != &element; node = node->next) before = node;
    (before ? before->next : first_) = node->next;
    if (last_ == node) last_ = before;
    node->next = nullptr;
    --size_;
    return node;
  }

  Node* first_ = nullptr;
  Node* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shardwise::detail
