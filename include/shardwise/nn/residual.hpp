// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The type of x + branch(x) in a model, where the branch may have ended in a `LayoutError`.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/ops/add.hpp>

namespace shardwise::detail {

/// `X` and the branch `Y` added, or the error that `Y` is.
template <class X, class Y>
struct Residual {
  using type = Y;
};
template <class X, TensorType Y>
struct Residual<X, Y> {
  using type = result_of<AddOpFor<X, Y>, X, Y>;
};

}  // namespace shardwise::detail
