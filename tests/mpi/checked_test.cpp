// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What ranks must have alike, and compare where they are asked to.

#include <doctest/doctest.h>
#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/sgd.hpp>

#include <cstdlib>
#include <string>
#include <vector>

namespace shardwise::testing::checked {

using namespace shardwise::llm;
namespace sw = shardwise;
using sw::Replicate;
using sw::Shard;
using Mesh = sw::Mesh<sw::tp>;

namespace {

/// Before the library reads it.
[[maybe_unused]] const int asked = ::setenv("SHARDWISE_CHECK", "1", 1);

struct Ones {
  static sw::Index size() { return 40; }
  static void copy(sw::Index, std::span<std::int32_t> to) { std::ranges::fill(to, 1); }
};

/// What all ranks are told if the last does as it should not.
template <class F>
std::string told(const Mesh& mesh, F f) {
  try {
    f(mesh.size() > 1 && mesh.rank() == mesh.size() - 1);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks that begin with other seeds, or other values, are told" * doctest::test_suite("MPI")) {
  const Mesh mesh(sw::world(), {sw::any});
  const auto expected = [&](const std::string& what, const std::string& last, const std::string& first) {
    if (mesh.size() == 1) return std::string();
    return what + ": rank " + std::to_string(mesh.size() - 1) + ": " + last + ", rank 0: " + first;
  };

  sw::Mlp<Mesh> mlp(mesh, 4, 8);
  CHECK(told(mesh, [&](bool last) { sw::initialize(mlp, last ? 8 : 7); }) ==
        expected("initialize", "seed 8", "seed 7"));
  CHECK(told(mesh, [&](bool last) { sw::randn<float, Replicate>(mesh, {3}, last ? 2 : 1); }) ==
        expected("randn", "seed 2", "seed 1"));
  CHECK(told(mesh, [&](bool last) { sw::uniform<float, Shard<0>>(mesh, {3}, last ? 2 : 1); }) ==
        expected("uniform", "seed 2", "seed 1"));

  const auto rows = [&](sw::Index count) { return std::vector<float>(static_cast<std::size_t>(2 * count)); };
  CHECK(told(mesh, [&](bool last) {
          sw::distribute<Shard<0>>(mesh, {last ? 3 : 4, 2}, rows(last ? 3 : 4));
        }) == expected("distribute", "[3 x 2]", "[4 x 2]"));
  const std::string values = told(mesh, [&](bool last) {
    std::vector<float> here = rows(4);
    here[7] = last ? 1 : 0;
    sw::distribute<Replicate>(mesh, {4, 2}, here);
  });
  const std::string last = std::to_string(mesh.size() - 1), print = ": values of fingerprint ";
  CHECK(values.starts_with("distribute: rank " + last + print) == (mesh.size() > 1));
  CHECK((values.find(", rank 0" + print) != values.npos) == (mesh.size() > 1));

  CHECK(told(mesh, [&](bool other) {
          sw::llm::load_batch(
              mesh, Ones{}, sw::llm::BatchSampler(40, {.length = 4, .batch = 2, .seed = other ? 4u : 3u}), 0);
        }) == expected("load_batch", "seed 4", "seed 3"));

  CHECK(told(mesh, [&](bool other) {
          sw::llm::load_batch(mesh, Ones{}, sw::llm::BatchSampler(40, {.length = 4, .batch = 2}),
                              other ? 1 : 0);
        }) == expected("load_batch", "step 1", "step 0"));
  CHECK(told(mesh, [&](bool other) {
          if (other) return (void)sw::randn<float, Replicate>(mesh, {3}, 1);
          sw::initialize(mlp, 1);
        }) == expected("initialize", "randn", "initialize"));

  // Steps of other settings, and with gradients of other parameters: a rank alone forgets the first one.
  sw::initialize(mlp, 1);
  const auto x = sw::randn<float, Replicate>(mesh, {2, 4}, 1);
  const auto step = [&](sw::SgdUpdate settings, bool forgets, double decay_of_group = 0) {
    sw::SGD sgd(settings);
    sgd.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },
                  [&](sw::SgdUpdate& update) { update.weight_decay = decay_of_group; });
    sw::Tape tape;
    tape.backward(sw::mean(mlp(tape.constant(x))));
    if (forgets) sw::detail::parameters_of(mlp).front()->pending->clear();
    sgd.step(mlp);
  };
  CHECK(told(mesh, [&](bool other) { step({.rate = other ? 0.25 : 0.5}, false); }) ==
        expected("a step", "rate 0.25", "rate 0.5"));
  sw::clear_gradients(mlp);
  CHECK(told(mesh, [&](bool other) { step({.momentum = other ? 0.9 : 0.8}, false); }) ==
        expected("a step", "momentum 0.9", "momentum 0.8"));
  sw::clear_gradients(mlp);
  CHECK(told(mesh, [&](bool other) { step({}, false, other ? 0.5 : 0); }) ==
        expected("a step", "weight_decay of group 0 0.5", "weight_decay of group 0 0"));
  sw::clear_gradients(mlp);
  CHECK(told(mesh, [&](bool other) { step({}, other); }) ==
        expected("a step", "no gradient for parameter 0", "a gradient for parameter 0"));
  sw::clear_gradients(mlp);
  CHECK(told(mesh, [&](bool) { step({}, false); }) == "");
  sw::SGD listed({.momentum = 0.9});  // to list its state is no collective
  CHECK(told(mesh, [&](bool other) {
          if (other)
            listed.for_each_state(
                mlp, [](const auto&, const auto&) {}, [](const auto&, auto&) {});
        }) == "");
  CHECK(told(mesh, [&](bool other) { sw::clip_gradients(mlp, other ? 2 : 1); }) ==
        expected("clip_gradients", "max_norm 2", "max_norm 1"));
  CHECK(told(mesh, [&](bool other) { sw::dropout(x, 0.5, other ? 8 : 7); }) ==
        expected("dropout", "seed 8", "seed 7"));

  const auto same = [&](bool) {
    sw::initialize(mlp, 1);
    sw::distribute<Shard<0>>(mesh, {4, 2}, rows(4));
    sw::randn<float, Replicate>(mesh, {3}, 1);
  };
  CHECK(told(mesh, same) == "");
}

}  // namespace shardwise::testing::checked
