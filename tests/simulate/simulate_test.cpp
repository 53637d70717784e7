// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Simulations: what they give, what they refuse, and that nothing depends on whose turn it is.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/simulate/simulate.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/reduce_gradients.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace sw = shardwise;
using sw::DataType;
using sw::dp;
using sw::Index;
using sw::ReduceOp;
using sw::tp;

namespace {

/// What a simulation says; nothing if it is content.
template <class F>
std::string said(int ranks, F f, const sw::SimulateOptions& options = {}) {
  try {
    sw::simulate(ranks, f, options);
  } catch (const sw::SimulationError& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }
void sum_over(const sw::Communicator& ranks) {
  float mine = 1, sum = 0;
  ranks.all_reduce(&mine, &sum, 1, DataType::f32, ReduceOp::sum);
}

}  // namespace

TEST_CASE("64 ranks on a mesh, with a host for each 8") {
  int seen = 0;
  sw::simulate(64,
               [&] {
                 const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, 8});
                 CHECK(mesh.size<dp>() == 8);
                 CHECK(mesh.within_host<tp>());
                 CHECK_FALSE(mesh.within_host<dp>());
                 CHECK(std::string(sw::world().transport()) == "simulation");
                 CHECK(sw::self().size() == 1);
                 seen += mesh.rank<tp>();
                 sum_over(mesh.communicator<tp>());
               },
               {.ranks_per_host = 8});
  CHECK(seen == 8 * 28);
}

TEST_CASE("a result is NaN until it is waited for") {
  sw::simulate(3, [] {
    float mine = 1, sum = 7;
    auto request = sw::world().all_reduce_async(&mine, &sum, 1, DataType::f32, ReduceOp::sum);
    CHECK(std::isnan(sum));
    request.wait();
    CHECK(sum == 3);
    auto other = sw::world().all_reduce_async(&mine, &sum, 1, DataType::f32, ReduceOp::sum);
    while (!other.test()) CHECK(std::isnan(sum));
    CHECK(sum == 3);
  });
}

TEST_CASE("it says who waits for whom, and where") {
  const std::string skipped = said(3, [] {
    if (sw::world().rank() != 1) sum_over(sw::world());
  });
  CHECK(has(skipped, "no rank can continue:\n  rank 0 waits in all_reduce of 1 f32 (sum) at "));
  CHECK(has(skipped, "simulate_test.cpp:"));
  CHECK(has(skipped, "for rank 1\n  rank 1 has come to its end\n"));
  CHECK(has(skipped, "(seed 0)"));

  const std::string crossed = said(2, [] {
    const sw::Mesh<tp> mesh(sw::world(), {2});
    if (mesh.rank() == 0) mesh.communicator<tp>().barrier();
    if (mesh.rank() == 1) sum_over(mesh.communicator<tp>());
  });
  CHECK(has(crossed, "ranks differ in their collective"));
  CHECK(has(crossed, "barrier over tp at "));
  CHECK(has(crossed, "all_reduce of 1 f32 (sum) over tp at "));

  const std::string late = said(2,
                                [] {
                                  sw::world().subgroup(std::vector<int>{0, 1});
                                },
                                {.faults = {{1, 0, true}}});
  CHECK(has(late, "rank 0 waits in barrier over ranks 0 1, to make their communicator"));
  CHECK(has(late, "rank 1 died in its call 0, barrier"));
}

TEST_CASE("faults happen where they are asked for, and are told") {
  const auto sums = [] {
    for (int i = 0; i < 5; ++i) sum_over(sw::world());
  };
  CHECK(said(3, sums) == "");
  CHECK(said(3, sums, {.seed = 4, .faults = {{2, 3}}}).find("rank 2 of 3: all_reduce: ") == 0);
  CHECK(has(said(3, sums, {.faults = {{2, 3, true}}}), "rank 2 died in its call 3, all_reduce"));
  CHECK(said(3, [] { throw std::runtime_error("no luck"); }, {}) != "");
  // Who waits for it is told, and not stuck; what it throws itself is what counts.
  CHECK(said(2, [] {
          if (sw::world().rank() == 1) throw std::runtime_error("no luck");
          sum_over(sw::world());
        }) == "rank 1 of 2: no luck (seed 0)");
}

TEST_CASE("a death is told although nobody needs the dead; so is a fault that never comes") {
  const auto catches = [] {
    try {
      sum_over(sw::world());
    } catch (...) {
      sum_over(sw::world());  // it is dead
    }
  };
  CHECK(has(said(1, catches, {.faults = {{0, 0, true}}}), "rank 0 died in its call 0, all_reduce"));
  CHECK(has(said(2, catches, {.faults = {{1, 0, true}}}), "rank 1 died in its call 0, all_reduce"));
  CHECK(has(said(2, catches, {.faults = {{1, 7}}}),
            "the fault of rank 1 at its call 7 never came: it makes 1"));
}

