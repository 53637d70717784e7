// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products by einsum text, and `matmul`. They are local: where an index that the result lacks is sharded, the result
/// is a pending sum.
///
/// ```
/// c = contract<"mk, kn -> mn">(a, b);           // a · b
/// c = contract<"bmk, bnk -> bmn">(a, b);        // a · bᵀ for each b
/// c = contract<"...k*, o*k* -> ...o*">(x, w);   // any numbers of dimensions: see ops/linear.hpp
/// c = matmul(a, b);                             // a · b, as torch.matmul and numpy.matmul
/// ```
/// No block is copied: one gemm reads each operand as it is stored, or as its transpose. So in every tensor the
/// indices of a batch come first, and the indices that are summed over stand side by side.

#include <shardwise/base/name.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

namespace detail {

/// How a contraction is one matrix product [rows, inner] · [inner, columns] for each index of a batch.
struct ProductForm {
  bool possible = false;
  bool swapped = false;  ///< the rows of the result are the second operand's
  bool left_transposed = false, right_transposed = false;  ///< the operand is stored as its transpose
  int batch = 0, rows = 0, columns = 0, inner = 0;         ///< numbers of dimensions
};

constexpr ProductForm product_form(const Signature& op) {
  ProductForm form;
  if (op.count != 2) return form;
  const Indices& y = op.result;
  const auto has = [&](int operand, int dim) {
    return dim < y.rank && op.operands[operand].find(y[dim]) >= 0;
  };
  while (has(0, form.batch) && has(1, form.batch)) ++form.batch;
  form.swapped = has(1, form.batch);
  const Indices left = op.operands[form.swapped ? 1 : 0], right = op.operands[form.swapped ? 0 : 1];
  while (has(form.swapped ? 1 : 0, form.batch + form.rows)) ++form.rows;
  form.columns = y.rank - form.batch - form.rows;
  form.inner = left.rank - form.batch - form.rows;

  const auto part = [](const Indices& from, int begin, int count) {
    Indices result;
    for (int i = 0; i < count; ++i) result = result.then(from[begin + i]);
    return result;
  };
  const Indices batch = part(y, 0, form.batch), rows = part(y, form.batch, form.rows),
                columns = part(y, form.batch + form.rows, form.columns);
  if (form.inner < 0 || right.rank != form.batch + form.inner + form.columns) return form;
  form.left_transposed = form.inner > 0 && form.rows > 0 && left[form.batch] != rows[0];
  form.right_transposed = form.inner > 0 && form.columns > 0 && right[form.batch] == columns[0];
  const Indices inner = part(left, form.batch + (form.left_transposed ? 0 : form.rows), form.inner);
  const auto is = [&](const Indices& x, const Indices& first, const Indices& second) {
    const Indices expected = batch.then(first).then(second);
    return x.rank == expected.rank && x.letters == expected.letters;
  };
  form.possible = (form.left_transposed ? is(left, inner, rows) : is(left, rows, inner)) &&
                  (form.right_transposed ? is(right, columns, inner) : is(right, inner, columns));
  return form;
}

/// The local extents of a product, and the matrix products that it and its gradients are.
struct BatchedProduct {
  Index batches, m, n, k;
  kernel::Transpose left, right;

  template <class T, int Left, int Right>
  constexpr BatchedProduct(const ProductForm& form, const View<T, Left>& a, const View<T, Right>& b)
      : batches(a.extent(0, form.batch)),
        left(form.left_transposed ? kernel::Transpose::yes : kernel::Transpose::no),
        right(form.right_transposed ? kernel::Transpose::yes : kernel::Transpose::no) {
    const int middle_of_a = form.batch + (form.left_transposed ? form.inner : form.rows);
    m = a.extent(form.batch, middle_of_a);
    k = a.extent(middle_of_a, Left);
    if (form.left_transposed) std::swap(m, k);
    const int middle_of_b = form.batch + (form.right_transposed ? form.columns : form.inner);
    n = form.right_transposed ? b.extent(form.batch, middle_of_b) : b.extent(middle_of_b, Right);
  }

