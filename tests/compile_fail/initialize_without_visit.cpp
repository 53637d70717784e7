// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::module_does_not_name_its_members, Got<Net>, Cure<Hint::define_visit>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
struct Net {
  Linear<Mesh<tp>, ColwiseParallel<tp>> up;
};
#else
struct Net {
  Linear<Mesh<tp>, ColwiseParallel<tp>> up;
  void visit(auto&& f) {
    f("up", up);
  }
};
#endif
void begin(Net& net) {
  initialize(net, 1);
}
