// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_options_in_braces_by_name>>

#include <shardwise/linalg/qr.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto basis(const Matrix& x) {
  return qr(x, QrMethod::tsqr).q;
}
#else
auto basis(const Matrix& x) {
  return qr(x, {.method = QrMethod::tsqr}).q;
}
#endif
