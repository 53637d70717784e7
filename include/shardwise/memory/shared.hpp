// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A counted handle to an object in the pool. Handles belong to one thread.

#include <utility>

#include <shardwise/memory/pooled.hpp>

namespace shardwise {

/// A handle to a shared object; the last handle destroys it.
template <class T>
class Shared {
 public:
  constexpr Shared() = default;
  template <class... Args>
  static constexpr Shared make(Args&&... args) {
    Shared handle;
    handle.cell_ = make_pooled<Cell>(std::forward<Args>(args)...);
    return handle;
  }
  constexpr Shared(const Shared& other) : cell_(other.cell_) {
    if (cell_) ++cell_->handles;
  }
  constexpr Shared(Shared&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
  constexpr Shared& operator=(const Shared& other) {
    if (other.cell_) ++other.cell_->handles;
    release();
    cell_ = other.cell_;
    return *this;
  }
  constexpr Shared& operator=(Shared&& other) noexcept {
    Cell* cell = std::exchange(other.cell_, nullptr);
    release();
    cell_ = cell;
    return *this;
  }
  constexpr ~Shared() { release(); }

  constexpr explicit operator bool() const { return cell_ != nullptr; }
  constexpr T& operator*() const { return cell_->object; }
  constexpr T* operator->() const { return &cell_->object; }
  /// No other handle refers to the object.
  constexpr bool unique() const { return cell_ && cell_->handles == 1; }

 private:
  constexpr void release() {
    if (cell_ && --cell_->handles == 0) destroy_pooled(cell_);
  }

  struct Cell {
    T object;
    long handles = 1;
    template <class... Args>
    constexpr explicit Cell(Args&&... args) : object(std::forward<Args>(args)...) {}
  };
  Cell* cell_ = nullptr;
};

}  // namespace shardwise
