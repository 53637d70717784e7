// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which tensors travel together, and when: bundles that fill up, and are under way while others fill.

#include <algorithm>
#include <limits>

#include <shardwise/tensor/bundle.hpp>

namespace shardwise::detail {

/// Bundles that fill up, are started when they are full, and arrive later; in the same order on every rank. So what
/// decides when one is full, and how many are under way, are numbers that are the same on every rank, also where blocks
/// are uneven or empty: an arrival may add to other bundles, whose contents must be the same on all ranks of a group.
class Bundles {
 public:
  /// A bundle of several tensors has at most this many bytes; what is larger by itself goes alone, without a copy.
  /// `background`: in how many bundles the communication may be under way at a time; 0: in the foreground.
  constexpr Bundles(Index most_bytes, int background) : most_bytes_(most_bytes), background_(background) {}
  Bundles(const Bundles&) = delete;
  Bundles& operator=(const Bundles&) = delete;
  constexpr ~Bundles() {
    drop(open_);
    drop(under_way_);
  }

  template <class T, class MeshType>
  constexpr void add(const MeshType& mesh, const BundleWay& way, BundledTensor tensor) {
    constexpr Index most = std::numeric_limits<int>::max();  // that one call takes
    const Index capacity = std::min(most, most_bytes_ / static_cast<Index>(sizeof(T)));
    using BundleType = Bundle<T, MeshType>;
    const Index size = BundleType::most_of(tensor, mesh, way);
    if (size > capacity) {
      auto* alone = make_pooled<BundleType>(mesh, way);
      alone->add(std::move(tensor), size);
      return begin(alone);
    }
    BundleBase** place = &open_;
    for (; *place; place = &(*place)->next) {
      if ((*place)->type != &bundle_type<T, MeshType>) continue;
      auto* bundle = static_cast<BundleType*>(*place);
      if (!bundle->goes(mesh, way)) continue;
      if (bundle->most() + size <= capacity) return bundle->add(std::move(tensor), size);
      *place = bundle->next;
      begin(bundle);
      place = &open_;
      while (*place) place = &(*place)->next;
      break;
    }
    auto* bundle = make_pooled<BundleType>(mesh, way);
    bundle->add(std::move(tensor), size);
    *place = bundle;
  }

  /// Starts what is not full yet.
  constexpr void start() {
    while (open_) {
      BundleBase* bundle = open_;
      open_ = bundle->next;
      begin(bundle);
    }
  }
  /// Starts it, and returns when all has arrived; also what arrivals add.
  constexpr void finish() {
    while (open_ || under_way_) {
      start();
      if (under_way_) finish_first();
    }
  }
  constexpr void progress() {
    for (BundleBase* bundle = under_way_; bundle; bundle = bundle->next) bundle->progress();
  }
  constexpr bool idle() const { return !open_ && !under_way_; }

 private:
  constexpr void begin(BundleBase* bundle) {
    bundle->next = nullptr;
    bundle->start(background_ > 0);
    BundleBase** place = &under_way_;
    int count = 1;
    for (; *place; place = &(*place)->next) ++count;
    *place = bundle;
    for (; count > background_; --count) finish_first();
  }
  constexpr void finish_first() {
    BundleBase* bundle = under_way_;
    under_way_ = bundle->next;
    bundle->finish();
    destroy_pooled(bundle);
  }
  static constexpr void drop(BundleBase* bundle) {
    while (bundle) {
      BundleBase* after = bundle->next;
      destroy_pooled(bundle);
      bundle = after;
    }
  }

  Index most_bytes_;
  int background_;
  BundleBase* open_ = nullptr;
  BundleBase* under_way_ = nullptr;
};

}  // namespace shardwise::detail
