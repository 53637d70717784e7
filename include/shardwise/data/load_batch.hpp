// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batches as tensors: each rank reads the rows that are its own.
///
/// ```
/// const CrossEntropyLoss sum({.reduction = Reduction::sum});
/// for (Index micro = 0; micro < sampler.options().micro_batches; ++micro) {
///   auto [inputs, targets, counted] = load_batch(mesh, corpus, sampler, step, micro);
///   Tape tape;
///   auto loss = scale(sum(model(tape.constant(inputs)), targets), 1. / counted);   // gradients add up to the mean's
///   tape.backward(loss);
/// }
/// ```

#include <range/v3/view/slice.hpp>

#include <shardwise/data/batch_sampler.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise {

/// A row of tokens: `TokenCorpus`, or a type of the caller's. `copy` fills `to` with the tokens from `begin` on.
template <class T>
concept TokenSource = requires(const T& tokens, Index begin, std::span<std::int32_t> to) {
  { tokens.size() } -> std::convertible_to<Index>;
  tokens.copy(begin, to);
};

namespace detail {

template <class MeshType>
constexpr Layout rows_over_data_axes() {
  return Layout::by_axis(MeshType::axes,
                         [](int axis) { return MeshType::AxesOf::data[axis] ? shard(0) : replicate; });
}

}  // namespace detail

/// Token ids [sequences, length]: `Shard<0>` on axes that are `data`, `Replicate` on the others.
template <class MeshType>
using TokenIds = tensor_with<std::int32_t, 2, MeshType, packed(detail::rows_over_data_axes<MeshType>())>;

/// The sequences of a micro-batch, [batch / micro_batches, length] each.
template <class MeshType>
struct LoadedBatch {
  TokenIds<MeshType> inputs;
  TokenIds<MeshType>
      targets;        ///< one token further on; `ignore_index` where there is none, beside the input 0
  Index counted = 0;  ///< targets that are not `ignore_index`, of all ranks and the *whole* step
};

/// Loads a micro-batch of a step; nothing is sent. On a dry mesh nothing is read. Throws `std::invalid_argument`, on
/// all ranks alike, for a step or micro-batch that is none, and for a sampler that was made for another number of
/// tokens.
template <class MeshType, TokenSource Corpus>
constexpr LoadedBatch<MeshType> load_batch(const MeshType& mesh, const Corpus& corpus,
                                           const BatchSampler& sampler, Index step, Index micro = 0) {
  sampler.check(step, micro);
  if (static_cast<Index>(corpus.size()) != sampler.tokens()) {
    detail::fail({"load_batch: the corpus has ", corpus.size(), " tokens, but the sampler was made for ",
                  sampler.tokens()});
  }
  const Index length = sampler.options().length;
  const Shape<2> shape{sampler.micro_batch(), length};
  LoadedBatch<MeshType> batch{TokenIds<MeshType>(mesh, shape), TokenIds<MeshType>(mesh, shape),
                              sampler.counted(step)};
  if constexpr (!MeshType::dry) {
    const Range own = batch.inputs.box().range(0);
    std::int32_t* inputs = batch.inputs.writable().data;
    std::int32_t* targets = batch.targets.writable().data;
    std::vector<std::int32_t> tokens;
    for (const auto sequence : sampler.sequences(step, micro) | ranges::views::slice(own.begin, own.end())) {
      tokens.clear();
      if (sequence) {
        const Range row = sampler.inputs_of(*sequence);
        tokens.resize(static_cast<std::size_t>(row.size) + 1);
        corpus.copy(row.begin, std::span(tokens));
      }
      const auto count = tokens.empty() ? 0 : static_cast<Index>(tokens.size()) - 1;
      std::fill(std::copy_n(tokens.begin(), count, inputs), inputs + length, 0);
      std::fill(std::copy_n(tokens.begin() + (count > 0), count, targets), targets + length,
                static_cast<std::int32_t>(sampler.options().ignore_index));
      inputs += length;
      targets += length;
    }
  }
  return batch;
}

}  // namespace shardwise
