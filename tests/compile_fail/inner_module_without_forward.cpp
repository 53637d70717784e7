// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The module at fault is named where it is not the one that is called.
// expect: LayoutError<Reason::module_has_no_const_forward_for_these, Got<.*>, Cure<Hint::give_it_forward_of_them_which_is_const>, In<InnerNotConst>, In<OuterOfIt>>

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
