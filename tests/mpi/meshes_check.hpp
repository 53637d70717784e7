// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trains a small Llama on every mesh of the job, at every level of sharding, and holds each loss and each gradient
/// norm against one rank's.

#include <doctest/doctest.h>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "llama_support.hpp"

namespace shardwise::testing {

/// Of one training: what must not change its numbers, but for the rounding.
struct TrainingWay {
  int micro_batches = 1;
  bool recompute = false;
  Index bucket_bytes = 3000;
  int in_background = 2;
};

struct TrainingTask {
  llm::LlamaConfig config;
  Index rows = 8;    ///< of the global batch
  Index length = 8;  ///< of a row, in tokens
  int steps = 8;
};

/// Divided by all axes of up to 8 ranks; only the vocabulary never is.
inline TrainingTask even_task() {
  return {{.vocabulary = 37,
           .features = 16,
           .layers = 3,
           .heads = 8,
           .kv_heads = 8,
           .hidden = 24,
           .deviation = 0.1}};
}
/// Divided by hardly any: rows, features, and hidden features; 10 features on 8 ranks leave ranks without any. The head
/// is tied to the table.
inline TrainingTask ragged_task(Index kv_heads) {
  return {{.vocabulary = 23,
           .features = 10,
           .layers = 3,
           .heads = 6,
           .kv_heads = kv_heads,
           .head_dim = 2,
           .hidden = 13,
           .tied = true,
           .deviation = 0.1},
          5,
          7};
}

/// The losses of all steps, and the norms of their gradients. (AdamW itself would not see a factor on all gradients.)
struct Curve {
  std::vector<double> losses, norms;
};

/// Rows [first, last) of the global batch of a step: ids, or targets, which come one token later.
template <class MeshType>
auto batch_of(const MeshType& mesh, const TrainingTask& task, int step, Index first, Index last,
              Index shift) {
  std::vector<std::int32_t> tokens;
  for (Index row = first; row < last; ++row) {
    for (Index i = shift; i < task.length + shift; ++i) {
      tokens.push_back(static_cast<std::int32_t>((step * 7 + row * 5 + i * i * 3) % task.config.vocabulary));
    }
  }
  return distribute<Shard<0>, Replicate, Replicate>(mesh, Shape<2>{last - first, task.length},
                                                    std::span<const std::int32_t>(tokens));
}

template <class PlanType, class T>
Curve train(const LlamaMesh& mesh, const TrainingTask& task, const TrainingWay& way) {
  llm::Llama<LlamaMesh, PlanType, T> model(mesh, task.config);
  model.recompute_layers = way.recompute;
  initialize(model, 5);
  ReduceOptions reduction{.bucket_bytes = way.bucket_bytes, .in_background = way.in_background};
  AdamW adamw({.rate = 1e-2}, reduction);
  Curve curve;
  for (int step = 0; step < task.steps; ++step) {
    double total = 0;
    for (int i = 0; i < way.micro_batches; ++i) {
      const Index first = task.rows * i / way.micro_batches, last = task.rows * (i + 1) / way.micro_batches;
      const double part = static_cast<double>(last - first) / static_cast<double>(task.rows);
      Tape tape;
      auto logits = model(tape.constant(batch_of(mesh, task, step, first, last, 0)));
      auto loss = CrossEntropyLoss()(std::move(logits), batch_of(mesh, task, step, first, last, 1));
      auto share = scale(loss, part);
      total += static_cast<double>(item(share.value()));
      reduction.last = i + 1 == way.micro_batches;
      backward_and_reduce(share, model, reduction);
    }
    curve.losses.push_back(total);
    curve.norms.push_back(clip_gradients(model, 1.0, 2, reduction));
    adamw.step(model);
  }
  return curve;
}

/// Relative differences of two curves, the largest; ∞ where one of them is not finite.
struct Difference {
  double losses = 0, norms = 0;

  Difference() = default;
  Difference(const Curve& a, const Curve& b)
      : losses(largest(a.losses, b.losses)), norms(largest(a.norms, b.norms)) {}

  static double largest(const std::vector<double>& a, const std::vector<double>& b) {
    if (a.size() != b.size() || a.empty()) return HUGE_VAL;
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double d = std::abs(a[i] - b[i]) / std::abs(b[i]);
      worst = std::isfinite(d) ? std::max(worst, d) : HUGE_VAL;
    }
    return worst;
  }
};

/// What one rank computes alone, without sharding.
template <class T>
Curve alone_curve(const TrainingTask& task) {
  const Curve curve = train<TensorPlan, T>(llama_alone(), task, {.bucket_bytes = 0});
  // It learns, and is clipped, but not always.
  CHECK(*std::min_element(curve.losses.begin(), curve.losses.end()) < 0.97 * curve.losses.front());
  CHECK(*std::max_element(curve.norms.begin(), curve.norms.end()) > 1);
  if (task.steps >= 8) CHECK(*std::min_element(curve.norms.begin(), curve.norms.end()) < 1);
  return curve;
}

