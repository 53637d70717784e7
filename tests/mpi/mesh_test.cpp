// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Meshes: where each rank stands, which ranks a communicator joins, what sizes are refused, and recordings.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/redistribute.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

namespace sw = shardwise;
using sw::any;
using sw::dp;
using sw::pp;
using sw::tp;

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

namespace {

// The world ranks of a communicator's members, in its order.
std::vector<int> members(const sw::Communicator& group) {
  const auto n = static_cast<std::size_t>(group.size());
  const int mine = sw::world().rank();
  std::vector<int> ranks(n);
  std::vector<sw::Index> counts(n, 1), offsets(n);
  for (std::size_t r = 0; r < n; ++r) offsets[r] = static_cast<sw::Index>(r);
  group.all_gather(&mine, ranks.data(), counts, offsets, sw::DataType::i32);
  return ranks;
}

template <class MeshType, std::size_t Axes>
std::string refusal(const std::array<int, Axes>& sizes) {
  try {
    MeshType mesh(sw::world(), sizes);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// How many communicators MPI was asked to make.
int communicators_made = 0;

}  // namespace

extern "C" {
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  ++communicators_made;
  return PMPI_Comm_create_group(comm, group, tag, made);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++communicators_made;
  return PMPI_Comm_dup(comm, made);
}
}

TEST_CASE("a mesh without ranks") {
  const sw::Mesh<dp, tp> none;
  CHECK_THROWS_WITH_AS(none.size<tp>(),
                       "a mesh that was made without ranks, as by Mesh(), or is that of an empty tensor",
                       std::logic_error);
  CHECK_THROWS_WITH_AS(none.communicator(), doctest::Contains("made without ranks"), std::logic_error);
  CHECK_THROWS_WITH_AS((sw::zeros<float, sw::Shard<0>, sw::Replicate>(none, sw::Shape<1>{4})),
                       doctest::Contains("made without ranks"), std::logic_error);
  CHECK(none == sw::Mesh<dp, tp>());
}

TEST_CASE("the last axis varies fastest") {
  const int ranks = sw::world().size(), mine = sw::world().rank();
  for (int outer = 1; outer <= ranks; ++outer) {
    if (ranks % outer != 0) continue;
    const int inner = ranks / outer;
    sw::Mesh<dp, tp> mesh(sw::world(), {outer, inner});
    CHECK(mesh.size() == ranks);
    CHECK(mesh.rank() == mine);
    CHECK(mesh.size<dp>() == outer);
    CHECK(mesh.size<tp>() == inner);
    CHECK(mesh.rank<dp>() == mine / inner);
    CHECK(mesh.rank<tp>() == mine % inner);
    CHECK(mesh.coordinates()[0] == mine / inner);
    CHECK(mesh.coordinates()[1] == mine % inner);
    CHECK(mesh.sizes() == sw::MeshSizes{outer, inner, 1, 1, 1, 1});

    std::vector<int> along_dp, along_tp, all;
    for (int i = 0; i < outer; ++i) along_dp.push_back(i * inner + mine % inner);
    for (int i = 0; i < inner; ++i) along_tp.push_back(mine / inner * inner + i);
    for (int i = 0; i < ranks; ++i) all.push_back(i);
    CHECK(members(mesh.communicator<dp>()) == along_dp);
    CHECK(members(mesh.communicator<tp>()) == along_tp);
    CHECK(members(mesh.communicator<dp, tp>()) == all);
    CHECK(members(mesh.communicator<tp, dp>()) == all);  // a set: the mesh's order, not the caller's
  }
}

TEST_CASE("`any` is whatever makes the sizes fit") {
  const int ranks = sw::world().size();
  CHECK(sw::Mesh<tp>(sw::world(), {any}).size<tp>() == ranks);
  sw::Mesh<dp, tp> rows(sw::world(), {any, 1});
  CHECK(rows.size<dp>() == ranks);
  CHECK(rows.size<tp>() == 1);
  sw::Mesh<dp, tp> columns(sw::world(), {1, any});
  CHECK(columns.size<dp>() == 1);
  CHECK(columns.size<tp>() == ranks);
  if (ranks % 2 == 0) CHECK(sw::Mesh<dp, tp>(sw::world(), {any, 2}).size<dp>() == ranks / 2);
}

TEST_CASE("sizes that do not fit are refused with both numbers") {
  const std::string ranks = std::to_string(sw::world().size());
  CHECK(refusal<sw::Mesh<dp, tp>>(std::array{5, 7}) ==
        "Mesh: dp 5 x tp 7 is 35 ranks, but the job has " + ranks);
  CHECK(refusal<sw::Mesh<tp>>(std::array{6}) == "Mesh: tp 6 is 6 ranks, but the job has " + ranks);
  CHECK(refusal<sw::Mesh<dp, tp>>(std::array{any, 65}) ==
        "Mesh: dp any x tp 65 needs a multiple of 65 ranks, but the job has " + ranks);
  CHECK(refusal<sw::Mesh<dp, tp>>(std::array{any, any}).find("only one size can be `any`") !=
        std::string::npos);
  CHECK(refusal<sw::Mesh<dp, tp>>(std::array{0, 1}).find("at least 1, in dp 0") != std::string::npos);
  CHECK(refusal<sw::Mesh<dp, tp>>(std::array{1, -2}).find("at least 1, in dp 1 x tp -2") !=
        std::string::npos);
  if (sw::world().size() > 1) {
    CHECK(refusal<sw::Mesh<tp>>(std::array{1}) == "Mesh: tp 1 is 1 ranks, but the job has " + ranks);
  }
  // A product beyond an int is not wrapped into one that fits.
  const std::string huge = refusal<sw::Mesh<dp, tp>>(std::array{1 << 16, 1 << 16});
  CHECK(huge.find("Mesh: dp 65536 x tp 65536 is 4294967296 ranks") == 0);
}

TEST_CASE("ranks that want different meshes") {
  const int ranks = sw::world().size(), me = sw::world().rank();
  if (ranks == 1) return;
  const std::string all = std::to_string(ranks);
  using Grid = sw::Mesh<dp, tp>;
  CHECK(refusal<Grid>(me == 1 ? std::array{ranks, 1} : std::array{1, ranks}) ==
        "Mesh: rank 1: dp " + all + " x tp 1, rank 0: dp 1 x tp " + all);
  CHECK(refusal<Grid>(me == 1 ? std::array{0, 1} : std::array{any, 1}) ==
        "Mesh: rank 1: dp 0 x tp 1, rank 0: dp any x tp 1");
  const std::string axes =
      me == 0 ? refusal<Grid>(std::array{1, ranks}) : refusal<sw::Mesh<tp, dp>>(std::array{1, ranks});
  CHECK(axes == "Mesh: rank 1: tp 1 x dp " + all + ", rank 0: dp 1 x tp " + all);
}

TEST_CASE("what all ranks must have alike") {
  const auto ranks = sw::world();
  if (ranks.size() == 1) return;
  const int me = ranks.rank(), last = ranks.size() - 1;
  const auto problem = [&](const std::vector<sw::NamedText>& mine) -> std::string {
    try {
      sw::require_same(ranks, mine, "settings differ");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(problem({}) == "none");
  CHECK(problem({{"seed", "1"}, {"text", ""}}) == "none");
  const std::string at = "settings differ: rank " + std::to_string(last) + ": ";
  const bool odd = me == last;
  CHECK(problem({{"steps", "3"}, {"seed", odd ? "2" : "1"}}) == at + "seed 2, rank 0: seed 1");
  std::vector<sw::NamedText> mine{{"steps", "3"}};
  if (odd) mine.push_back({"--save", "runs"});
  CHECK(problem(mine) == at + "--save runs, rank 0: no --save");
  mine.insert(mine.begin(), {odd ? "--tied" : "--pad", ""});
  CHECK(problem(mine) == at + "--tied, rank 0: --pad");
  mine = {{"--sp", ""}, {"--tp", "2"}};
  if (odd) mine.erase(mine.begin());
  CHECK(problem(mine) == at + "no --sp, rank 0: --sp");
  mine = {{"", "a line"}, {"", "another"}};
  if (odd) mine.pop_back();
  CHECK(problem(mine) == at + "no another, rank 0: another");
  CHECK(problem(odd ? std::vector<sw::NamedText>{} : mine) == at + "no a line, rank 0: a line");
  if (last > 1) {  // the first is named
    CHECK(problem({{"seed", std::to_string(me)}}) == "settings differ: rank 1: seed 1, rank 0: seed 0");
  }

  const auto arguments = [&](std::vector<const char*> argv) -> std::string {
    try {
      sw::require_same(ranks, static_cast<int>(argv.size()), argv.data());
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(arguments({odd ? "./a.out" : "/opt/bin/a.out", "docs", "--seed", "1"}) == "none");
  const std::string programs = "programs differ: rank " + std::to_string(last) + ": ";
  CHECK(arguments({"a.out", "docs", "--shape", "2", odd ? "4" : "3", "--tied"}) ==
        programs + "--shape 2 4, rank 0: --shape 2 3");
  const auto seeds = odd ? std::vector{"a.out", "docs", "--tied", "--seed=1"}
                         : std::vector{"a.out", "docs", "--seed", "1", "--tied"};
  CHECK(arguments(seeds) == "none");
  CHECK(arguments(odd ? std::vector{"a.out", "--tied", "--seed=2"}
                      : std::vector{"a.out", "--seed=1", "--tied"}) ==
        programs + "--seed 2, rank 0: --seed 1");
  CHECK(arguments(odd ? std::vector{"a.out", "--in=b", "--in", "c"}
                      : std::vector{"a.out", "--in", "c", "--in=b"}) == programs + "--in b, rank 0: --in c");
  CHECK(arguments({odd ? "b.out" : "a.out"}) == programs + "program b.out, rank 0: program a.out");
}

TEST_CASE("a mesh of one rank, on any job") {
  sw::Mesh<dp, tp> mesh(sw::self(), {1, 1});
  CHECK(mesh.size() == 1);
  CHECK(mesh.rank() == 0);
  CHECK(members(mesh.communicator<dp, tp>()) == std::vector<int>{sw::world().rank()});
}

TEST_CASE("a mesh from somebody else's communicator" * doctest::test_suite("MPI")) {
  const int ranks = sw::world().size(), mine = sw::world().rank();
  MPI_Comm theirs = MPI_COMM_NULL;
  CHECK_THROWS_AS(sw::Communicator::duplicate(theirs), std::invalid_argument);
  MPI_Comm_split(MPI_COMM_WORLD, mine % 2, -mine, &theirs);  // evens and odds, backwards
  sw::Mesh<tp> mesh(sw::Communicator::duplicate(theirs), {any});
  MPI_Comm_free(&theirs);  // ours is a copy
  std::vector<int> expected;
  for (int r = ranks - 1; r >= 0; --r) {
    if (r % 2 == mine % 2) expected.push_back(r);
  }
  CHECK(mesh.size<tp>() == static_cast<int>(expected.size()));
  CHECK(members(mesh.communicator<tp>()) == expected);
  CHECK(expected[static_cast<std::size_t>(mesh.rank<tp>())] == mine);
}

TEST_CASE("communicators are made when they are needed, by their members only") {
  if (sw::world().size() != 4) return;
  communicators_made = 0;
  sw::Mesh<dp, pp, tp> mesh(sw::world(), {2, 1, 2});
  const int for_the_axes = communicators_made;
  CHECK(for_the_axes == 3);  // one for each axis, no joint ones
  auto copy = mesh;
  CHECK(copy == mesh);
  CHECK(communicators_made == for_the_axes);

  // Only the first row of the mesh asks for the joint group of pp and tp; nobody waits for the other row.
  if (mesh.rank<dp>() == 0) {
    CHECK(members(mesh.communicator<pp, tp>()) == std::vector<int>{0, 1});
    CHECK(communicators_made == for_the_axes + 1);
    copy.communicator<pp, tp>();  // copies are the same mesh
    CHECK(communicators_made == for_the_axes + 1);
  }
  const int before = communicators_made;
  CHECK(mesh.communicator<dp, pp, tp>().size() == 4);  // all ranks: the communicator that is there
  CHECK(mesh.communicator<dp, tp>().size() == 4);
  CHECK(communicators_made == before);
}

TEST_CASE("sub-meshes") {
  const int ranks = sw::world().size(), mine = sw::world().rank();
  sw::Mesh<dp, pp, tp> mesh(sw::world(), {1, any, 1});
  auto row = mesh.submesh<pp>();
  CHECK(row.size<pp>() == ranks);
  CHECK(row.rank<pp>() == mine);
  if (ranks != 4) return;
  sw::Mesh<dp, pp, tp> cube(sw::world(), {2, 1, 2});
  communicators_made = 0;
  auto plane = cube.submesh<dp, pp>();
  CHECK(communicators_made == 0);  // it has those of the cube
  CHECK(plane.size() == 2);
  CHECK(plane.size<dp>() == 2);
  CHECK(plane.rank<dp>() == cube.rank<dp>());
  CHECK(members(plane.communicator<dp>()) == std::vector<int>{mine % 2, mine % 2 + 2});
  CHECK(plane.ranks() == sw::MeshRanks<dp, pp>(mine % 2, {2, 1}, {2, 2}));
  CHECK(cube.submesh_ranks<dp, pp>(cube.at<tp>(1)) == sw::MeshRanks<dp, pp>(1, {2, 1}, {2, 2}));
  auto line = cube.submesh<tp>();
  CHECK(line.rank() == cube.rank<tp>());
  CHECK(members(line.communicator<tp>()) == std::vector<int>{mine / 2 * 2, mine / 2 * 2 + 1});
  CHECK(communicators_made == 0);
  auto columns = cube.submesh<tp, dp>();  // in another order
  CHECK(members(columns.communicator<tp, dp>()) == std::vector<int>{0, 2, 1, 3});
  CHECK(columns.submesh<dp>().ranks() == sw::MeshRanks<dp>(mine % 2, {2}, {2}));  // a part of the same job
  auto crossed = cube.part(sw::MeshRanks<replica, tp>(3, {2, 2}, {-2, -1}));
  CHECK(members(crossed.communicator<replica, tp>()) == std::vector<int>{3, 2, 1, 0});
  CHECK(crossed.rank<tp>() == 1 - mine % 2);
  CHECK(members(crossed.communicator<tp>()) == std::vector<int>{mine / 2 * 2 + 1, mine / 2 * 2});
}

TEST_CASE("what runs on a sub-mesh is recorded with its job, by the job's axes") {
  const int ranks = sw::world().size();
  if (ranks % 2 != 0) return;
  sw::Mesh<pp, dp, tp> job(sw::world(), {1, 2, ranks / 2});
  auto step = [](const auto& mesh) {
    auto stage = mesh.template submesh<dp, tp>();
    auto x = sw::zeros<float, sw::Shard<0>, sw::Shard<1>>(stage, {6, 8});
    sw::redistribute<tp, sw::Replicate>(x);
    sw::redistribute<dp, sw::Replicate>(x);
    sw::redistribute<sw::Replicate, sw::Replicate>(x);
    auto turned = sw::zeros<float, sw::Shard<0>, sw::Replicate>(mesh.template submesh<tp, dp>(), {6, 8});
    sw::redistribute<tp, sw::Replicate>(turned);
  };
  sw::Recording recording(job);
  step(job);
  const auto planned =
      sw::trace<sw::Mesh<pp, dp, tp>>({1, 2, ranks / 2}, step, {0, job.rank<dp>(), job.rank<tp>()});
  CHECK(recording.plan() == planned);
  CHECK(planned.count<dp>(sw::Collective::all_gather) == 2);
  CHECK(planned.count<tp>(sw::Collective::all_gather) == (ranks > 2 ? 3 : 0));
  CHECK(planned.count<pp>(sw::Collective::all_gather) == 0);
  auto stage = job.submesh<dp, tp>();
  {
    sw::Recording own(stage);  // its own, by its own axes
    sw::redistribute<dp, sw::Replicate>(sw::zeros<float, sw::Shard<0>, sw::Shard<1>>(stage, {6, 8}));
    CHECK(own.plan().count<dp>(sw::Collective::all_gather) == 1);
  }
  CHECK(recording.plan().collectives() == planned.collectives());
}

TEST_CASE("parts of a dry mesh") {
  sw::Recorder recorder;
  sw::Mesh<pp, dp, tp> job(recorder, {2, 2, 4}, {1, 0, 3});
  auto stage = job.submesh<dp, tp>();
  CHECK(stage.size() == 8);
  CHECK(stage.size<tp>() == 4);
  CHECK(stage.rank<tp>() == 3);
  CHECK(stage.ranks() == sw::MeshRanks<dp, tp>(8, {2, 4}));
  CHECK_FALSE(stage == job.submesh<dp, tp>());  // as of a real mesh
  CHECK_FALSE(sw::MeshView(stage) == sw::MeshView(job));
  CHECK_THROWS_WITH_AS((job.part(sw::MeshRanks<tp>(0, {8}))),
                       "part: rank 11 of the job is not on the mesh; only its ranks may ask for it",
                       std::invalid_argument);
}

TEST_CASE("four axes, one of them the user's own") {
  const int ranks = sw::world().size(), mine = sw::world().rank();
  const int two = ranks == 4 ? 2 : 1;
  sw::Mesh<replica, dp, pp, tp> mesh(sw::world(), {two, 1, any, 1});
  CHECK(mesh.size<replica>() == two);
  CHECK(mesh.size<pp>() == ranks / two);
  CHECK(mesh.rank<replica>() == mine / (ranks / two));
  CHECK(mesh.rank<pp>() == mine % (ranks / two));
  CHECK(mesh.rank<dp>() == 0);
  CHECK(mesh.communicator<replica, pp>().size() == ranks);
  CHECK(refusal<sw::Mesh<replica, tp>>(std::array{3, 3}).find("replica 3 x tp 3 is 9 ranks") !=
        std::string::npos);
}

TEST_CASE("a recording counts while it lives") {
  sw::Mesh<tp> mesh(sw::world(), {any}), other(sw::world(), {any});
  CHECK(mesh.recorder() == nullptr);
  {
    sw::Recording recording(mesh);
    REQUIRE(mesh.recorder() != nullptr);
    CHECK(other.recorder() == nullptr);
    mesh.recorder()->communicate(sw::Collective::all_gather, 1, 24);
    mesh.recorder()->compute(10);
    mesh.recorder()->allocate(sw::MemoryUse::activation, 64);
    auto plan = recording.plan();
    CHECK(plan.count(sw::Collective::all_gather) == 1);
    CHECK(plan.count<tp>(sw::Collective::all_gather) == 1);
    CHECK(plan.bytes<tp>() == 24);
    CHECK(plan.flops() == 10);
    CHECK(plan.peak_activation_bytes() == 64);
    CHECK(plan.sizes() == mesh.sizes());
    CHECK_THROWS_WITH_AS(sw::Recording{mesh}, "Recording: this mesh is being recorded already",
                         std::logic_error);
    CHECK(mesh.recorder() != nullptr);  // the refused one has not ended this one
    sw::Recording elsewhere(other);
    CHECK(other.recorder() != nullptr);
  }
  CHECK(mesh.recorder() == nullptr);
  sw::Recording again(mesh);
  CHECK(again.plan().collectives() == 0);
  CHECK(again.plan().flops() == 0);
  CHECK(again.plan().peak_activation_bytes() == 0);
}

TEST_CASE("a recording starts in the forward phase, whatever was left behind") {
  sw::Mesh<tp> mesh(sw::world(), {any});
  sw::Recording recording(mesh);
  {
    sw::PhaseScope backward(mesh.recorder(), sw::Phase::backward);
    mesh.recorder()->communicate(sw::Collective::all_reduce, 1, 4);
    sw::PhaseScope optimizer(mesh.recorder(), sw::Phase::optimizer);
    mesh.recorder()->communicate(sw::Collective::all_reduce, 1, 8);
  }
  mesh.recorder()->communicate(sw::Collective::all_reduce, 1, 2);
  CHECK(recording.plan().bytes(sw::Phase::backward) == 4);
  CHECK(recording.plan().bytes(sw::Phase::optimizer) == 8);
  CHECK(recording.plan().bytes(sw::Phase::forward) == 2);
}

TEST_CASE("a recording that is restarted knows of the memory in use") {
  sw::Mesh<tp> mesh(sw::world(), {any});
  sw::Recording recording(mesh);
  const unsigned epoch = mesh.recorder()->allocate(sw::MemoryUse::parameter, 64);
  mesh.recorder()->allocate(sw::MemoryUse::activation, 32);
  mesh.recorder()->release(sw::MemoryUse::activation, 32, epoch);
  mesh.recorder()->communicate(sw::Collective::all_reduce, 1, 4);
  mesh.recorder()->compute(10);
  const auto empty_sequence = sw::Record{}.sequence;
  CHECK(recording.plan().record().sequence != empty_sequence);
  recording.restart();
  CHECK(recording.plan().collectives() == 0);
  CHECK(recording.plan().flops() == 0);
  CHECK(recording.plan().record().sequence == empty_sequence);
  CHECK(recording.plan().parameter_bytes() == 64);
  CHECK(recording.plan().peak_activation_bytes() == 0);
  mesh.recorder()->release(sw::MemoryUse::parameter, 64, epoch);
  mesh.recorder()->allocate(sw::MemoryUse::parameter, 16);
  CHECK(recording.plan().parameter_bytes() == 64);
}

TEST_CASE("a dry mesh stands where it is told to") {
  sw::Recorder recorder;
  sw::Mesh<dp, tp> mesh(recorder, {3, 5}, {2, 4});
  CHECK(mesh.size() == 15);
  CHECK(mesh.size<tp>() == 5);
  CHECK(mesh.rank<dp>() == 2);
  CHECK(mesh.rank<tp>() == 4);
  CHECK_THROWS_AS((sw::Mesh<dp, tp>(recorder, {0, 1})), std::invalid_argument);
  CHECK_THROWS_AS((sw::Mesh<dp, tp>(recorder, {3, 5}, {3, 0})), std::invalid_argument);
  CHECK_THROWS_AS((sw::Mesh<dp, tp>(recorder, {3, 5}, {0, -1})), std::invalid_argument);
}

TEST_CASE("what a dry mesh has not is an error that says so") {
  sw::Recorder recorder;
  const sw::Mesh<dp, tp> mesh(recorder, {3, 5}, {2, 4});
  CHECK(mesh.dry());
  CHECK_FALSE(sw::Mesh<tp>(sw::world(), {any}).dry());
  CHECK_THROWS_WITH_AS(mesh.communicator<tp>(),
                       "communicator: the mesh is dry, it has sizes and no processes", std::logic_error);
  const std::vector<float> ones(std::size_t{6 * 10}, 1);
  const auto x = sw::distribute<sw::Shard<0>, sw::Shard<1>>(mesh, sw::Shape<2>{6, 10}, ones);
  CHECK(x.local_shape() == sw::Shape<2>{2, 2});
  CHECK(recorder.record().all_memory.live == 2 * 2 * 4);
  const std::string none =
      "elements are asked of a tensor on a dry mesh, which has none: its size alone is counted";
  CHECK_THROWS_WITH_AS(x.local(), none.c_str(), std::logic_error);
  CHECK_THROWS_WITH_AS(sw::item(sw::zeros<float, sw::Replicate, sw::Replicate>(mesh, sw::Shape<0>{})),
                       none.c_str(), std::logic_error);
  CHECK_THROWS_AS((sw::distribute<sw::Shard<0>, sw::Replicate>(mesh, sw::Shape<2>{6, 11}, ones)),
                  std::invalid_argument);
}

TEST_CASE("a mesh on hosts: the plan knows what goes across") {
  const int rank = sw::world().rank(), size = sw::world().size();
  const auto ranks = sw::world().on_hosts(rank % 2).by_host();  // as if dealt out to two hosts
  if (size % 2 != 0) return;
  sw::Mesh<dp, tp> mesh(ranks, {2, size / 2});
  CHECK(mesh.within_host<tp>());
  CHECK_FALSE(mesh.within_host<dp>());
  const auto step = [](const auto& on) {
    const auto x = sw::zeros<float, sw::Shard<0>, sw::Shard<1>>(on, {6, 8});
    sw::redistribute<sw::Replicate, sw::Replicate>(x);
    sw::redistribute<sw::tp, sw::Replicate>(x);
  };
  sw::Recording recording(mesh);
  step(mesh);
  const auto planned =
      sw::trace<sw::Mesh<dp, tp>>({2, size / 2}, step, {mesh.rank<dp>(), mesh.rank<tp>()}, size / 2);
  CHECK(recording.plan().bytes_to_other_hosts() == planned.bytes_to_other_hosts());
  CHECK(planned.bytes_to_other_hosts() > 0);
  CHECK(recording.plan() == planned);
}

TEST_CASE("two threads of a rank, each with a mesh of its own") {
  const std::array own{sw::Communicator::duplicate(MPI_COMM_WORLD),
                       sw::Communicator::duplicate(MPI_COMM_WORLD)};
  std::array<double, 2> sums{};
  const auto work = [&](std::size_t which) {
    const sw::Mesh<dp> mesh(own[which], {any});
    const sw::Index rows = which == 0 ? 37 : 64;
    for (int i = 0; i < 200; ++i) {
      const auto x = sw::full<double, sw::Shard<0>>(mesh, {rows, 3}, 1.0 + i);
      const auto whole = sw::redistribute<sw::Replicate>(x);
      for (sw::Index row = 0; row < rows; ++row) sums[which] += whole.local()(row, 2);
    }
  };
  std::thread other(work, std::size_t{1});
  work(0);
  other.join();
  CHECK(sums[0] == 37 * 20100);
  CHECK(sums[1] == 64 * 20100);
}

TEST_CASE("two threads of a rank record and trace, each on meshes of its own") {
  const std::array own{sw::self(), sw::self()};
  std::array<int, 2> right{};
  const auto work = [&](std::size_t which) {
    for (int i = 0; i < 2000; ++i) {
      const sw::Mesh<dp> mesh(own[which], {any});
      const sw::Recording recording(mesh);
      const auto x = sw::full<float, sw::Replicate>(mesh, {16}, 1);
      const auto planned = sw::trace<sw::Mesh<dp>>({4}, [](const auto& dry) {
        sw::redistribute<sw::Replicate>(sw::zeros<float, sw::Shard<0>>(dry, {16}));
      });
      right[which] += recording.plan().peak_bytes() == 64 && planned.collectives() == 1 ? 1 : 0;
    }
  };
  std::thread other(work, std::size_t{1});
  work(0);
  other.join();
  CHECK(right == std::array{2000, 2000});
}
