// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Checkpoints in the memory of hosts. The hosts are groups of ranks of this machine, each with a folder of its own.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/memory_checkpoints.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/shardwise.hpp>

#include <fstream>

#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;

namespace {

using Grid = sw::Mesh<dp, tp>;
using X = sw::Tensor<double, 2, Grid, sw::Shard<0>, sw::Shard<1>>;
using Y = sw::Tensor<float, 1, Grid, sw::Replicate, sw::Shard<0>>;

/// Tensors whose elements depend on the step, and the step.
struct Run {
  explicit Run(const Grid& mesh) : x(mesh, {13, 7}), y(mesh, {29}), contents(mesh) {
    contents.add("x", x);
    contents.add("y", y);
    contents.add("step", step);
    fill(-1);
  }
  void fill(Index now) {
    step = now;
    visit([&](auto& element, double value) {
      element = static_cast<std::remove_reference_t<decltype(element)>>(value);
    });
  }
  bool is(Index now) {
    bool same = step == now;
    visit([&](auto& element, double value) {
      same = same && element == static_cast<std::remove_reference_t<decltype(element)>>(value);
    });
    return sw::Communicator(contents.ranks()).agree(same);
  }
  template <class F>
  void visit(F f) {
    const auto value = [&](Index place) { return static_cast<double>(100 * step + place); };
    const auto of_x = x.writable();
    for (Index i = 0; i < of_x.elements(); ++i)
      f(of_x.data[i], value((of_x.begin[0] + i / of_x.size[1]) * 7 + of_x.begin[1] + i % of_x.size[1]));
    const auto of_y = y.writable();
    for (Index i = 0; i < of_y.elements(); ++i) f(of_y.data[i], value(of_y.begin[0] + i));
  }

  X x;
  Y y;
  std::int64_t step = -1;
  sw::CheckpointContents contents;
};

/// Some ranks of the job as hosts, `per_host` of them on each. Numbers of hosts and folders go on from `first`.
struct Job {
  Job(const std::vector<int>& members, int per_host, const ScratchFolder& scratch,
      std::vector<int> folders = {})
      : number(static_cast<int>(std::ranges::find(members, sw::world().rank()) - members.begin()) / per_host),
        ranks(sw::world().subgroup(members).on_hosts(number)),
        folder(scratch /
               ("host" +
                std::to_string(folders.empty() ? number : folders[static_cast<std::size_t>(number)]))) {}
  Grid mesh(int rows) const { return Grid(ranks, {rows, sw::any}); }

  int number;
  sw::Communicator ranks;
  std::filesystem::path folder;
};

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = i;
  return ranks;
}
void lose(const ScratchFolder& scratch, int host) {
  sw::world().barrier();
  if (sw::world().rank() == 0) std::filesystem::remove_all(scratch / ("host" + std::to_string(host)));
  sw::world().barrier();
}
using Two = sw::MemoryCheckpoints<2>;
static_assert(Two::hosts_that_may_be_lost == 1 && Two::sent_bytes(100) == 100);
static_assert(sw::MemoryCheckpoints<3>::hosts_that_may_be_lost == 2 &&
              sw::MemoryCheckpoints<3>::sent_bytes(100) == 200);

}  // namespace