/// `PlanType` at a level of sharding over dp.
template <class PlanType, int Level>
using AtLevel = PlanWith<PlanType, Zero<Level, dp>>;

/// Numbers drawn for the selection on many ranks: the same ones always.
class Draw {
 public:
  unsigned below(unsigned end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(state_ >> 33) % end;
  }

 private:
  std::uint64_t state_ = 1;
};

/// What rounding may make of losses and of norms: some 20 times what is seen in float, 1000 times in double.
template <class T>
struct Bounds {
  static constexpr double losses = 1e-5, norms = 1e-4;
};
template <>
struct Bounds<double> {
  static constexpr double losses = 1e-13, norms = 1e-11;
};
/// Parameters and activations have 8 bits: a loss differs in the second or third digit already by the order of sums.
template <>
struct Bounds<Eigen::bfloat16> {
  static constexpr double losses = 1e-2, norms = 0.2;
};

/// The meshes of this job that fit: replicas of key and value heads only where these are fewer than the others.
inline std::vector<LlamaMesh> meshes_for(const llm::LlamaConfig& config) {
  std::vector<LlamaMesh> meshes;
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    if (mesh.size<tp>() * mesh.size<kvr>() > config.heads) continue;
    if (mesh.size<kvr>() > 1 && config.kv_heads == config.heads) continue;
    meshes.push_back(mesh);
  }
  return meshes;
}

/// Trains in each way: at each of `Levels`, without and with sequence parallelism, with and without recomputation, in
/// one and in four micro-batches. More than 4 ranks share the machine's cores, so there each mesh and level gets some of
/// these eight ways, drawn from a fixed seed: one without and one with sequence parallelism; of a ragged task only one
/// of the two.
template <class T, int... Levels>
class LevelCheck {
 public:
  void operator()(const TrainingTask& task, bool ragged) {
    const Curve expected = alone_curve<T>(task);
    for (const LlamaMesh& mesh : meshes_for(task.config)) {
      auto at = [&]<int Level>(std::integral_constant<int, Level>) {
        const unsigned drawn = draw_.below(8);
        for (unsigned way = 0; way < 8; ++way) {
          if (world().size() > 4 && way != drawn && (ragged || way != (drawn + 4) % 8)) continue;
          if (way < 4) {
            check<AtLevel<TensorPlan, Level>>(mesh, task, way, expected);
          } else {
            check<AtLevel<SequencePlan, Level>>(mesh, task, way, expected);
          }
        }
      };
      (at(std::integral_constant<int, Levels>{}), ...);
    }
  }
  int trained() const { return trained_; }
  const Difference& worst() const { return worst_; }

 private:
  template <class PlanType>
  void check(const LlamaMesh& mesh, const TrainingTask& task, unsigned index, const Curve& expected) {
    const TrainingWay way{.micro_batches = index % 2 ? 4 : 1, .recompute = index / 2 % 2 == 1};
    INFO(plan_name<PlanType>(), ", dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>(),
         ", micro-batches ", way.micro_batches, ", recompute ", way.recompute);
    const Difference found(train<PlanType, T>(mesh, task, way), expected);
    CHECK(found.losses < Bounds<T>::losses);
    CHECK(found.norms < Bounds<T>::norms);
    worst_.losses = std::max(worst_.losses, found.losses);
    worst_.norms = std::max(worst_.norms, found.norms);
    ++trained_;
  }
  template <class PlanType>
  static std::string plan_name() {
    std::string name;
    ((std::is_same_v<PlanType, AtLevel<TensorPlan, Levels>> ? name = "level " + std::to_string(Levels)
                                                            : name),
     ...);
    ((std::is_same_v<PlanType, AtLevel<SequencePlan, Levels>>
          ? name = "sequence parallel, level " + std::to_string(Levels)
          : name),
     ...);
    return name;
  }

  Draw draw_;
  int trained_ = 0;
  Difference worst_;
};

template <class T, int... Levels>
void check_levels(int steps = 8) {
  LevelCheck<T, Levels...> check;
  auto task_of = [&](TrainingTask task) {
    task.steps = steps;
    return task;
  };
  check(task_of(even_task()), false);
  check(task_of(ragged_task(2)), true);
  check(task_of(ragged_task(6)), true);
  CHECK(check.trained() > 0);
  MESSAGE(check.trained(), " trainings, largest relative difference of losses ", check.worst().losses,
          ", of norms ", check.worst().norms);
}

}  // namespace shardwise::testing
