// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `rope`: rotary position embeddings (Su et al., "RoFormer", 2021), with the pairing of Hugging Face's
/// models: i with i + head_dim/2. Positions are global, so the sequence may be sharded; head_dim is whole.
/// Linear in x: pending sums pass.
///
/// ```
/// q = rope(q);                                    // theta = 10000, positions from 0
/// q = rope(q, {.theta = 500000, .scaling = RopeScaling{.factor = 32}});    // Llama 3.2
/// q = rope(q, {.row_positions = cache.positions()});                       // decoding
/// q = rope(q, documents);                         // positions restart in each document of a row
/// q = rope(q, {.dims = 64, .interleaved = true});                         // DeepSeek
/// ```

#include <shardwise/kernel/documents.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/llm/models/rope_kernel.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise::llm {

using kernel::RopeScaling;
using kernel::RopeType;

struct RopeOptions {
  double theta = 10000;      ///< the base of the wavelengths
  Index first_position = 0;  ///< of the sequence's first token
  std::optional<RopeScaling> scaling{};
  Index dims = 0;            ///< how many numbers at the end of each head are rotated; 0: all
  bool interleaved = false;  ///< pairs are numbers 2i and 2i + 1, instead of i and i + dims/2
  /// Unless empty: what is added to `first_position` in each row of the batch. It must live as long as the tape.
  std::span<const Index> row_positions{};
};

struct RopeOp {
  static constexpr const char* name = "rope";
  RopeOptions options;

  static constexpr Saved saved{.inputs = 0b10};
  static constexpr bool accumulates = true;
  static constexpr int flops_each = 3;  // two products and a sum

  template <int>
  static constexpr Signature signature() {
    return Signature::of("bshd -> bshd").whole('d').linear_in_each();
  }
  template <int, int>  // and the documents
  static constexpr Signature signature() {
    return Signature::of("bshd, bt -> bshd").whole('d').whole('t').linear_in_each().without_gradient(1);
  }

  constexpr Shape<4> shape(const Shape<4>& x, const Shape<2>& documents) const {
    if (documents[0] != x[0] || documents[1] != x[1]) {
      detail::fail(
          {"rope: the documents are ", documents, ", but x is ", x, ": they are numbers of its tokens"});
    }
    if (!options.row_positions.empty()) {
      throw std::invalid_argument("rope: row_positions are given, but positions restart in each document");
    }
    return shape(x);
  }
  constexpr Shape<4> shape(const Shape<4>& x) const {
    if (options.dims < 0 || options.dims > x[3]) {
      detail::fail({"rope: dims is ", options.dims, ", but it must be 0 to head_dim, ", x[3]});
    }
    if (dims(x[3]) % 2 != 0) {
      detail::fail({"rope: ", options.dims > 0 ? "dims" : "head_dim", " is ", dims(x[3]),
                    ", but it must be even: its numbers are rotated in pairs"});
    }
    if (!(options.theta > 0)) detail::fail({"rope: theta is ", options.theta, ", but it must be positive"});
    if (options.first_position < 0) {
      detail::fail({"rope: first_position is ", options.first_position, ", but positions count from 0"});
    }
    const auto& rows = options.row_positions;
    if (!rows.empty() && std::ssize(rows) != x[0]) {
      detail::fail(
          {"rope: there are ", std::ssize(rows), " row_positions, but x is ", x, ": one for each row"});
    }
    for (Index position : rows) {
      if (position < 0)
        detail::fail({"rope: a row's position is ", position, ", but positions count from 0"});
    }
    if (options.scaling) check(*options.scaling);
    return x;
  }

  template <class T, class... Id>
  void forward(View<T, 4> y, void*, View<const T, 4> x, View<const Id, 2>... documents) const {
    turn(x, kernel::Rotation::forward, x.data, y.data, false, positions(x, documents...));
  }
  template <class T, class... Id>
  void pull_back(View<const T, 4> dy, View<const T, 4>, const void*, Input<T, 4> x,
                 Input<Id, 2>... documents) const {
    turn(dy, kernel::Rotation::back, dy.data, x.gradient, x.accumulate, positions(dy, documents...));
  }

