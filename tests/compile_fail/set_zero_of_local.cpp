// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `local()` shows a block. Several tensors may share it, so it is
/// read-only: make another tensor by `from_local` or by an operation.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::it_is_read_only_so_make_another_with_from_local>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
void clear(Rows& x) {
  x.local().setZero();
}
#else
void clear(Rows& x) {
  x = zeros<float, Shard<0>>(x.mesh(), x.shape());
}
#endif
