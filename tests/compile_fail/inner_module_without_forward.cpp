// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The module at fault is named where it is not the one that is called.
// expect: LayoutError<Reason::no_matching_const_forward, Got<.*>, Cure<Hint::pass_what_its_forward_takes_or_define_a_const_one_of_these>, In<InnerNotConst>, In<OuterOfIt>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct InnerNotConst : Module<InnerNotConst> {
#ifdef SHOULD_FAIL
  auto forward(const auto& x){
#else
  auto forward(const auto& x) const {
#endif
      return gelu(x);
}
}
;

struct OuterOfIt : Module<OuterOfIt> {
  InnerNotConst inner;

  auto forward(const auto& x) const {
    return inner(x);
  }
};

auto call(const OuterOfIt& model, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return model(x);
}
