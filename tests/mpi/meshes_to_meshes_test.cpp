// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tensors that go from one mesh of a job to another: all pairs of layouts on meshes that are apart, overlap, hold one
/// another, or have the same ranks in another order; many at a time, with sends that wait for their receives.

#include <doctest/doctest.h>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/from_mesh_to_mesh.hpp>

#include <support/redistribution.hpp>

#include <deque>

namespace sw = shardwise;
using namespace sw::testing;
using sw::dp;
using sw::Index;
using sw::Layout;
using sw::Partial;
using sw::pp;
using sw::RankGrid;
using sw::Replicate;
using sw::Shard;
using sw::tp;
using sw::detail::AnyTensor;
using sw::detail::MeshTransfer;

namespace {

using Line = sw::Mesh<tp>;
using Plane = sw::Mesh<dp, tp>;

/// A mesh of the job, on the ranks that are on it.
struct Somewhere {
  RankGrid grid;
  std::optional<Plane> mesh;  // a line is one along tp
  bool is_line;
};

std::vector<Somewhere> meshes_of(const Line& job) {
  const int n = job.size();
  std::vector<Somewhere> all;
  auto add = [&](int first, std::array<int, 2> sizes, std::array<int, 2> strides) {
    const sw::MeshRanks<dp, tp> ranks(first, sizes, strides);
    for (const Somewhere& other : all) {
      if (other.grid == ranks.grid()) return;
    }
    Somewhere made{ranks.grid(), {}, sizes[0] == 1};
    if (made.grid.find(job.rank()) >= 0) made.mesh = job.part(ranks);
    all.push_back(made);
  };
  add(0, {1, n}, {n, 1});
  add(n - 1, {1, n}, {n, -1});  // the other way round
  add(0, {1, 1}, {1, 1});
  add(n - 1, {1, 1}, {1, 1});
  if (n == 1) return all;
  add(1, {1, n - 1}, {n, 1});
  add(0, {1, (n + 1) / 2}, {n, 2});    // the even ones
  add(n / 2, {1, n - n / 2}, {n, 1});  // the upper half
  if (n % 2 == 0) add(0, {2, n / 2}, {n / 2, 1});
  if (n % 2 == 0) add(0, {n / 2, 2}, {1, n / 2});  // by columns
  if (n == 3) add(0, {3, 1}, {1, 1});
  if (n == 8) add(7, {2, 2}, {-1, -4});
  if (n == 8) add(1, {3, 2}, {2, 1});
  return all;
}

double value_of(Index global, int which) { return static_cast<double>(global * 64 + which % 64 + 1); }

/// This rank's block of the tensor number `which`, where its elements are known by their global index.
AnyTensor source(const Plane& mesh, const Layout& layout, std::span<const Index> shape, int which) {
  AnyTensor x(sw::MeshView(mesh), sw::DataType::f64, layout, shape, sw::Buffer());
  x = x.unwritten(layout, sw::MemoryUse::activation);
  for_each_element(x.shape, x.box(), [&](std::size_t local, Index global) {
    static_cast<double*>(x.buffer->data)[local] = value_of(global, which);
  });
  return x;
}
bool right(const AnyTensor& y, int which) {
  const bool zeros = sw::axes_where(2, [&](int axis) {
                       return y.layout[axis].is_partial() && y.mesh.coordinates()[axis] != 0;
                     }) != 0;
  bool good = true;
  for_each_element(y.shape, y.box(), [&](std::size_t local, Index global) {
    good = good && static_cast<const double*>(y.buffer->data)[local] == (zeros ? 0 : value_of(global, which));
  });
  return good;
}

/// All layouts on a mesh; on a line that of the axis that is none is not changed.
std::vector<Layout> layouts_on(const Somewhere& mesh, bool pending) {
  std::vector<sw::Placement> others{sw::replicate};
  if (pending) others.push_back(sw::partial_sum);
  if (!mesh.is_line) return all_layouts(2, 2, others);
  std::vector<Layout> good;
  for (const Layout& layout : all_layouts(1, 2, others)) good.push_back({sw::replicate, layout[0]});
  return good;
}

struct UnderWay {
  sw::Shared<MeshTransfer> sends, receives;  // one transfer, or two
  int which;
};

void finish(std::deque<UnderWay>& under_way, int& wrong) {
  UnderWay& first = under_way.front();
  if (first.sends) first.sends->finish();
  if (first.receives) wrong += right(first.receives->finish(), first.which) ? 0 : 1;
  under_way.pop_front();
}

}  // namespace