TEST_CASE("any host may be lost, and another mesh on the others goes on") {
  const int all = sw::world().size();
  for (int lost = 0; lost < all; ++lost) {
    const ScratchFolder scratch;
    {
      const Job job(first_ranks(all), 1, scratch);
      Run run(job.mesh(1));
      Two memory(job.ranks, job.folder);
      CHECK(!memory.latest());
      CHECK(error_of([&] { memory.load(run.contents); }).find("do not have all blocks of a step") !=
            std::string::npos);
      for (const Index step : {20, 40}) {
        run.fill(step);
        memory.save(step, run.contents);
      }
      CHECK(memory.latest() == 40);
    }
    if (all == 1) break;
    lose(scratch, lost);
    std::vector<int> ranks, folders;
    for (int r = 0; r < all; ++r)
      if (r != lost) ranks.push_back(r), folders.push_back(r);
    if (sw::world().rank() != lost) {
      const Job job(ranks, 1, scratch, folders);
      Run run(job.mesh(static_cast<int>(ranks.size())));
      Two memory(job.ranks, job.folder);
      CHECK(memory.latest() == 40);
      memory.load(run.contents);
      CHECK(run.is(40));
      run.fill(60);
      memory.save(60, run.contents);
      CHECK(memory.latest() == 60);
    }
    // The host is back, with nothing or with an old step.
    const Job job(first_ranks(all), 1, scratch);
    Run run(job.mesh(1));
    Two memory(job.ranks, job.folder);
    CHECK(memory.latest() == 60);
    memory.load(run.contents);
    CHECK(run.is(60));
    memory.clear();
    CHECK(!std::filesystem::exists(job.folder));
  }
}

