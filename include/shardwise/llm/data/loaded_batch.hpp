// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A micro-batch as tensors, of which each rank has its own rows.

#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/llm/data/batch_sampler.hpp>
#include <shardwise/llm/data/token_ids.hpp>

namespace shardwise::llm {

/// The sequences of a micro-batch: [batch / micro_batches, length].
template <class MeshType>
struct LoadedBatch {
  TokenIds<MeshType> inputs;
  TokenIds<MeshType> targets;  ///< shifted by one token; `ignore_index` for padding, where the input is 0
  Index counted = 0;           ///< targets other than `ignore_index`, over all ranks and the *whole* step
  /// For packed rows, the number of each token's document; -1: padding.
  std::optional<DocumentNumbers<MeshType>> documents = {};
};

namespace detail {

/// fill(sequence, inputs, targets, documents) writes a whole row; `documents` is null unless requested.
template <class MeshType, class Fill>
constexpr LoadedBatch<MeshType> load_rows(const MeshType& mesh, const BatchSampler& sampler, Index step,
                                          Index micro, Index counted, bool with_documents, Fill fill) {
  const Index length = sampler.options().length;
  const Shape<2> shape{sampler.micro_batch(), length};
  LoadedBatch<MeshType> batch{TokenIds<MeshType>(mesh, shape), TokenIds<MeshType>(mesh, shape), counted, {}};
  if (with_documents) batch.documents.emplace(mesh, shape);
  if (!mesh.dry()) {
    check_same_on(mesh, "load_batch", "seed", sampler.options().seed, "step", step, "micro-batch", micro,
                  "rows of the shape", shape, "targets that count:", counted);
    const Range own = batch.inputs.box().range(0), positions = batch.inputs.box().range(1);
    std::int32_t* inputs = batch.inputs.writable().data;
    std::int32_t* targets = batch.targets.writable().data;
    std::int32_t* documents = with_documents ? batch.documents->writable().data : nullptr;
    std::vector<std::int32_t> row(static_cast<std::size_t>(2 * length));
    for (const auto sequence : sampler.sequences(step, micro) | ranges::views::slice(own.begin, own.end())) {
      fill(sequence, row.data(), row.data() + length, documents);
      inputs = std::copy_n(row.data() + positions.begin, positions.size, inputs);
      targets = std::copy_n(row.data() + length + positions.begin, positions.size, targets);
      if (documents) documents += length;
    }
  }
  return batch;
}

}  // namespace detail

}  // namespace shardwise::llm
