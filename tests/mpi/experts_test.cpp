// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Mixtures of experts: routing, its losses, and the module on every mesh against one rank.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/clip.hpp>

#include "module_check.hpp"

namespace shardwise::testing::mixtures {
namespace {

using Matrix = RowMajorMatrix<double>;

/// The same on every mesh.
template <class Style>
struct Make {
  Index features;
  MixtureOptions options;

  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return MixtureOfExperts<MeshType, Style, double>(mesh, features, options);
  }
};
template <class Style, class Whole = Normal<Replicate>, class MeshType, class Input>
std::string check_mixture(const MeshType& mesh, const MixtureOptions& options, Input input) {
  const auto plan = check_module(mesh, Make<Style>{7, options}, input, Make<NoParallel>{7, options},
                                 Whole{input.shape});
  return traffic(plan);
}

constexpr MixtureOptions eight{.experts = 8, .hidden = 6, .routing = {.k = 2}};
constexpr MixtureOptions deepseek{.experts = 8,
                                  .hidden = 5,
                                  .routing = {.k = 3,
                                              .scores = Scores::sigmoid,
                                              .scale = 2.5,
                                              .choice = {.groups = 4, .kept_groups = 2}},
                                  .shared_hidden = 10,
                                  .bias = true};

TEST_CASE("expert parallelism: one all-gather and one reduce-scatter each way") {
  const Mesh<ep> mesh(world(), {any});
  const std::string both = mesh.size() == 1 ? " / " : "all_gather 1, reduce_scatter 1 / all_gather 1, reduce_scatter 1";
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, eight, Normal<Shard<0>>{{5, 3, 7}}) == both);
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, deepseek, Normal<Shard<1>>{{2, 9, 7}}) == both);
}

}  // namespace
}  // namespace shardwise::testing::mixtures