  static constexpr kernel::Transpose turned(kernel::Transpose t) {
    return t == kernel::Transpose::no ? kernel::Transpose::yes : kernel::Transpose::no;
  }
  template <class T>
  void forward(const T* a, const T* b, T* y) const {
    for (Index i = 0; i < batches; ++i) {
      multiply(left, right, m, n, k, a + i * m * k, b + i * k * n, y + i * m * n, false);
    }
  }
  /// The gradient of the left operand, in the order in which it is stored.
  template <class T>
  void left_gradient(const T* dy, const T* b, T* da, bool accumulate) const {
    const bool turn = left == kernel::Transpose::yes;
    for (Index i = 0; i < batches; ++i) {
      const T *dy_i = dy + i * m * n, *b_i = b + i * k * n;
      T* const to = da + i * m * k;
      turn ? multiply(right, kernel::Transpose::yes, k, m, n, b_i, dy_i, to, accumulate)
           : multiply(kernel::Transpose::no, turned(right), m, k, n, dy_i, b_i, to, accumulate);
    }
  }
  template <class T>
  void right_gradient(const T* dy, const T* a, T* db, bool accumulate) const {
    const bool turn = right == kernel::Transpose::yes;
    for (Index i = 0; i < batches; ++i) {
      const T *dy_i = dy + i * m * n, *a_i = a + i * m * k;
      T* const to = db + i * k * n;
      turn ? multiply(kernel::Transpose::yes, left, n, k, m, dy_i, a_i, to, accumulate)
           : multiply(turned(left), kernel::Transpose::no, k, n, m, a_i, dy_i, to, accumulate);
    }
  }

 private:
  /// c[m, n] (+)= op(a) · op(b), without gaps between rows
  template <class T>
  static void multiply(kernel::Transpose ta, kernel::Transpose tb, Index m, Index n, Index k, const T* a,
                       const T* b, T* c, bool accumulate) {
    const bool turn_a = ta == kernel::Transpose::yes, turn_b = tb == kernel::Transpose::yes;
    kernel::gemm(ta, tb, m, n, k, a, turn_a ? m : k, b, turn_b ? k : n, c, n, accumulate);
  }
};

/// The members that all contractions share. `Op` has the signature.
template <class Op>
struct Contraction {
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool accumulates = true;
  static constexpr bool parameters_first = true;
  static constexpr bool reads_crosswise = true;

  template <int A, int B>
  static constexpr ProductForm form = product_form(signature_of<Op, A, B>);

  static constexpr std::int64_t flops(const auto& y, const auto& a, const auto& b) {
    return 2 * y.elements() * product(a, b).k;
  }

  static void forward(auto y, void*, auto a, auto b) {
    const BatchedProduct of = product(a, b);
    is_swapped(a, b) ? of.forward(b.data, a.data, y.data) : of.forward(a.data, b.data, y.data);
  }
  static void pull_back(auto dy, auto, const void*, auto a, auto b) {
    const BatchedProduct of = product(a, b);
    const bool swapped = is_swapped(a, b);
    if (a.gradient) {
      swapped ? of.right_gradient(dy.data, b.data, a.gradient, a.accumulate)
              : of.left_gradient(dy.data, b.data, a.gradient, a.accumulate);
    }
    if (b.gradient) {
      swapped ? of.left_gradient(dy.data, a.data, b.gradient, b.accumulate)
              : of.right_gradient(dy.data, a.data, b.gradient, b.accumulate);
    }
  }

 private:
  template <class T, int A, int B>
  static constexpr bool is_swapped(const View<T, A>&, const View<T, B>&) {
    return form<A, B>.swapped;
  }
  template <class T, int A, int B>
  static constexpr BatchedProduct product(const View<T, A>& a, const View<T, B>& b) {
    if constexpr (form<A, B>.swapped) {
      return BatchedProduct(form<A, B>, b, a);
    } else {
      return BatchedProduct(form<A, B>, a, b);
    }
  }
};

}  // namespace detail

