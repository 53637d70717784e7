// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A reference-counted handle to an object in the pool. Handles are not thread-safe.

#include <shardwise/memory/pooled.hpp>

namespace shardwise {

/// Base class of objects that handles share.
class Counted {
 public:
  constexpr Counted() = default;
  constexpr Counted(const Counted&) {}
  constexpr Counted& operator=(const Counted&) { return *this; }

 private:
  template <class T>
  friend class Shared;
  long handles_ = 0;
};

/// A handle to a shared object; the last handle destroys it.
template <class T>
class Shared {
 public:
  constexpr Shared() = default;
  /// A new object, made from `args`, and its first handle.
  template <class... Args>
  static constexpr Shared make(Args&&... args) {
    return Shared(make_pooled<T>(static_cast<Args&&>(args)...));
  }
  /// A new handle to an object that already has one.
  static constexpr Shared to(T& object) { return Shared(&object); }
  constexpr Shared(const Shared& other) : object_(other.object_) {
    if (object_) ++object_->handles_;
  }
  constexpr Shared(Shared&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  /// Converts to a handle to a base class, in a `Pooled` hierarchy.
  template <class Derived>
    requires(std::derived_from<Derived, T>&& InPooledHierarchy<T>)
  constexpr Shared(const Shared<Derived>& other) : Shared(static_cast<T*>(other.object_)) {}
  constexpr Shared& operator=(const Shared& other) {
    T* taken = other.object_;
    if (taken) ++taken->handles_;
    take(taken);
    return *this;
  }
  constexpr Shared& operator=(Shared&& other) noexcept {
    T* taken = other.object_;
    other.object_ = nullptr;
    take(taken);
    return *this;
  }
  constexpr ~Shared() {  // NOLINT(bugprone-exception-escape): an exception here ends the program
    if (object_ && --object_->handles_ == 0) destroy_pooled(object_);
  }

  constexpr explicit operator bool() const { return object_ != nullptr; }
  constexpr T& operator*() const { return *object_; }
  constexpr T* operator->() const { return object_; }
  /// Both handles refer to the same object, or both are empty.
  constexpr bool same_as(const Shared& other) const { return object_ == other.object_; }
  constexpr bool unique() const { return object_ && object_->handles_ == 1; }

 private:
  template <class>
  friend class Shared;
  constexpr explicit Shared(T* object) : object_(object) {
    if (object_) ++object_->handles_;
  }
  /// Replaces the object; `object` already counts this handle.
  constexpr void take(T* object) {
    T* before = object_;
    object_ = object;
    if (before && --before->handles_ == 0) destroy_pooled(before);
  }

  T* object_ = nullptr;
};

}  // namespace shardwise
