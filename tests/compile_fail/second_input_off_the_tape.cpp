// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The second layer would compute a tensor that is on no tape, and the layer would never be trained.
// expect: LayoutError<Reason::tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost, Got<Var<Tensor<float, 2, Mesh<tp>, Replicate>, true>, Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data>, Of<AddOp>, In<TwoTowers>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Replicate>;

struct TwoTowers : Module<TwoTowers> {
  Linear<Mesh<tp>> first, second;
  explicit TwoTowers(const Mesh<tp>& mesh) : first(mesh, 3, 4), second(mesh, 5, 4) {
  }
  auto forward(const auto& x, const auto& y) const {
    return add(first(x), second(y));
  }
  void visit(auto&& f) {
    f("first", first), f("second", second);
  }
};

#ifdef SHOULD_FAIL
auto towers(const TwoTowers& model, Tape& tape, const Matrix& x, const Matrix& y) {
  return model(tape.constant(x), y);
}
#else
auto towers(const TwoTowers& model, Tape& tape, const Matrix& x, const Matrix& y) {
  return model(tape.constant(x), tape.constant(y));
}
#endif