/// A product of two operands by einsum text.
template <FixedString Text>
struct ContractOp : detail::Contraction<ContractOp<Text>> {
  static constexpr const char* name = Text.text;
  static constexpr Signature signature = Signature::of(Text.view()).linear_in_each();
};

/// a · b of matrices; of batches of matrices; or of many rows, or a batch, by one matrix or vector.
struct MatmulOp : detail::Contraction<MatmulOp> {
  static constexpr const char* name = "matmul";
  static constexpr Hint hint_for_blocks = Hint::use_matrix_product_which_communicates;

  template <int A, int B>
  static constexpr Signature signature() {
    const char* text = B == 1 ? "...k, k -> ..." : B == 2 ? "...k, kn -> ...n" : "...mk, ...kn -> ...mn";
    return A > 0 && B > 0 && (B <= 2 || A == B) ? Signature::of(text).linear_in_each() : Signature();
  }
};

namespace detail {

/// How to change a contraction that is not one matrix product.
constexpr Hint cure_of_contraction(const Signature& op) {
  for (const Indices& x : {op.operands[0], op.operands[1], op.result}) {
    for (int dim = 0; dim < x.rank; ++dim) {
      int tensors = 0;
      for (const Indices& y : {op.operands[0], op.operands[1], op.result}) tensors += y.find(x[dim]) >= 0;
      if (tensors < 2 || x.find(x[dim]) < dim)
        return Hint::name_each_index_in_two_or_all_three_tensors_and_once_in_each;
    }
  }
  return Hint::transpose_until_batch_indices_come_first_and_summed_ones_together;
}
template <class A, class B, Hint H>
using NotOneProduct =
    LayoutError<Reason::contraction_is_not_one_matrix_product, Got<tensor_of<A>, tensor_of<B>>, Cure<H>>;

/// The result of a contraction, or why it is refused.
template <FixedString Text, class A, class B>
struct Contracted : ResultOfOperands<ContractOp<Text>, A, B> {};
template <FixedString Text, TensorOperand A, TensorOperand B>
  requires(Text.view().find("->") == std::string_view::npos)
struct Contracted<Text, A, B>
    : TypeIs<NotOneProduct<A, B, Hint::write_an_arrow_and_the_indices_of_the_result>> {};
template <FixedString Text, TensorOperand A, TensorOperand B>
  requires(Text.view().find("->") != std::string_view::npos &&
           signature_of<ContractOp<Text>, rank_of<A>, rank_of<B>>.count == 2 &&
           !ContractOp<Text>::template form<rank_of<A>, rank_of<B>>.possible)
struct Contracted<Text, A, B>
    : TypeIs<
          NotOneProduct<A, B, cure_of_contraction(signature_of<ContractOp<Text>, rank_of<A>, rank_of<B>>)>> {
};

}  // namespace detail

/// The product of a and b that the text describes: "mk, kn -> mn". Throws `std::invalid_argument` if extents of one
/// letter differ.
template <FixedString Text, Operand A, Operand B,
          WellFormed Result = typename detail::Contracted<Text, A, B>::type>
constexpr auto contract(const A& a, const B& b) {
  return apply(ContractOp<Text>{}, a, b);
}
template <FixedString Text, class A, class B, IllFormed Why = typename detail::Contracted<Text, A, B>::type>
Why contract(const A&, const B&);  // see Why
template <FixedString Text, Operand A>
WrittenOtherwise<Hint::contract_two_operands_or_sum_over_a_dimension_of_one> contract(const A&);
template <FixedString Text, class A, class B, class C, class... More>
  requires(Operand<A> || Operand<B> || Operand<C>)
WrittenOtherwise<Hint::contract_two_operands_and_the_result_with_the_next> contract(const A&, const B&,
                                                                                    const C&, const More&...);

/// a: [r…, m, k], b: [r…, k, n], result [r…, m, n]; or b: [k, n] or [k], for all of a: [r…, k]. Along one axis, as
/// all contractions: an index that is sharded is so in both operands that have it, and the other operand is `Reduced`.
SHARDWISE_FUNCTION(matmul, MatmulOp);

}  // namespace shardwise
