// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The value of a table that is also a head would get no gradient from there.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_parameter_itself>.*In<Tied>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Ids = Tensor<std::int64_t, 1, Mesh<tp>, Replicate>;

struct Tied : Module<Tied> {
  using Head = Linear<Mesh<tp>, ColwiseParallel<tp>, float, 1, 1, false>;
  explicit Tied(const Mesh<tp>& mesh) : tokens(mesh, 512, 64) {
  }
#ifdef SHOULD_FAIL
  auto forward(const auto& ids) const {
    return Head::multiply(tokens(ids), tokens.table.value());
  }
#else
  auto forward(const auto& ids) const {
    return Head::multiply(tokens(ids), tokens.table);
  }
#endif
  void visit(auto&& f) {
    f("tokens", tokens);
  }

  Embedding<Mesh<tp>, RowwiseParallel<tp>> tokens;
};

auto logits(const Tied& model, const Ids& ids) {
  return model(ids);
}
