// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A call of a module runs `forward`, which must be const: a call changes nothing except the tape.
/// `Got` lists the arguments of the call. (A `forward` with other arguments gives the same error.)
// expect: LayoutError<Reason::module_has_no_const_forward_for_these, Got<.*>, Cure<Hint::give_it_forward_of_them_which_is_const>, In<Own>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

struct Own : Module<Own> {
  Linear<Mesh<tp>> up;
  constexpr explicit Own(const Mesh<tp>& mesh) : up(mesh, 4, 8) {
  }
#ifdef SHOULD_FAIL
  auto forward(const auto& x) {
    return up(x);
  }
#else
  auto forward(const auto& x) const {
    return up(x);
  }
#endif
};

auto call(const Own& own, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return own(x);
}
