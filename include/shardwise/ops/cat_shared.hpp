// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `cat_shared`: appends the same numbers to each head of a token, as the rotary part of keys in DeepSeek's attention.
/// Heads may be sharded; the shared numbers are then `Reduced`, and their gradient is a pending sum over heads.
///
/// ```
/// k = cat_shared(k, r);   // k [batch, sequence, heads, d], r [batch, sequence, n]: [batch, sequence, heads, d + n]
/// ```

#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct CatSharedOp {
  static constexpr const char* name = "cat_shared";
  static constexpr Signature signature =
      Signature::of("bshd, bsn -> bshk").linear_jointly().whole('d').whole('n').whole('k');
  static constexpr Saved saved{};
  static constexpr int flops_each = 0;

  static constexpr Shape<4> shape(const Shape<4>& x, const Shape<3>& shared) {
    if (x[0] != shared[0] || x[1] != shared[1]) {
      detail::fail({"cat_shared: x is ", x, ", but what its heads share is ", shared,
                    ": they differ in batch or sequence"});
    }
    return {x[0], x[1], x[2], x[3] + shared[2]};
  }
  static void forward(auto y, void*, auto x, auto shared) {
    const Index own = x.size[3], common = shared.size[2];
    for (Index i = 0; i < x.extent(0, 3); ++i) {
      kernel::copy(own, x.data + i * own, y.data + i * (own + common));
      kernel::copy(common, shared.data + i / x.size[2] * common, y.data + i * (own + common) + own);
    }
  }
  template <class T>
  static void pull_back(View<const T, 4> dy, View<const T, 4>, const void*, Input<T, 4> x,
                        Input<T, 3> shared) {
    const Index own = x.size[3], common = shared.size[2], all = own + common, heads = x.size[2];
    for (Index i = 0; x.gradient && i < x.extent(0, 3); ++i) {
      kernel::copy(own, dy.data + i * all, x.gradient + i * own);
    }
    for (Index i = 0; shared.gradient && i < shared.elements(); ++i) {
      const T* of_heads = dy.data + i / common * heads * all + own + i % common;
      kernel::compute_t<T> sum{0};
      for (Index h = 0; h < heads; ++h) sum += kernel::widen(of_heads[h * all]);
      shared.gradient[i] = kernel::narrow<T>(sum);
    }
  }
};

/// x: [batch, sequence, heads, d], shared: [batch, sequence, n]; the result is [batch, sequence, heads, d + n]. Throws
/// `std::invalid_argument` if batch or sequence differ.
SHARDWISE_FUNCTION(cat_shared, CatSharedOp);

}  // namespace shardwise