TEST_CASE("all layouts on all meshes to all on all, many at a time, with synchronous sends") {
  const Line job(sw::world(), {sw::any});
  const std::vector<Somewhere> meshes = meshes_of(job);
  mpi_counter::synchronous_sends = true;
  sw::Recording recording(job);
  mpi_counter::reset();
  std::deque<UnderWay> under_way;
  int which = 0, wrong = 0, to_itself = 0;
  for (const Somewhere& from : meshes) {
    for (const Somewhere& to : meshes) {
      for (const Layout& given : layouts_on(from, false)) {
        for (const Layout& wanted : layouts_on(to, true)) {
          ++which;
          if (job.size() == 8 && which % 5 != 0) continue;
          const std::array<Index, 2> shape =
              which % 3 == 0 ? std::array<Index, 2>{4, 6} : std::array<Index, 2>{7, 5};
          AnyTensor x, y;
          if (from.mesh) x = source(*from.mesh, given, shape, which);
          if (to.mesh) {
            y = AnyTensor(sw::MeshView(*to.mesh), sw::DataType::f64, wanted, shape, sw::Buffer());
            y = y.unwritten(wanted, sw::MemoryUse::activation);
          }
          UnderWay next{{}, {}, which};
          if (from.mesh && to.mesh && which % 2 == 0) {  // at once
            next.receives = sw::Shared<MeshTransfer>::make(x.mesh, from.grid, to.grid, true, true);
            next.receives->add(x, given, y, wanted);
            next.receives->start();
          } else {
            auto receive = [&] {
              if (!to.mesh) return;
              next.receives = sw::Shared<MeshTransfer>::make(y.mesh, from.grid, to.grid, false, true);
              next.receives->add({}, given, y, wanted);
              next.receives->start();
            };
            if (which % 3 == 0) receive();
            if (from.mesh) {
              const auto sent = mpi_counter::counts().send.calls;
              const auto recorded = recording.plan().count(sw::Collective::send);
              next.sends = sw::Shared<MeshTransfer>::make(x.mesh, from.grid, to.grid, true, false);
              next.sends->add(x, given, {}, wanted);
              next.sends->start();
              to_itself += static_cast<int>(mpi_counter::counts().send.calls - sent -
                                            (recording.plan().count(sw::Collective::send) - recorded));
            }
            if (which % 3 != 0) receive();
          }
          if (next.sends || next.receives) under_way.push_back(next);
          if (under_way.size() > 20) finish(under_way, wrong);
        }
      }
    }
  }
  while (!under_way.empty()) finish(under_way, wrong);
  mpi_counter::synchronous_sends = false;
  CHECK(wrong == 0);
  if (mpi_counter::counting())
    CHECK(recording.plan().count(sw::Collective::send) + to_itself == mpi_counter::counts().send.calls);
  CHECK(recording.plan().collectives() == recording.plan().count(sw::Collective::send));
  if (mpi_counter::counting()) {
    CHECK(mpi_counter::counts().data_calls() ==
          mpi_counter::counts().send.calls + mpi_counter::counts().receive.calls);
  }
}