TEST_CASE("two ranks on a host, and two copies; with both hosts lost nothing is found") {
  if (sw::world().size() != 4) return;
  const ScratchFolder scratch;
  const Job job(first_ranks(4), 2, scratch);
  Run run(job.mesh(2));
  Two memory(job.ranks, job.folder);
  run.fill(7);
  memory.save(7, run.contents);
  const auto file_count = [](const std::filesystem::path& folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  CHECK(file_count(job.folder / "step-00000007") == 4 + 1);
  lose(scratch, 1);
  run.fill(-1);
  memory.load(run.contents);
  CHECK(run.is(7));
  lose(scratch, 0);
  lose(scratch, 1);
  CHECK(!memory.latest());
}

TEST_CASE("a save that was cut off, another job's step, and damage") {
  const int all = sw::world().size();
  if (all < 2) return;
  const ScratchFolder scratch;
  const Job job(first_ranks(all), 1, scratch);
  Run run(job.mesh(1));
  sw::MemoryCheckpoints<1> one(job.ranks, job.folder);
  CHECK(one.hosts_that_may_be_lost == 0);
  run.fill(10);
  one.save(10, run.contents);
  const auto keep = scratch / "keep";
  const auto step = [&](int host, const char* name) {
    return scratch / ("host" + std::to_string(host) + "/" + name);
  };
  if (sw::world().rank() == 0)
    std::filesystem::copy(step(0, "step-00000010"), keep, std::filesystem::copy_options::recursive);
  sw::world().barrier();
  run.fill(20);
  one.save(20, run.contents);
  CHECK(one.latest() == 20);
  // Host 0 has the new step, the others only the old one; then nobody has a whole step.
  lose(scratch, 1);
  CHECK(!one.latest());
  // A manifest of another job with the same step does not mix with this one's files.
  run.fill(20);
  sw::MemoryCheckpoints<2>(job.ranks, job.folder).save(20, run.contents);
  if (sw::world().rank() == 0) {
    std::filesystem::remove_all(step(1, "step-00000020"));
    std::filesystem::copy(keep, step(1, "step-00000020"), std::filesystem::copy_options::recursive);
    std::ofstream(step(1, "step-00000099"), std::ios::binary) << "no folder";
    std::filesystem::create_directories(step(1, "step-00000098"));
    std::ofstream(step(1, "step-00000098") / "manifest.json", std::ios::binary) << "{ damaged";
  }
  sw::world().barrier();
  Two memory(job.ranks, job.folder);
  CHECK(memory.latest() == 20);
  memory.load(run.contents);
  CHECK(run.is(20));
}

TEST_CASE("a damaged copy of a block is not taken") {
  const int all = sw::world().size();
  if (all < 2) return;
  const ScratchFolder scratch;
  const Job job(first_ranks(all), 1, scratch);
  Run run(job.mesh(1));
  Two memory(job.ranks, job.folder);
  run.fill(30);
  memory.save(30, run.contents);
  const auto flip = [&](int host) {
    sw::world().barrier();
    if (sw::world().rank() != 0) return;
    std::string name;
    for (const auto& each :
         std::filesystem::directory_iterator(scratch / ("host" + std::to_string(host)) / "step-00000030"))
      if (each.path().filename() != "manifest.json" && std::filesystem::file_size(each) > 0)
        name = std::max(name, each.path().string());
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    char byte = 0;
    file.seekg(3).get(byte);
    file.seekp(3).put(static_cast<char>(byte ^ 1));
  };
  flip(0);
  sw::world().barrier();
  memory.load(run.contents);
  CHECK(run.is(30));
  memory.load(run.contents);  // the copy that was damaged is whole again
  CHECK(run.is(30));
  for (int host = 0; host < all; ++host) flip(host);  // of one file, as ranks' names are sorted
  sw::world().barrier();
  if (all == 2)
    CHECK(error_of([&] { memory.load(run.contents); }).find("do not have all blocks of a step") !=
          std::string::npos);
}

TEST_CASE("a host without room makes the save fail on all ranks, and the step before stays") {
  const ScratchFolder scratch;
  const int all = sw::world().size();
  const Job job(first_ranks(all), 1, scratch);
  Run run(job.mesh(1));
  Two memory(job.ranks, job.folder);
  run.fill(1);
  memory.save(1, run.contents);
  scratch.file("file", "");
  Two broken(job.ranks, job.number == all - 1 ? scratch / "file/below" : job.folder);
  run.fill(2);
  const std::string error = error_of([&] { broken.save(2, run.contents); });
  CHECK(error.find("the checkpoint in the hosts' memory") == 0);
  CHECK(error.find("(rank " + std::to_string(all - 1) + ")") != std::string::npos);
  CHECK(memory.latest() == 1);
  CHECK(std::distance(std::filesystem::directory_iterator(job.folder),
                      std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("blocks that are sent in several parts, and notes") {
  const int all = sw::world().size();
  const ScratchFolder scratch;
  const Job job(first_ranks(all), 1, scratch);
  const Grid mesh = job.mesh(1);
  sw::Tensor<double, 2, Grid, sw::Replicate, sw::Shard<0>> x(mesh, {3000, 1501});
  sw::CheckpointContents contents(mesh);
  contents.add("x", x);
  const auto fill = [&](double factor) {
    const auto view = x.writable();
    for (Index i = 0; i < view.elements(); ++i)
      view.data[i] = factor * static_cast<double>(view.begin[0] * 1501 + i);
  };
  fill(1);
  Two memory(job.ranks, job.folder);
  CHECK(memory.latest_notes().is_null());
  memory.save(5, contents, {{"seed", 7}});
  CHECK(memory.latest_notes() == sw::Json{{"seed", 7}});
  if (all > 1) lose(scratch, 0);
  fill(0);
  const auto copy = x;
  memory.load(contents);
  bool same = true;
  const auto view = x.view();
  for (Index i = 0; i < view.elements(); ++i)
    same = same && view.data[i] == static_cast<double>(view.begin[0] * 1501 + i) && copy.view().data[i] == 0;
  CHECK(same);
}

TEST_CASE("a folder that hosts share, files of others, and a tensor of another shape") {
  const int all = sw::world().size();
  const ScratchFolder scratch;
  Job job(first_ranks(all), 1, scratch);
  Run run(job.mesh(1));
  run.fill(3);
  if (all > 1) {
    Two shared(job.ranks, scratch / "shared");
    CHECK(error_of([&] { shared.save(1, run.contents); }).find("the hosts share this folder") !=
          std::string::npos);
    CHECK(std::filesystem::is_empty(scratch / "shared"));
  }
  const char* const others[]{"precious", "step-by-step", "step-7", "step-00000009x"};
  for (const char* name : others) std::filesystem::create_directories(job.folder / name);
  Two memory(job.ranks, job.folder);
  memory.save(1, run.contents);
  memory.clear();
  for (const char* name : others) CHECK(std::filesystem::exists(job.folder / name));
  CHECK(!memory.latest());
  run.y = Y(run.y.mesh(), {30});
  CHECK(error_of([&] { memory.save(2, run.contents); }).find("\"y\" was added as [29], and is [30] now") !=
        std::string::npos);
}
