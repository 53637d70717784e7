// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Pipelines that hang
// thread: pytorch/pytorch #172668
// thread: NVIDIA/Megatron-LM #5100
// thread: pytorch/torchtitan #775
// there: Two ranks waited for each other: each wanted to complete its send before it received. In another case a schedule had fewer micro-batches than stages, for which it was not made.
// here: does not compile
/// A schedule is a value that is proved before use, here by the compiler: every rank reaches its
/// end, and every message is received. The library's own schedules take any number of micro-batches.
// expect: ScheduleError<Fault::ranks_wait_for_each_other, OnRank<0>, AtAction<3, Work::send_forward, OfStage<0>, OfMicroBatch<1>>, Meets<OnRank<1>, AtAction<3, Work::send_backward, OfStage<1>, OfMicroBatch<0>>>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/proved.hpp>
#include <string>

using namespace shardwise;

#ifdef SHOULD_FAIL
constexpr PipelineSchedule table() {
  return from_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}
#else
constexpr PipelineSchedule table() {
  return from_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

using Weight = Tensor<double, 1, Mesh<dp>, Replicate>;
struct Factor : Module<Factor> {
  Factor(int stage, const Mesh<dp>& mesh)
      : name("factor" + std::to_string(stage)), factor(mesh, {3}, Init::constant(2)) {}
  auto forward(const auto& x) const { return mul(x, factor); }
  void visit(auto&& f) { f(name.c_str(), factor); }
  std::string name;
  Parameter<Weight> factor;
};

TEST_CASE("one micro-batch goes through more stages") {
  const Mesh<pp, dp> job(world(), {any, 1});
  const Pipeline pipeline(job, one_forward_one_backward(job.size<pp>(), 1));
  auto stages = pipeline.stages([](int stage, const Mesh<dp>& mesh) { return Factor(stage, mesh); });
  initialize(stages, 1);
  const double loss = pipeline.run(
      stages, {3},
      [&](Tape& tape, Factor&, int) { return tape.input(full<double, Replicate>(pipeline.mesh(), {3}, 1.)); },
      [](Factor& part, const auto& x) { return part(x); },
      [](Factor&, const auto& x, int) { return sum(x); });
  CHECK(loss == 3 * std::pow(2, job.size<pp>()));
}
#endif
static_assert(Proved<table>::ranks == 2);