TEST_CASE("who asks for ever is told; who communicates while it unwinds does not end the program") {
  CHECK(has(said(2,
                 [] {
                   if (sw::world().rank() == 1) return;
                   float mine = 1, sum = 0;
                   auto request = sw::world().all_reduce_async(&mine, &sum, 1, DataType::f32, ReduceOp::sum);
                   while (!request.test()) {
                   }
                 }),
            "rank 0 tests all_reduce_async of 1 f32 (sum)"));
  struct Barrier {
    ~Barrier() { sw::world().barrier(); }
  };
  CHECK(has(said(2,
                 [] {
                   const Barrier barrier;
                   if (sw::world().rank() == 1) throw std::runtime_error("no luck");
                   sum_over(sw::world());
                 }),
            "differ"));
}

TEST_CASE("what outlives its simulation is an error, and one in the background is none of the others") {
  static std::vector<sw::Communicator> kept;
  sw::simulate(2, [] { kept.push_back(sw::world()); });
  CHECK_THROWS_WITH_AS(kept.front().barrier(), doctest::Contains("its simulation is over"), std::logic_error);
  CHECK(has(said(2,
                 [] {
                   float mine = 1, sum = 0;
                   if (sw::world().rank() == 1) return sum_over(sw::world());
                   sw::world().all_reduce_async(&mine, &sum, 1, DataType::f32, ReduceOp::sum).wait();
                 }),
            "all_reduce_async"));
}

TEST_CASE("what is left over is told") {
  static std::vector<sw::Request> kept;
  CHECK(has(said(2,
                 [] {
                   static float mine = 1, sums[2];
                   kept.push_back(sw::world().all_reduce_async(&mine, &sums[sw::world().rank()], 1,
                                                               DataType::f32, ReduceOp::sum));
                   // Nobody may wait for it later: its simulation is over.
                   new sw::Request(std::move(kept.back()));
                   kept.clear();
                 }),
            "never waited for all_reduce_async of 1 f32 (sum)"));
  int lost = 0, stuck = 0;  // MPI may keep a message, or not
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string words = said(2,
                                   [] {
                                     if (sw::world().rank() == 1) return;
                                     static float data = 1;
                                     auto list = std::make_shared<sw::detail::MessageList>();
                                     list->push_back({1, &data, 1, 0, false});
                                     sw::world().send_and_receive(list, DataType::f32).wait();
                                   },
                                   {.seed = seed});
    lost += has(words, "a message from rank 0 to rank 1 was never received; it was sent at ") ? 1 : 0;
    stuck += has(words, "rank 0 waits in the sending of 1 f32 to rank 1") ? 1 : 0;
  }
  CHECK((lost > 0 && stuck > 0 && lost + stuck == 20));
}

TEST_CASE("what cannot be simulated is refused") {
  CHECK_THROWS_WITH_AS(sw::simulate(0, [] {}), doctest::Contains("0 ranks; expected at least 1"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::simulate(2, [] {}, {.faults = {{2, 0}}}),
                       doctest::Contains("a fault of rank 2 of 2, at its call 0"), std::invalid_argument);
  CHECK(has(said(1, [] { sw::simulate(1, [] {}); }), "this is a rank of a simulation already"));
}

namespace {

using Job = sw::Mesh<dp, tp>;

/// Layers split over tp, their gradients and the optimizer's state over dp.
struct Net : sw::Module<Net> {
  sw::Linear<Job, sw::Styles<sw::ColwiseParallel<tp>, sw::Zero<2, dp>>> up;
  sw::Linear<Job, sw::Styles<sw::RowwiseParallel<tp>, sw::Zero<2, dp>>> down;

  explicit Net(const Job& mesh) : up(mesh, 6, 10), down(mesh, 10, 6) {}
  auto forward(const auto& x) const { return down(sw::relu(up(x))); }
  void visit(auto&& f) { f("up", up), f("down", down); }
};

/// This rank's weights after two steps.
std::vector<float> trained() {
  const Job mesh(sw::world(), {2, 2});
  Net net(mesh);
  sw::initialize(net, 1);
  sw::AdamW adamw({.rate = 0.01});
  for (int step = 0; step < 2; ++step) {
    const auto x = sw::randn<float, sw::Shard<0>, sw::Replicate>(mesh, {7, 6}, 2);
    sw::Tape tape;
    const auto error = sw::sub(net(tape.constant(x)), tape.constant(x));
    const auto loss = sw::redistribute<dp, sw::Replicate>(sw::mean(sw::mul(error, error)));
    sw::backward_and_reduce(loss, net);
    adamw.step(net);
  }
  std::vector<float> weights;
  for (const auto* weight : {&net.up.weight.value().buffer(), &net.down.weight.value().buffer()}) {
    const auto* values = static_cast<const float*>((*weight)->data);
    weights.insert(weights.end(), values, values + (*weight)->bytes / 4);
  }
  return weights;
}

}  // namespace

TEST_CASE("a training step has the same bits with 1,000 seeds") {
  std::vector<std::vector<float>> first(4);
  int different = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    sw::simulate(4,
                 [&] {
                   auto weights = trained();
                   auto& expected = first[static_cast<std::size_t>(sw::world().rank())];
                   if (seed == 0) expected = weights;
                   different += weights == expected ? 0 : 1;
                 },
                 {.seed = seed, .ranks_per_host = 2});
  }
  CHECK(different == 0);
  CHECK(first[0] != first[1]);
  CHECK(first[0].size() > 20);
}