namespace {

/// Stages of a pipeline: each sends what it has to the next, and what comes back to the one before, four times at once.
template <class Job>
int exchange_between_stages(const Job& job) {
  const auto stage = job.template submesh<dp, tp>();
  const int here = job.template rank<pp>(), last = job.template size<pp>() - 1;
  auto ranks_of = [&](int there) { return job.template submesh_ranks<dp, tp>(job.template at<pp>(there)); };
  using X = sw::Tensor<float, 2, std::remove_cvref_t<decltype(stage)>, Shard<0>, Shard<1>>;
  constexpr int micro_batches = 4;
  const sw::Shape<2> shape{5, 7};
  auto filled = [&](int number) {
    X x(stage, shape);
    const auto block = x.writable();
    for (Index i = 0; !job.dry() && i < block.elements(); ++i)
      block.data[i] = static_cast<float>(100 * number + i);
    return x;
  };
  std::vector<sw::Sending> sent;
  std::vector<sw::Pending<X>> forward, backward;
  for (int i = 0; i < micro_batches; ++i) {
    if (here < last) sent.push_back(sw::send(filled(here * 10 + i), ranks_of(here + 1)));
    if (here > 0) sent.push_back(sw::send(filled(-here * 10 - i), ranks_of(here - 1)));
  }
  for (int i = 0; i < micro_batches; ++i) {
    if (here > 0) forward.push_back(sw::receive<X>(stage, shape, ranks_of(here - 1)));
    if (here < last) backward.push_back(sw::receive<X>(stage, shape, ranks_of(here + 1)));
  }
  int wrong = 0;
  auto check = [&](auto& pending, int number) {
    const X y = pending.wait(), wanted = filled(number);
    if (!job.dry()) wrong += y.local() == wanted.local() ? 0 : 1;
  };
  for (int i = micro_batches; i-- > 0;) {  // in another order than they were begun
    if (here > 0) check(forward[static_cast<std::size_t>(i)], (here - 1) * 10 + i);
    if (here < last) check(backward[static_cast<std::size_t>(i)], -(here + 1) * 10 - i);
  }
  for (sw::Sending& each : sent) each.wait();
  sw::redistribute<tp, Replicate>(filled(0));  // of the stage alone
  return wrong;
}

}  // namespace

TEST_CASE("stages of a pipeline: one message to the counterpart, unpacked; the plan knows it") {
  const int n = sw::world().size();
  using Job = sw::Mesh<pp, dp, tp>;
  for (const Job::SizesOf& sizes : {Job::SizesOf{n, 1, 1}, {2, 1, n / 2}, {n / 2, 2, 1}, {2, 2, n / 4}}) {
    if (sizes[0] * sizes[1] * sizes[2] != n) continue;
    const Job job(sw::world(), sizes);
    mpi_counter::synchronous_sends = true;
    sw::Recording recording(job);
    mpi_counter::reset();
    CHECK(exchange_between_stages(job) == 0);
    const int neighbours = (job.rank<pp>() > 0 ? 1 : 0) + (job.rank<pp>() < job.size<pp>() - 1 ? 1 : 0);
    const auto plan = recording.plan();
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().send.calls == 4 * neighbours);
    CHECK(plan.count<pp>(sw::Collective::send) == 4 * neighbours);
    CHECK(plan.count<dp>(sw::Collective::send) == 0);
    if (mpi_counter::counting()) CHECK(plan.bytes<pp>() == mpi_counter::counts().send.bytes);
    CHECK(plan.peak_bytes(sw::MemoryUse::gathered) == 0);  // nothing is packed
    CHECK(plan.count<tp>(sw::Collective::all_gather) == (sizes[2] > 1 ? 1 : 0));
    const auto planned =
        sw::trace<sw::Mesh<pp, dp, tp>>(sizes, [](const auto& dry) { exchange_between_stages(dry); },
                                        {job.rank<pp>(), job.rank<dp>(), job.rank<tp>()});
    CHECK(planned == plan);
    mpi_counter::synchronous_sends = false;
  }
}

