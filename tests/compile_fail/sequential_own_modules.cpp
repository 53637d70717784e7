// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<dp>, Expected<Shard<1>, Reduced, Reduced>, Got<Shard<1>, Shard<1>, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>, Of<AttentionOp>, In<InnerAttention>, InA<Attention>, In<Block>, In<detail::Repeat>, In<Decoder>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Batch = Tensor<float, 3, Grid, P...>;  // [batch, sequence, features]

struct Block : Module<Block> {
  LayerNorm<Grid> norm;
  Attention<Grid> attention;

  auto forward(const auto& x) const {
    return add(x, attention(norm(x)));
  }
};

struct Decoder : Module<Decoder> {
  std::vector<Block> blocks;
  LayerNorm<Grid> norm;

  auto forward(const auto& x) const {
    return norm(sequential(x, blocks));
  }
};

#ifdef SHOULD_FAIL
auto step(Tape& tape, const Decoder& decoder, const Batch<Shard<1>, Replicate>& x) {
  auto y = decoder(tape.constant(x));
  return mean(y);
}
#else
auto step(Tape& tape, const Decoder& decoder, const Batch<Shard<0>, Replicate>& x) {
  auto y = decoder(tape.constant(x));
  return mean(y);
}
#endif
