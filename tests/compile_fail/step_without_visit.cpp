// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Optimizers, `initialize` and the functions for files find the parameters of a model by its `visit`.
// expect: LayoutError<Reason::module_does_not_name_its_members, Got<Net>, Cure<Hint::define_visit>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
struct Net : Module<Net> {
  Linear<Mesh<tp>, ColwiseParallel<tp>> up;
  auto forward(const auto& x) const {
    return up(x);
  }
};
void step(AdamW& adamw, Net& net) {
  adamw.step(net);
}
#else
struct Net : Module<Net> {
  Linear<Mesh<tp>, ColwiseParallel<tp>> up;
  auto forward(const auto& x) const {
    return up(x);
  }
  void visit(auto&& f) {
    f("up", up);
  }
};
void step(AdamW& adamw, Net& net) {
  adamw.step(net);
}
#endif
