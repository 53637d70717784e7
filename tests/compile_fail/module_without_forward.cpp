// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A call of a module runs `forward`, which must be const: a call changes nothing except the tape.
/// `Got` lists the arguments of the call. (A `forward` with other arguments gives the same error.)
// expect: LayoutError<Reason::no_matching_const_forward, Got<.*>, Cure<Hint::pass_what_its_forward_takes_or_define_a_const_one_of_these>, In<Own>>

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
