// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The pullback of x = A⁻¹ b, however the equations are solved.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/linalg/product_of_blocks.hpp>

namespace shardwise::detail {

/// Adds x · factor to the gradient of a tensor in the layout `of`.
template <class T>
constexpr void add_gradient(const Shared<GradientSlot>& slot, AnyTensor x, T factor, const Layout& of) {
  const DataType type = x.type;
  if (factor != T{1}) {
    make_own(x, slot->use());
    if (!x.mesh.dry()) {
      auto* values = static_cast<T*>(x.buffer->data);
      kernel::scale<T>(x.local_elements(), factor, values, values);
    }
  }
  x = redistributed_to(std::move(x), without_pending(cotangent(of), replicate), type);
  x = redistributed_to(std::move(x), cotangent(of), type);
  slot->add(std::move(x.buffer), element_sum<T>, x.mesh.recorder());
}

/// `SolveBack`: a function that returns A⁻ᵀ · dx. The gradients of b and A are that, and its product with -xᵀ.
template <TensorType A, class SolveBack>
class SolveNode final : public TapeNode {
 public:
  using T = typename A::Element;
  constexpr SolveNode(const AnyTensor& x, SolveBack solve_back, const Shared<GradientSlot>& da,
                      const Shared<GradientSlot>& db, const Shared<GradientSlot>& slot)
      : x_(x), solve_back_(std::move(solve_back)), da_(da), db_(db), slot_(slot) {
    if (da_) da_->expect();
    if (db_) db_->expect();
  }
  constexpr bool pull_back(BackwardPart) override {
    if (Buffer block = slot_->pass()) {
      const AnyTensor db = solve_back_(x_.with(cotangent(x_.layout), std::move(block)));
      if (da_) {
        AnyTensor left = db, right = x_;
        left.rank = right.rank = 2;  // a vector is a matrix of one column
        add_gradient(da_, product_of<T>({left}, {right, true}, cotangent(A::layout), {}), T{-1}, A::layout);
      }
      if (db_) add_gradient(db_, db, T{1}, x_.layout);
    }
    if (da_) da_->settle();
    if (db_) db_->settle();
    return false;
  }

 private:
  AnyTensor x_;
  SolveBack solve_back_;
  Shared<GradientSlot> da_, db_;
  ResultSlot slot_;
};

}  // namespace shardwise::detail
