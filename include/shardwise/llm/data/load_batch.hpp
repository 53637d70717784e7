// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Batches as tensors: each rank reads its own rows.
///
/// ```
/// const CrossEntropyLoss sum({.reduction = Reduction::sum});
/// for (Index micro = 0; micro < sampler.options().micro_batches; ++micro) {
///   auto batch = load_batch(mesh, corpus, sampler, step, micro);   // or of `DocumentRows`
///   Tape tape;
///   auto loss = scale(sum(model(tape.constant(batch.inputs)), batch.targets), 1. / batch.counted);
///   tape.backward(loss);   // gradients add up to the mean's
/// }
/// ```

#include <shardwise/llm/data/document_rows.hpp>
#include <shardwise/llm/data/loaded_batch.hpp>

namespace shardwise::llm {

/// A sequence of tokens: `TokenCorpus`, or a user's type. `copy` fills `to` with the tokens from `begin` on.
template <class T>
concept TokenSource = requires(const T& tokens, Index begin, std::span<std::int32_t> to) {
  { tokens.size() } -> std::convertible_to<Index>;
  tokens.copy(begin, to);
};

/// Loads a micro-batch of a step. Nothing is communicated, except that with SHARDWISE_CHECK=1 ranks compare seed,
/// step and micro-batch. If the corpus has `read_ahead`, the next step's tokens are prefetched from the device. On
/// a dry mesh nothing is read. Throws `std::invalid_argument`, on all ranks alike, for a step or micro-batch out of
/// range, and for a sampler of another number of tokens.
template <class MeshType, TokenSource Corpus>
constexpr LoadedBatch<MeshType> load_batch(const MeshType& mesh, const Corpus& corpus,
                                           const BatchSampler& sampler, Index step, Index micro = 0) {
  sampler.check(step, micro);
  if (static_cast<Index>(corpus.size()) != sampler.tokens()) {
    detail::fail({"load_batch: the corpus has ", corpus.size(), " tokens, but the sampler was made for ",
                  sampler.tokens()});
  }
  std::vector<std::int32_t> tokens;
  auto batch = detail::load_rows(
      mesh, sampler, step, micro, sampler.counted(step), false,
      [&](std::optional<Index> sequence, std::int32_t* inputs, std::int32_t* targets, std::int32_t*) {
        const Index length = sampler.options().length;
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
      });
  if constexpr (requires { corpus.read_ahead(Index{}, Index{}); }) {
    if (mesh.dry()) return batch;
    const Range own = batch.inputs.box().range(0);
    for (const auto next : sampler.sequences(step + 1, micro) | ranges::views::slice(own.begin, own.end())) {
      if (!next) continue;
      const Range row = sampler.inputs_of(*next);
      corpus.read_ahead(row.begin, row.size + 1);
    }
  }
  return batch;
}

/// The same for documents. Throws `std::invalid_argument` for a sampler of other rows.
template <class MeshType>
LoadedBatch<MeshType> load_batch(const MeshType& mesh, const DocumentRows& rows, const BatchSampler& sampler,
                                 Index step, Index micro = 0) {
  sampler.check(step, micro);
  if (rows.size() != sampler.sequence_count() || rows.options().length != sampler.options().length) {
    detail::fail({"load_batch: there are ", rows.size(), " rows of ", rows.options().length,
                  ", but the sampler was made for ", sampler.sequence_count(), " of ",
                  sampler.options().length});
  }
  return detail::load_rows(mesh, sampler, step, micro, rows.counted(sampler, step), rows.options().packed,
                           [&](const auto& row, auto... to) { rows.copy(row, to...); });
}

}  // namespace shardwise::llm
