// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Objects allocated from the pool, or by the compiler in constant expressions.
///
/// ```
/// class TapeNode : public Pooled<TapeNode> { … };
/// TapeNode* node = make_pooled<MatmulNode>(a, b);   // a TapeNode
/// destroy_pooled(node);                             // the MatmulNode
/// ```

#include <memory>
#include <type_traits>

#include <shardwise/memory/memory_pool.hpp>

namespace shardwise {

/// The pool as an allocator for standard containers.
template <class T>
struct PoolAllocator {
  using value_type = T;
  constexpr PoolAllocator() = default;
  template <class Other>
  constexpr PoolAllocator(const PoolAllocator<Other>&) {}

  /// From the pool; in a constant expression, from the compiler.
  constexpr T* allocate(std::size_t count) {
    if (__builtin_is_constant_evaluated()) return std::allocator<T>().allocate(count);
    return static_cast<T*>(memory_pool().allocate(static_cast<Index>(count * sizeof(T))));
  }
  constexpr void deallocate(T* place, std::size_t count) {
    if (__builtin_is_constant_evaluated()) return std::allocator<T>().deallocate(place, count);
    memory_pool().deallocate(place, static_cast<Index>(count * sizeof(T)));
  }
  friend constexpr bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

/// Base class of objects that `make_pooled` creates and that are destroyed through a `Base*`. (A virtual destructor
/// would do, but g++ 12 does not find implicitly defined ones during constant evaluation.)
template <class Base>
class Pooled {
 public:
  using PooledBase = Base;
  Pooled() = default;
  Pooled& operator=(Pooled&&) = delete;

 protected:
  constexpr ~Pooled() = default;

 private:
  template <class T, class... Args>
  friend constexpr T* make_pooled(Args&&... args);
  template <class T>
  friend constexpr void destroy_pooled(T* object);

  void (*destroy_)(Base*) = nullptr;
};

/// An object that `destroy_pooled` destroys through its base class.
template <class T>
concept InPooledHierarchy = requires {
  typename T::PooledBase;
};

namespace detail {

template <class T, class Base = T>
[[gnu::noinline]] constexpr void end_pooled(Base* base) {  // not inlined: called rarely, from many places
  T* object = static_cast<T*>(base);
  if (__builtin_is_constant_evaluated()) {
    delete object;
  } else {
    object->~T();
    memory_pool().deallocate(object, sizeof(T));
  }
}

}  // namespace detail

/// A new object: from the pool, or from the compiler in a constant expression. (Every call, even of `std::forward`,
/// costs at least a microsecond of constant evaluation, so code that compile-time planning runs for every tensor
/// makes few calls.)
template <class T, class... Args>
constexpr T* make_pooled(Args&&... args) {
  T* object = nullptr;
  if (__builtin_is_constant_evaluated()) {
    object = new T(static_cast<Args&&>(args)...);
  } else {
    static_assert(alignof(T) <= MemoryPool::alignment);
    object = ::new (memory_pool().allocate(sizeof(T))) T(static_cast<Args&&>(args)...);
  }
  if constexpr (InPooledHierarchy<T>) {
    object->destroy_ = &detail::end_pooled<T, typename T::PooledBase>;
  }
  return object;
}

template <class T>
constexpr void destroy_pooled(T* object) {
  if constexpr (InPooledHierarchy<T>) {
    object->destroy_(object);
  } else {
    detail::end_pooled<T>(object);
  }
}

}  // namespace shardwise