TEST_CASE("there and back, on meshes of the same ranks") {
  const int n = sw::world().size();
  const Line line(sw::world(), {n});
  const Plane plane(sw::world(), {n % 2 == 0 ? 2 : 1, n % 2 == 0 ? n / 2 : n});
  sw::RowMajorMatrix<double> whole(7, 5);
  for (Index i = 0; i < 35; ++i) whole(i / 5, i % 5) = static_cast<double>(i) / 3;
  const auto x = sw::distribute<Shard<0>>(line, whole);
  sw::Recording recording(line);
  const auto y = sw::redistribute<Shard<1>, Shard<0>>(x, plane);
  const auto kept =
      sw::redistribute<Shard<0>, Shard<0>>(x, plane);  // on a plane of 2 x n/2 the blocks may stay
  auto back = sw::redistribute_async<Shard<0>>(y, line);
  auto other = sw::redistribute_async(x, line);
  CHECK(other.wait().data() == x.data());
  CHECK(back.wait().local() == x.local());
  CHECK(sw::full_tensor(y) == whole);
  CHECK(sw::full_tensor(kept) == whole);
  if (n <= 2) CHECK(kept.data() == x.data());
  const auto sum = sw::redistribute<sw::Reduced, Partial<>>(x, plane);
  CHECK(sw::full_tensor(sw::redistribute<Replicate, Replicate>(sum)) == whole);
}

TEST_CASE("what the two sides do not mean alike is an error where it arrives") {
  const Line job(sw::world(), {sw::any});
  if (job.size() < 2) return;
  const sw::MeshRanks<tp> first(0, {1}), second(1, {1});
  using Y = sw::Tensor<float, 2, Line, Shard<0>>;
  auto receive = [&](std::string_view expected) {
    const auto mesh = job.part(second);
    auto y = sw::receive<Y>(mesh, {4, 6}, first);
    CHECK_THROWS_WITH_AS(y.wait(), doctest::Contains(expected.data()), std::runtime_error);
  };
  auto send = [&](const auto& x) { sw::send(x, second).wait(); };
  const std::string of =
      "receive: rank 1 expects of a tensor [4 x 6] of f32 96 bytes from rank 0, which has sent ";
  for (int way = 0; way < 4; ++way) {
    if (job.rank() == 0) {
      const auto mesh = job.part(first);
      if (way == 0) send(sw::zeros<float, Shard<0>>(mesh, {6, 4}));
      if (way == 1) send(sw::zeros<std::int32_t, Shard<0>>(mesh, {4, 6}));
      if (way == 2) send(sw::zeros<float, Shard<0>>(mesh, {3, 6}));
      if (way == 3) send(sw::zeros<double, Shard<0>>(mesh, {4, 6}));
    }
    if (job.rank() != 1) continue;
    if (way == 0) receive(of + "96 bytes of f32: the two differ in shape, element type or layouts");
    if (way == 1) receive(of + "96 bytes of i32");
    if (way == 2) receive(of + "72 bytes of f32");
    if (way == 3) receive(of + "more than that");
  }
}

TEST_CASE("meshes are made while a receive is under way") {
  const int ranks = sw::world().size();
  if (ranks == 1) return;
  const sw::Mesh<pp, dp> job(sw::world(), {ranks, 1});
  const bool last = job.rank<pp>() == ranks - 1;
  if (job.rank<pp>() != 0 && !last) return;
  const sw::Mesh<dp> mine = job.submesh<dp>();
  const auto other = job.submesh_ranks<dp>(job.at<pp>(last ? 0 : ranks - 1));
  using X = sw::Tensor<double, 1, sw::Mesh<dp>, Shard<0>>;
  std::optional<sw::Pending<X>> coming;
  if (last) coming.emplace(sw::receive<X>(mine, {5}, other));
  const sw::Mesh<dp> both = job.part(sw::MeshRanks<dp>(ranks - 1, {2}, {1 - ranks}));
  CHECK(both.size() == 2);
  const X x = sw::randn<double, Shard<0>>(mine, {5}, 1);
  if (last) {
    const X got = coming->wait();
    CHECK(std::equal(got.data(), got.data() + 5, x.data()));
  } else {
    sw::send(x, other).wait();
  }
}