 private:
  constexpr Index dims(Index head_dim) const { return options.dims > 0 ? options.dims : head_dim; }
  static constexpr void check(const RopeScaling& scaling) {
    if (!(scaling.factor > 0)) {
      detail::fail({"rope: the scaling factor is ", scaling.factor, ", but it must be positive"});
    }
    if (scaling.rope_type == RopeType::linear) return;
    if (scaling.rope_type == RopeType::llama3 && !(scaling.low_freq_factor < scaling.high_freq_factor)) {
      detail::fail({"rope: low_freq_factor is ", scaling.low_freq_factor,
                    ", but it must be less than high_freq_factor, ", scaling.high_freq_factor});
    }
    if (scaling.rope_type == RopeType::yarn && !(scaling.beta_slow < scaling.beta_fast)) {
      detail::fail({"rope: beta_slow is ", scaling.beta_slow, ", but it must be less than beta_fast, ",
                    scaling.beta_fast});
    }
    if (scaling.original_max_position_embeddings < 1) {
      detail::fail({"rope: original_max_position_embeddings is ", scaling.original_max_position_embeddings,
                    ", but it must be positive"});
    }
  }
  struct Positions;
  /// The positions of a block's tokens in their rows. Null if these begin alike.
  template <class T>
  const Index* positions(const View<const T, 4>& block) const {
    if (options.row_positions.empty()) return nullptr;
    const Index tokens = block.size[1], all = block.extent(0, 2);
    Index* result = kernel::scratch<Positions, Index>(all);
    for (Index i = 0; i < all; ++i) {
      const auto row = static_cast<std::size_t>(block.begin[0] + i / tokens);
      result[i] = options.row_positions[row] + block.begin[1] + i % tokens;
    }
    return result;
  }
  /// The positions of a block's tokens in their documents; padding has position 0.
  template <class T, class Id>
  static const Index* positions(const View<const T, 4>& block, const View<const Id, 2>& documents) {
    struct Ranges;
    const Index first = block.begin[1], tokens = block.size[1], all = block.extent(0, 2);
    Range* ranges = kernel::scratch<Ranges, Range>(all);
    kernel::document_ranges(block.size[0], documents.size[1], documents.data, first, tokens, ranges);
    Index* result = kernel::scratch<Positions, Index>(all);
    for (Index i = 0; i < all; ++i) result[i] = ranges[i].size > 0 ? first + i % tokens - ranges[i].begin : 0;
    return result;
  }
  template <class T>
  void turn(const View<const T, 4>& block, kernel::Rotation rotation, const T* from, T* to, bool accumulate,
            const Index* positions) const {
    kernel::rope(block.size[0], block.size[1], block.size[2],
                 {dims(block.size[3]), options.theta, options.scaling},
                 options.first_position + (positions ? 0 : block.begin[1]), rotation, from, to, accumulate,
                 positions, {block.size[3] - dims(block.size[3]), options.interleaved});
  }
};

/// x: [batch, sequence, heads, head_dim], and so is the result. Throws `std::invalid_argument`, on every rank,
/// if head_dim is odd or an option is out of range.
template <Operand X, class Result = result_of<RopeOp, X>>
constexpr auto rope(const X& x, const RopeOptions& options = {}) {
  return apply(RopeOp{options}, x);
}
template <Operand X, IllFormed Why = result_of<RopeOp, X>>
Why rope(const X&, const RopeOptions& = {});  // see Why

/// The same, with positions that restart in each document. documents: integers [batch, sequence]; only the batch may be
/// sharded (see `attention`).
template <Operand X, Operand Documents, class Result = result_of<RopeOp, X, Documents>>
constexpr auto rope(const X& x, const Documents& documents, const RopeOptions& options = {}) {
  return apply(RopeOp{options}, x, documents);
}
template <Operand X, Operand Documents, IllFormed Why = result_of<RopeOp, X, Documents>>
Why rope(const X&, const Documents&, const RopeOptions& = {});  // see Why
template <Operand X, std::integral Position,
          IllFormed Why = WrittenOtherwise<Hint::write_options_in_braces_by_name>>
Why rope(const X&, Position);  // see Why

}  // namespace shardwise::llm
