// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A list whose elements live in the pool, also inside the compiler: a step that repeats allocates nothing.

#include <shardwise/memory/shared.hpp>

namespace shardwise::detail {

template <class T>
class PooledList {
  struct Node {
    T value;
    Node* next = nullptr;
    constexpr explicit Node(T&& given) : value(std::move(given)) {}
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
  PooledList(const PooledList&) = delete;
  PooledList& operator=(const PooledList&) = delete;
  constexpr ~PooledList() { clear(); }

  constexpr std::size_t size() const { return size_; }
  constexpr const T& front() const { return first_->value; }
  constexpr Iterator<T> begin() { return {first_}; }
  constexpr Iterator<T> end() { return {nullptr}; }
  constexpr Iterator<const T> begin() const { return {first_}; }
  constexpr Iterator<const T> end() const { return {nullptr}; }

  constexpr void push_back(T value) {
    Node* node = make_pooled<Node>(std::move(value));
    (last_ ? last_->next : first_) = node;
    last_ = node;
    ++size_;
  }
  constexpr void clear() {
    while (first_) {
      Node* node = first_;
      first_ = node->next;
      destroy_pooled(node);
    }
    last_ = nullptr;
    size_ = 0;
  }

 private:
  Node* first_ = nullptr;
  Node* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shardwise::detail
