// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A Llama for generating text, real or dry: each rank has the layers of its stage of a pipeline (usually the only
/// one).

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "llama_mesh.hpp"

namespace tools {

/// Sequences of equal length, the same on every rank of a mesh: [rows, tokens].
inline auto batch_of(const Mesh& mesh, std::span<const std::int32_t> ids, sw::Index rows = 1) {
  return sw::distribute<sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate>(
      mesh, sw::Shape<2>{rows, std::ssize(ids) / rows}, ids);
}

/// `Block`: `sw::llm::Block16`, `sw::llm::Block8` or `sw::llm::Block4` for weights in blocks; `void` for weights in float.
template <class Block = void>
class TextModel {
  using Floats = sw::llm::LlamaExpertParallel<sw::llm::LlamaColwiseParallel<Split>, Split>;
  template <class B>
  struct PlanOf {
    using type = sw::llm::LlamaQuantized<Floats, B>;
  };

 public:
  using Ids = sw::Tensor<std::int32_t, 2, Mesh, sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate,
                         sw::Replicate>;
  using Part =
      sw::llm::Llama<Mesh, typename std::conditional_t<std::is_void_v<Block>, std::type_identity<Floats>,
                                                       PlanOf<Block>>::type>;
  using Cache = decltype(std::declval<const Part&>().make_cache(std::declval<const Ids&>(), sw::Index{}));

  TextModel(const Job& job, const sw::llm::LlamaConfig& config)
      : job_(job),
        config_(config),
        pipeline_(job, sw::gpipe(job.size<sw::pp>(), 1)),
        stages_(pipeline_.stages([&](int stage, const Mesh& mesh) {
          return Part(mesh, config,
                      sw::llm::LlamaPart::of(config, pipeline_.schedule().rank_of_stage, stage));
        })) {}

  const sw::llm::LlamaConfig& config() const { return config_; }
  /// The mesh of this rank's stage.
  const Mesh& mesh() const { return pipeline_.mesh(); }
  sw::Stages<Part>& stages() { return stages_; }
  Cache make_cache(const Ids& ids, sw::Index capacity) { return stages_.front().make_cache(ids, capacity); }

  /// f(logits) for the tokens after `ids`, which follow those in the cache's selected rows: [rows, 1, vocabulary]. f
  /// runs on the ranks of the last stage, and writes `numbers`, which are zeros, and which every rank gets.
  void next(const auto& ids, auto& cache, std::span<double> numbers, auto f) {
    pass(
        ids, [&](const Part& part, const auto& x) { return part.middle(x, cache); },
        [&](const Part& part, const auto& x) {
          // The logits of one token are small, so they are gathered on every rank of the stage.
          f(sw::redistribute<sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate, sw::Replicate>(
              part.end_of_last(x)));
          return 0;
        });
    if (job_.size<sw::pp>() == 1) return;
    constexpr sw::AxisSet stages = 1u << Job::AxesOf::index<sw::pp>;
    sw::MeshView(job_).all_reduce(numbers.data(), std::ssize(numbers), sw::DataType::f64, sw::ReduceOp::sum,
                                  stages);
  }
  /// f(logits) for all `ids`, called on the ranks of the last stage; its result is returned on every rank.
  double each(const auto& ids, auto f) {
    return pass(
        ids, [](const Part& part, const auto& x) { return part.middle(x); },
        [&](const Part& part, const auto& x) { return f(part.end(x)); });
  }
  /// The sum of f(logits, first) over pieces of at most 256 tokens, of which `first` is the first, for all `ids`: their
  /// logits together may not fit into memory.
  double each_piece(const auto& ids, auto f) {
    return pass(
        ids, [](const Part& part, const auto& x) { return part.middle(x); },
        [&](const Part& part, const auto& x) {
          double sum = 0;
          const sw::Index most = 256, tokens = x.shape()[1];
          for (sw::Index first = 0; first < tokens; first += most)
            sum += f(part.end(sw::narrow<1>(x, first, std::min(most, tokens - first))), first);
          return sum;
        });
  }

 private:
  double pass(const auto& ids, auto middle, auto end) {
    return pipeline_.forward(
        stages_, {ids.shape()[0], ids.shape()[1], stages_.front().config().features},
        [&](const Part& part) { return part.begin(ids); }, middle, end);
  }

  Job job_;
  sw::llm::LlamaConfig config_;
  sw::Pipeline<Job> pipeline_;
  sw::Stages<Part> stages_;
};

/// Calls f with a null pointer to the type that `TextModel` takes for weights of so many bits: 32, 16, 8 or 4.
inline void with_weight_bits(int bits, auto f) {
  if (bits == 16) return f(static_cast<sw::llm::Block16*>(nullptr));
  if (bits == 8) return f(static_cast<sw::llm::Block8*>(nullptr));
  if (bits == 4) return f(static_cast<sw::llm::Block4*>(nullptr));
  f(static_cast<void*>(nullptr));
}

}  // namespace tools
