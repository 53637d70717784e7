// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `matrix_product`: A · B in any layouts, with the layout of the result that is asked for. It is collective: it
/// redistributes operands and result as `product_plan` says, so that a rank receives the least.
///
/// ```
/// auto c = matrix_product<Shard<0>, Shard<1>>(a, b);                                  // a, b: <Shard<0>, Shard<1>>
/// auto c = matrix_product<Shard<0>, Shard<1>>(a, b, {.panel_bytes = 64 << 20});       // in less memory
/// ```
/// Its gradients are products too, each with a plan of its own.

#include <shardwise/linalg/product_of_blocks.hpp>
#include <shardwise/linalg/product_result.hpp>

namespace shardwise {

struct MatrixProductOptions {
  /// If the copies of A and B that the product redistributes take more bytes than this on a rank, they are made panel
  /// by panel: the inner index is cut further, and a product of two panels is added to C while the next panels
  /// travel. The copies of both panels then take at most this. Not where the blocks of A and B along the inner index
  /// differ and do not divide it. At least 0.
  Index panel_bytes = std::numeric_limits<Index>::max();
};

/// a: [m, k], b: [k, n], result [m, n] in the layout `To...`, one placement for each mesh axis. Throws
/// `std::invalid_argument` if the inner extents differ. Collective over the mesh.
template <class... To, Operand A, Operand B,
          TensorType Result = typename detail::MatrixProductResult<A, B, To...>::type>
constexpr auto matrix_product(const A& a, const B& b, const MatrixProductOptions& options = {}) {
  using T = typename Result::Element;
  const auto& mesh = common_mesh(value_of(a), value_of(b));
  const detail::AnyTensor left(value_of(a)), right(value_of(b));
  return on_common_tape(
      detail::product_of<T>({left}, {right}, Result::layout, options.panel_bytes).template as<Result>(mesh),
      [&](Tape& tape, const Result& y, const Shared<GradientSlot>& slot) {
        using Node = detail::MatrixProductNode<T>;
        const auto operand = [](const detail::AnyTensor& x, const auto& from, bool read) {
          Kept kept_of_it;
          if (read) kept_of_it = kept(from);
          return typename Node::Operand{x.with(x.layout, Buffer()), std::move(kept_of_it), slot_of(from)};
        };
        tape.record<Node>(
            operand(left, a, OperandTraits<B>::tracked), operand(right, b, OperandTraits<A>::tracked),
            detail::AnyTensor(y).with(cotangent(Result::layout), Buffer()), slot, options.panel_bytes);
        return Shared<Recipe>();
      },
      a, b);
}
template <class... To, Operand A, Operand B,
          AbstractOperand Result = typename detail::MatrixProductResult<A, B, To...>::type>
constexpr Result matrix_product(const A&, const B&, const MatrixProductOptions& = {}) {
  return {};
}

// Refused: operands or a result that do not suit, and options without a name.
template <class... To, class A, class B,
          IllFormed Why = typename detail::MatrixProductResult<A, B, To...>::type>
Why matrix_product(const A&, const B&, const MatrixProductOptions& = {});  // see Why
template <class... To, class A, class B, std::integral N>
WrittenOtherwise<Hint::write_options_in_braces_by_name> matrix_product(const A&, const B&, N);

}  // namespace shardwise
