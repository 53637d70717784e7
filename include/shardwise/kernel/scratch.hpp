// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Working memory of a kernel: one buffer per thread and purpose, which grows and is kept, so that in the
/// steady state nothing is allocated and no fresh page is touched. `Purpose` is any type, usually one
/// declared for it; two requests with one purpose are the same memory, of which the later may invalidate the
/// earlier.
///
///     struct Scores;
///     float* scores = scratch<Scores, float>(64 * 128);   // not initialised, 64-byte aligned

#include <cstddef>
#include <memory>
#include <new>

#include <shardwise/layout/index.hpp>

namespace shardwise::kernel {

class ScratchBuffer {
 public:
  void* at_least(std::size_t bytes) {
    if (bytes > size_) {
      data_.reset();
      size_ = 0;
      data_.reset(::operator new(bytes, alignment));
      size_ = bytes;
    }
    return data_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Delete {
    void operator()(void* data) const { ::operator delete(data, alignment); }
  };

  std::unique_ptr<void, Delete> data_;
  std::size_t size_ = 0;
};

/// At least `count` elements; the contents are what the last user left.
template <class Purpose, class C>
C* scratch(Index count) {
  thread_local ScratchBuffer buffer;
  return static_cast<C*>(buffer.at_least((static_cast<std::size_t>(count) + 1) * sizeof(C)));
}

}  // namespace shardwise::kernel
