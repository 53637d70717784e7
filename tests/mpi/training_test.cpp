// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The answer does not depend on the mesh: from the same seed, every rank alone and all ranks together train
/// the same model.

#include <doctest/doctest.h>
#include <shardwise/kernel/random.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/dropout.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include "support/gpt.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<dp, tp>;

constexpr GptConfig config{
    .vocabulary = 29, .context = 12, .features = 20, .heads = 5, .hidden = 50, .layers = 2};

Mesh alone() { return Mesh(sw::self(), {1, 1}); }
std::vector<Mesh> together() {
  const int ranks = sw::world().size();
  std::vector<Mesh> meshes;
  for (int data = 1; data <= ranks; ++data) {
    if (ranks % data == 0 && ranks / data <= 5)
      meshes.emplace_back(sw::world(), Mesh::SizesOf{data, ranks / data});
  }
  return meshes;
}

// Token k of a step's batch: a pattern with some noise, so that there is something to learn.
std::int32_t token(std::uint64_t step, Index at) {
  const Index sequence = at / config.context, place = at % config.context;
  const double noise = sw::kernel::uniform(7 + step, static_cast<std::uint64_t>(at));
  return static_cast<std::int32_t>((sequence * 3 + place * 2 + (noise < 0.2 ? 1 : 0)) % config.vocabulary);
}

auto tokens(const Mesh& mesh, Index batch, std::uint64_t step, Index shift) {
  std::vector<std::int32_t> all;
  for (Index at = 0; at < batch * config.context; ++at) all.push_back(token(step, at + shift));
  return sw::distribute<Shard<0>, Replicate>(mesh, sw::Shape<2>{batch, config.context},
                                             std::span<const std::int32_t>(all));
}

/// The language model, with dropout between the blocks and the head if wanted.
template <class T>
struct Model {
  Gpt<Mesh, T> model;
  sw::Dropout<> dropout;
  bool drops;

  auto operator()(const auto& ids, std::uint64_t step) const {
    auto x = sw::add(model.tokens(ids), sw::alongside(model.positions.table, ids));
    for (const auto& block : model.blocks) {
      x = block(x);
      if (drops) x = dropout(x, step);
    }
    return model.head(model.norm(x));
  }
  void visit(auto&& f) { model.visit(f); }
};

template <class T>
std::vector<double> losses(const Mesh& mesh, int steps, Index batch, bool drops = false) {
  Model<T> model{Gpt<Mesh, T>(mesh, config), sw::Dropout<>(0.1, 11), drops};
  sw::initialize(model, 5);
  sw::AdamW adamw({.rate = 3e-3});
  std::vector<double> curve;
  for (int step = 0; step < steps; ++step) {
    const auto number = static_cast<std::uint64_t>(step);
    sw::Tape tape;
    auto loss = sw::CrossEntropyLoss()(model(tape.constant(tokens(mesh, batch, number, 0)), number),
                                       tokens(mesh, batch, number, 1));
    curve.push_back(static_cast<double>(sw::item(loss.value())));
    tape.backward(loss);
    adamw.step(model);
  }
  return curve;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] / b[i] - 1));
  return largest;
}

}  // namespace

TEST_CASE("50 steps in float") {
  const auto expected = losses<float>(alone(), 50, 5);
  CHECK(expected.front() > 3.0);  // ln 29 is 3.4
  CHECK(expected.back() < 1.5);   // it learns
  for (const Mesh& mesh : together()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const double difference = largest_difference(losses<float>(mesh, 50, 5), expected);
    MESSAGE("largest relative difference ", difference);
    CHECK(difference < 1e-4);
  }
}

TEST_CASE("10 steps in double, with fewer samples than ranks too") {
  for (Index batch : {2, 5}) {
    const auto expected = losses<double>(alone(), 10, batch);
    for (const Mesh& mesh : together()) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " batch ", batch);
      CHECK(largest_difference(losses<double>(mesh, 10, batch), expected) < 1e-9);
    }
  }
}

TEST_CASE("10 steps with dropout") {
  const auto expected = losses<double>(alone(), 10, 5, true);
  CHECK(largest_difference(losses<double>(alone(), 10, 5), expected) > 1e-3);  // dropout does something
  for (const Mesh& mesh : together()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    CHECK(largest_difference(losses<double>(mesh, 10, 5, true), expected) < 1e-9);
  }
}
