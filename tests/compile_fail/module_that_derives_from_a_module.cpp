// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `big(x)` would run `Small::forward`, since `Small` is the class that its base `Module<Small>` calls. Derive it from
/// `Module<Big>` too, and name that call operator.
// expect: LayoutError<Reason::call_runs_the_forward_of_a_base_class, Got<Big>, Cure<Hint::derive_it_from_Module_of_itself_too>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct Small : Module<Small> {
  Linear<Mesh<tp>, ColwiseParallel<tp>> up;
  auto forward(const auto& x) const {
    return up(x);
  }
  void visit(auto&& f) {
    f("up", up);
  }
};

#ifdef SHOULD_FAIL
struct Big : Small {
  auto forward(const auto& x) const {
    return gelu(up(x));
  }
};
void step(AdamW& adamw, Big& big) {
  adamw.step(big);
}
#else
struct Big : Small, Module<Big> {
  using Module<Big>::operator();
  auto forward(const auto& x) const {
    return gelu(up(x));
  }
};
void step(AdamW& adamw, Big& big) {
  adamw.step(big);
}
#endif
