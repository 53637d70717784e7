// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Bits that the test flips, in copies and within steps, and who is named.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/same_bits.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/shardwise.hpp>

#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;

namespace {

using Grid = sw::Mesh<dp, tp>;
using Plan = sw::Plan<sw::Use<"up", sw::ColwiseParallel<tp>>, sw::Use<"down", sw::RowwiseParallel<tp>>>;
using Cut = sw::PlanWith<Plan, sw::Zero<1, dp>>;

template <class P>
struct Mlp : sw::Module<Mlp<P>> {
  explicit Mlp(const Grid& mesh) : up(mesh, 12, 20), down(mesh, 20, 12) {}
  auto forward(const auto& x) const { return down(sw::gelu(up(x))); }
  void visit(auto&& f) { f("up", up), f("down", down); }
  sw::Linear<Grid, sw::style_of<P, "up">> up;
  sw::Linear<Grid, sw::style_of<P, "down">> down;
};

Grid grid() {
  const int size = sw::world().size();
  return size == 4 ? Grid(sw::world(), {2, 2}) : Grid(sw::world(), {size, 1});
}
void flip(void* number) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, number, 4);
  bits ^= 1u << 12;
  std::memcpy(number, &bits, 4);
}

enum class Where { nowhere, activation, gradient, parameter, state };

template <class P>
struct Run {
  explicit Run(const Grid& on) : mesh(on), model(on), contents(on) {
    sw::initialize(model, 3);
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
    contents.add("steps", steps);
  }
  /// A step, in which one rank flips a bit.
  void step(Where where = Where::nowhere, int who = 0) {
    const bool flips = sw::world().rank() == who;
    auto x = sw::randn<float, sw::Shard<0>, sw::Replicate>(mesh, {8, 12}, static_cast<std::uint64_t>(steps));
    if (flips && where == Where::activation) flip(x.writable().data);
    sw::Tape tape;
    const auto in = tape.constant(x);
    auto loss = sw::mse_loss(model(in), in);
    tape.backward(loss);
    if (flips && where == Where::gradient) flip(model.up.weight.cell()->pending->sum()->data);
    sw::reduce_gradients(model);
    adamw.step(model);
    if (flips && where == Where::parameter) flip(model.down.weight.writable().data);
    if (flips && where == Where::state) {
      const auto& block = contents.blocks().at(5);
      CHECK(block.name.starts_with("optimizer"));
      flip(block.now().buffer->data);
    }
    ++steps;
  }

  Grid mesh;
  Mlp<P> model;
  sw::AdamW adamw{{.rate = 1e-2}};
  std::int64_t steps = 0;
  sw::CheckpointContents contents;
};

template <class P>
std::uint64_t bits(const Run<P>& run) {
  sw::Fingerprint all;
  for (const auto& block : run.contents.blocks()) {
    const auto x = sw::detail::finished(block);
    all.add(
        {static_cast<const char*>(x.buffer->data), static_cast<std::size_t>(sw::detail::bytes_of_block(x))});
  }
  return all.value();
}

}  // namespace

TEST_CASE_TEMPLATE("a step that is made twice ends as one that is made once", P, Plan, Cut) {
  Run<P> once(grid()), twice(grid());
  for (int i = 0; i < 3; ++i) {
    once.step();
    int tries = 0;
    CHECK(!sw::repeat_step(twice.contents, [&] { twice.step(), ++tries; }));
    CHECK(tries == 2);
    CHECK(bits(once) == bits(twice));
    CHECK(once.steps == twice.steps);
  }
}

TEST_CASE_TEMPLATE("a flipped bit is found, its rank is named, and the step is right", P, Plan, Cut) {
  const int all = sw::world().size();
  for (const Where where : {Where::activation, Where::gradient, Where::parameter, Where::state}) {
    for (int who = 0; who < all; ++who) {
      for (const int bad : {0, 1}) {
        Run<P> once(grid()), twice(grid());
        once.step(), twice.step();
        once.step();
        int tries = 0;
        const auto found = sw::repeat_step(twice.contents,
                                           [&] { twice.step(tries++ == bad ? where : Where::nowhere, who); });
        CAPTURE(static_cast<int>(where));
        CAPTURE(who);
        REQUIRE(found);
        CHECK(tries == 3);
        CHECK(found->ranks == std::vector<int>{who});
        CHECK(found->repaired);
        CHECK(found->text.starts_with(all == 1 ? "rank 0: " : "rank " + std::to_string(who) + ": "));
        CHECK(bits(once) == bits(twice));
      }
    }
  }
}

TEST_CASE("a step whose bits never repeat") {
  Run<Plan> run(grid());
  run.step();
  int tries = 0;
  const auto found = sw::repeat_step(run.contents, [&] {
    run.step();
    for (int i = 0; i < tries; ++i)
      flip(static_cast<float*>(run.contents.blocks()[0].now().buffer->data) + i);
    ++tries;
  });
  REQUIRE(found);
  CHECK(!found->repaired);
  CHECK(found->text.find(" at the end differs between two runs") != std::string::npos);
  CHECK(found->text.find("a third run has other bits again") != std::string::npos);
}

TEST_CASE("copies that differ") {
  const int all = sw::world().size();
  const Grid mesh = grid();
  Run<Plan> run(mesh);
  run.step();
  CHECK_NOTHROW(sw::compare_copies(run.contents));
  for (int who = 0; who < all; ++who) {
    Run<Plan> other(mesh);
    other.step();
    if (sw::world().rank() == who) flip(other.model.down.weight.writable().data);
    const std::string error = error_of([&] { sw::compare_copies(other.contents); });
    if (all == 1) {
      CHECK(error == "no error");
    } else {
      CHECK(error.find("\"model.down.weight\": the copies of rank") != std::string::npos);
      if (all == 3) {
        std::string rest;
        for (int r = 0; r < all; ++r)
          if (r != who) rest += (rest.empty() ? " " : ", ") + std::to_string(r);
        CHECK(error.find("the copies of rank " + std::to_string(who) + " and ranks" + rest +
                         " have different bits") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a first step that sets something up") {
  Run<Plan> once(grid()), twice(grid());
  once.step(), once.step();
  twice.step();
  bool first = true;
  CHECK(!sw::repeat_step(twice.contents, [&] {
    if (std::exchange(first, false)) sw::world().barrier();
    twice.step();
  }));
  CHECK(bits(once) == bits(twice));
}
