// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::module_does_not_name_its_members, Got<Own>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/train/clip.hpp>

using namespace shardwise;

struct Own : Module<Own> {
  Linear<Mesh<tp>> up;
  constexpr explicit Own(const Mesh<tp>& mesh) : up(mesh, 4, 8) {
  }
  auto forward(const auto& x) const {
    return up(x);
  }
#ifdef SHOULD_FAIL
  // no visit
#else
  void visit(auto&& f) {
    f("up", up);
  }
#endif
};

void clip(Own& own) {
  clip_gradients(own, 1);
}