TEST_CASE("ranks that the job does not have, and ranks that are not on the mesh") {
  const int n = sw::world().size();
  const Line job(sw::world(), {n});
  auto refusal = [](auto f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "nothing";
  };
  CHECK(refusal([&] { job.part(sw::MeshRanks<tp>(0, {n + 1})); }) ==
        sw::detail::text({"part: the mesh has ", n + 1, " ranks or more, the job ", n}));
  CHECK(refusal([&] { job.part(sw::MeshRanks<tp>(0, {0})); }).find("has 0 ranks") != std::string::npos);
  const auto x = sw::zeros<float, Shard<0>>(job, {4});
  CHECK(refusal([&] {
          sw::send(x, sw::MeshRanks<tp>(n, {1})).wait();
        }).find("the mesh that receives: rank ") == 0);
  if (n == 1) return;
  CHECK(refusal([&] { job.part(sw::MeshRanks<tp>(0, {2}, {0})); }).find("rank 0 of the mesh appears twice") !=
        std::string::npos);
  if (job.rank() > 0) {
    CHECK(refusal([&] { job.part(sw::MeshRanks<tp>(0, {1})); }).find("is not on the mesh") !=
          std::string::npos);
  }
  const Line some = job.part(job.rank() == 0 ? sw::MeshRanks<tp>(0, {1}) : sw::MeshRanks<tp>(1, {n - 1}));
  CHECK(
      refusal([&] { sw::redistribute<Shard<0>>(x, some); }) ==
      sw::detail::text({"redistribute: rank ", job.rank() == 0 ? 1 : 0,
                        " of the job is on the first of the two meshes only: there, use send and receive"}));
  const Line other(sw::world().subgroup(std::array{sw::world().rank()}), {1});
  CHECK(refusal([&] { sw::redistribute<Shard<0>>(x, other); }).find("of different jobs") !=
        std::string::npos);
}

TEST_CASE("copies share the work, and what is on the own host comes from there") {
  const int rank = sw::world().rank(), n = sw::world().size();
  if (n % 4 != 0) return;
  // Ranks take turns on two hosts. Half of them have copies; to each of the others goes a part: its counterpart's host is
  // the other one.
  const Line job(sw::world().on_hosts(rank % 2), {n});
  const sw::MeshRanks<tp> from(0, {n / 2}), to(n - 1, {n / 2}, {-1});
  if (rank >= n / 2) {
    using Y = sw::Tensor<float, 1, Line, Shard<0>>;
    const auto y = sw::receive<Y, Replicate>(job.part(to), {8}, from).wait();
    CHECK(y.local()[0] == 1);
    return;
  }
  const auto x = sw::full<float, Replicate>(job.part(from), {8}, 1);
  sw::Recording recording(job);
  sw::send<Shard<0>>(x, to).wait();
  CHECK(recording.plan().count(sw::Collective::send) == 1);
  CHECK(recording.plan().bytes_to_other_hosts() == 0);
  const auto planned = sw::trace<sw::Mesh<tp>>(
      {n},
      [&](const auto& dry) {
        sw::send<Shard<0>>(sw::full<float, Replicate>(dry.part(from), {8}, 1),
                           sw::MeshRanks<tp>(n - 1, {n / 2}, {-1}))
            .wait();
      },
      {rank}, 1);
  CHECK(planned.bytes_to_other_hosts() == planned.bytes());  // each rank a host
}

TEST_CASE("copies share the work: each goes to its counterpart, or to another part") {
  const int n = sw::world().size();
  if (n % 2 != 0) return;
  const Line job(sw::world(), {n});
  const sw::MeshRanks<tp> from(0, {n / 2}), to(n / 2, {n / 2});
  if (job.rank() >= n / 2) {
    const auto mesh = job.part(to);
    CHECK(sw::receive<sw::Tensor<float, 1, Line, Replicate>>(mesh, {8}, from).wait().local()[7] == 1);
    CHECK(sw::receive<sw::Tensor<float, 1, Line, Shard<0>>, Replicate>(mesh, {8}, from).wait().local()[0] ==
          1);
    return;
  }
  const auto x = sw::full<float, Replicate>(job.part(from), {8}, 1);
  mpi_counter::reset();
  sw::send(x, to).wait();
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().send.calls == 1);
  sw::send<Shard<0>>(x, to).wait();
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().send.calls == 2);
}
