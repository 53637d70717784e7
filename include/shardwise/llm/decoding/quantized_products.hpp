// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `linear` and `embedding` with quantised weights: tensors of blocks of 32 numbers (weight_blocks.hpp), whose
/// last dimension is 32 times as long as its extent. Only whole blocks are sharded.
///
/// ```
/// Tensor<Block8, 2, Mesh<tp>, Shard<0>> w;    // [out, in / 32]
/// y = linear(x, w);                           // y[r…, o…] ≈ Σ_i x[r…, i] w[o…, i], in float
/// x = embedding(tokens, w);                   // rows of a table, exactly
/// ```

#include <shardwise/kernel/gemm.hpp>
#include <shardwise/llm/decoding/block_product.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/ops/linear.hpp>

namespace shardwise::llm {

/// Beside weights of 8 and 4 bits, each group of 32 numbers of x is rounded to 8 bits. So the layouts are those of
/// `linear` except that x is not pending. The gradient of x is that of the product with unrounded x.
template <int Contracted>
struct QuantizedLinearOp {
  static constexpr const char* name = "linear";
  static constexpr Signature signature =
      Signature::of("...k*c, o*k*g -> ...o*").dimensions('k', Contracted - 1).whole('c').whole('g');
  static constexpr Saved saved{.inputs = 0b10};
  static constexpr bool accumulates = true;

  template <class X, class W>
  static constexpr bool takes = std::is_same_v<X, float>&& WeightBlock<W>;

  template <int A, int B>
  static constexpr auto shape(const Shape<A>& x, const Shape<B>& w) {
    Shape<A> blocks = x;
    blocks[A - 1] /= kernel::numbers_per_block;
    bool fits = blocks[A - 1] * kernel::numbers_per_block == x[A - 1];
    for (int dim = 1; dim <= Contracted; ++dim) fits = fits && blocks[A - dim] == w[B - dim];
    if (!fits) {
      detail::fail({"linear: the operand ", x, " does not fit the weight ", w, " of blocks of ",
                    kernel::numbers_per_block, " numbers"});
    }
    Shape<A + B - 2 * Contracted> y{};
    for (int dim = 0; dim < A - Contracted; ++dim) y[dim] = x[dim];
    for (int dim = 0; dim < B - Contracted; ++dim) y[A - Contracted + dim] = w[dim];
    return y;
  }
  static constexpr std::int64_t flops(const auto& y, const auto& x, const auto&) {
    const Extents of(x, y);
    return 2 * of.rows * of.out * of.groups * kernel::numbers_per_block;
  }

  static void forward(auto y, void*, auto x, auto w) {
    const Extents of(x, y);
    kernel::block_product(of.rows, of.out, of.groups, x.data, of.in(), w.data, of.groups, y.data, of.out);
  }
  static void pull_back(auto dy, auto, const void*, auto x, auto w) {
    if (!x.gradient) return;
    const Extents of(x, dy);
    constexpr Index most = 32;  // rows of the weight as numbers at a time, which stay in the cache
    auto* numbers = kernel::scratch<QuantizedLinearOp, float>(most * of.in());
    for (Index o = 0; o < of.out || o == 0; o += most) {
      const Index n = std::min(most, of.out - o);
      kernel::dequantise(n * of.groups, w.data + o * of.groups, numbers);
      kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, of.rows, of.in(), n, dy.data + o, of.out,
                   numbers, of.in(), x.gradient, of.in(), x.accumulate || o > 0);
    }
  }

 private:
  struct Extents {
    Index rows, out, groups;
    template <class T, class U, int A, int Y>
    constexpr Extents(const View<T, A>& x, const View<U, Y>& y)
        : rows(x.extent(0, A - Contracted)),
          out(y.extent(A - Contracted, Y)),
          groups(x.extent(A - Contracted, A) / kernel::numbers_per_block) {}
    constexpr Index in() const { return groups * kernel::numbers_per_block; }
  };
};

/// Rows of a table of blocks.
struct QuantizedEmbeddingOp {
  using Element = float;
  static constexpr const char* name = "embedding";
  static constexpr Signature signature =
      Signature::of("..., vg -> ...d").linear_in_each().without_gradient(0).whole('g');
  static constexpr int flops_each = 0;

  template <class Id, class W>
  static constexpr bool takes = std::is_integral_v<Id>&& WeightBlock<W>;

  static constexpr Propagated rule(const Signature& own, const OperandPlacements& at) {
    return EmbeddingOp::rule(own, at);
  }
  template <int Rank>
  static constexpr Shape<Rank + 1> shape(const Shape<Rank>& tokens, const Shape<2>& table) {
    return joined(tokens, Shape<1>{table[1] * kernel::numbers_per_block});
  }
  template <class Id, WeightBlock W, int Rank>
  static void forward(View<float, Rank + 1> y, void*, View<const Id, Rank> tokens, View<const W, 2> table) {
    EmbeddingOp::check(tokens, table);
    const Index groups = table.size[1], row = groups * kernel::numbers_per_block;
    for (Index i = 0; i < tokens.elements(); ++i) {
      const Index own = static_cast<Index>(tokens.data[i]) - table.begin[0];
      if (own >= 0 && own < table.size[0]) {
        kernel::dequantise(groups, table.data + own * groups, y.data + i * row);
      } else {
        kernel::fill<float>(row, -0.F, y.data + i * row);
      }
    }
  }
};

}  // namespace shardwise::llm

namespace shardwise::detail {

template <int Contracted, llm::WeightBlock Element>
struct OpOfElements<LinearOp<Contracted>, Element> : TypeIs<llm::QuantizedLinearOp<Contracted>> {};
template <int Contracted, llm::WeightBlock Element>
struct OpOfElements<FixedLinearOp<Contracted>, Element> : TypeIs<llm::QuantizedLinearOp<Contracted>> {};
template <llm::WeightBlock Element>
struct OpOfElements<EmbeddingOp, Element> : TypeIs<llm::QuantizedEmbeddingOp> {};

}  // namespace shardwise::detail
