// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The collectives of `Communicator`, through MPI and through shared memory, against what they must give element by
/// element.

#include <doctest/doctest.h>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/environment.hpp>
#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/comm/thread.hpp>

#include <sys/resource.h>
#include <support/mpi_counter.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace sw = shardwise;
using sw::DataType;
using sw::Index;
using sw::ReduceOp;

namespace {

struct Bf16 {
  std::uint16_t bits;
};

}  // namespace

template <>
inline constexpr DataType sw::data_type<Bf16> = DataType::bf16;

namespace {

// A value that every element type holds exactly, different for each rank and element.
template <class T>
T value(int rank, Index i) {
  return static_cast<T>((rank + 1) * 3 + static_cast<int>(i % 5));
}
template <>
Bf16 value<Bf16>(int rank, Index i) {
  return {sw::detail::round_to_bf16(value<float>(rank, i))};
}

double number(Bf16 x) { return sw::detail::widen_bf16(x.bits); }
template <class T>
double number(T x) {
  return static_cast<double>(x);
}

template <class T>
double reduced(int ranks, Index i, ReduceOp op) {
  double result = number(value<T>(0, i));
  for (int r = 1; r < ranks; ++r) {
    const double term = number(value<T>(r, i));
    if (op == ReduceOp::sum) result += term;
    if (op == ReduceOp::max) result = std::max(result, term);
    if (op == ReduceOp::min) result = std::min(result, term);
  }
  return result;
}

template <class T>
std::vector<T> filled(int rank, Index n) {
  std::vector<T> values;
  for (Index i = 0; i < n; ++i) values.push_back(value<T>(rank, i));
  return values;
}

/// A pair that no reduction of MPI's own can combine.
struct Largest {
  double value;
  std::int32_t rank;
  static void combine(Index count, const Largest* terms, Largest* results) {
    for (Index i = 0; i < count; ++i) {
      const bool ahead = terms[i].value == results[i].value ? terms[i].rank < results[i].rank
                                                            : terms[i].value > results[i].value;
      if (ahead) results[i] = terms[i];
    }
  }
};
static_assert(sw::Reducible<Largest> && !sw::Reducible<float>);

bool through_mpi() { return sw::world().transport() == std::string("MPI"); }

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

std::vector<Index> offsets_of(const std::vector<Index>& counts, Index gap = 0) {
  std::vector<Index> offsets;
  Index next = 0;
  for (Index count : counts) {
    offsets.push_back(next);
    next += count + gap;
  }
  return offsets;
}

/// All ranks: as MPI sees their hosts, and as if each had one for itself, two shared one, each second one did, all but
/// the first did.
std::vector<sw::Communicator> arrangements() {
  const int rank = sw::world().rank();
  std::vector<sw::Communicator> all{sw::world()};
  for (const int host : {rank, rank / 2, rank % 2, rank == 0 ? 0 : 1}) {
    all.push_back(sw::world().on_hosts(host));
  }
  return all;
}

// What this MPI says of a class of errors.
std::string words_of(int error) {
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  MPI_Error_string(error, text, &size);
  return std::string(text, static_cast<std::size_t>(size));
}

// Even, uneven with an empty block, all empty.
std::vector<std::vector<Index>> count_lists(int ranks) {
  std::vector<std::vector<Index>> lists(3);
  for (int r = 0; r < ranks; ++r) {
    lists[0].push_back(5);
    lists[1].push_back((r * 7 + 3) % 4);
    lists[2].push_back(0);
  }
  return lists;
}

}  // namespace

TEST_CASE_TEMPLATE("all_reduce", T, float, double, Bf16, std::int64_t, std::int32_t, std::uint8_t) {
  for (const sw::Communicator& world : arrangements()) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      for (Index n : {0, 1, 17, 5000}) {
        const auto in = filled<T>(world.rank(), n);
        std::vector<T> out(in.size());
        auto in_place = in;
        auto later = in;
        world.all_reduce(in.data(), out.data(), n, sw::data_type_of<T>(), op);
        world.all_reduce(in_place.data(), in_place.data(), n, sw::data_type_of<T>(), op);
        auto request = world.all_reduce_async(later.data(), later.data(), n, sw::data_type_of<T>(), op);
        request.wait();
        bool right = true;
        for (Index i = 0; i < n; ++i) {
          const double expected = reduced<T>(world.size(), i, op);
          right = right && number(out[at(i)]) == expected && number(in_place[at(i)]) == expected &&
                  number(later[at(i)]) == expected;
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE_TEMPLATE("a maximum and a minimum with a NaN are NaN, on every rank", T, float, double) {
  const sw::Communicator ranks = sw::world();
  for (int from = 0; from < ranks.size(); ++from) {
    for (const sw::ReduceOp op : {sw::ReduceOp::max, sw::ReduceOp::min}) {
      std::vector<T> x(20000, static_cast<T>(ranks.rank()));
      if (ranks.rank() == from) std::fill(x.begin(), x.begin() + 15000, std::numeric_limits<T>::quiet_NaN());
      ranks.all_reduce(x.data(), x.data(), static_cast<Index>(x.size()), sw::data_type<T>, op);
      CHECK(std::count_if(x.begin(), x.end(), [](T value) { return std::isnan(value); }) == 15000);
      CHECK(x.back() == static_cast<T>(op == sw::ReduceOp::max ? ranks.size() - 1 : 0));
    }
  }
}

TEST_CASE("sums of bfloat16 are made in float, and the same on all ranks") {
  for (const sw::Communicator& world : arrangements()) {
    INFO(world.hosts().count(), " hosts");
    const int p = world.size();
    const auto term = [](int rank, Index i) {  // up to 255, with all bits that fit
      return sw::detail::round_to_bf16(static_cast<float>((rank * 7919 + i * 104729 + 13) % 51001) / 200);
    };
    for (Index n : {0, 1, 700, 20011}) {
      std::vector<std::uint16_t> in, sums(at(n)), later, scattered(at(n));
      std::vector<Index> counts(at(p), n / p);
      counts[0] += n % p;
      for (Index i = 0; i < n; ++i) in.push_back(term(world.rank(), i));
      later = in;
      world.all_reduce(in.data(), sums.data(), n, DataType::bf16, ReduceOp::sum);
      world.all_reduce_async(later.data(), later.data(), n, DataType::bf16, ReduceOp::sum).wait();
      world.reduce_scatter(in.data(), scattered.data(), counts, DataType::bf16, ReduceOp::sum);
      bool right = true, same = true;
      const Index first = offsets_of(counts)[at(world.rank())], mine = counts[at(world.rank())];
      for (Index i = 0; i < n; ++i) {
        float sum = 0;
        for (int r = 0; r < p; ++r) sum += sw::detail::widen_bf16(term(r, i));
        const std::uint16_t bits = sums[at(i)];
        // On one host there is one rounding; else the sums of the hosts are rounded too.
        right =
            right && (world.hosts().count() == 1 ? bits == sw::detail::round_to_bf16(sum)
                                                 : std::abs(sw::detail::widen_bf16(bits) - sum) <= sum / 128);
        same = same && later[at(i)] == bits;
        if (i >= first && i < first + mine && world.hosts().count() == 1) {
          same = same && scattered[at(i - first)] == bits;
        }
      }
      CHECK(right);
      CHECK(same);
      std::vector<std::uint16_t> least(at(n)), most(at(n));
      sw::world().all_reduce(sums.data(), least.data(), 2 * n, DataType::u8, ReduceOp::min);
      sw::world().all_reduce(sums.data(), most.data(), 2 * n, DataType::u8, ReduceOp::max);
      CHECK(least == most);
    }
  }
}

TEST_CASE("all_reduce of structs of one's own") {
  const auto world = sw::world();
  const int p = world.size();
  for (Index n : {0, 1, 17, 5000}) {
    std::vector<Largest> in, out(at(n));
    for (Index i = 0; i < n; ++i)
      in.push_back({static_cast<double>((world.rank() + i) % p / 2), world.rank()});
    auto in_place = in;
    mpi_counter::reset();
    world.all_reduce(in.data(), out.data(), n);
    if (through_mpi()) {
      if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 1);
      if (mpi_counter::counting())
        CHECK(mpi_counter::counts().all_reduce.bytes == n * Index{sizeof(Largest)});
    }
    world.all_reduce(in_place.data(), in_place.data(), n);
    bool right = true;
    for (Index i = 0; i < n; ++i) {
      Largest expected{-1, 0};
      for (int r = 0; r < p; ++r) {
        const auto value = static_cast<double>((r + i) % p / 2);
        if (value > expected.value) expected = {value, r};
      }
      for (const Largest& found : {out[at(i)], in_place[at(i)]}) {
        right = right && found.value == expected.value && found.rank == expected.rank;
      }
    }
    CHECK(right);
  }
  Largest none{};
  CHECK_THROWS_WITH_AS(world.all_reduce(&none, &none, Index{1} << 32), doctest::Contains("4294967296"),
                       std::length_error);
}

TEST_CASE_TEMPLATE("all_gather", T, float, double, Bf16, std::int64_t) {
  for (const sw::Communicator& world : arrangements()) {
    const int p = world.size();
    for (const auto& counts : count_lists(p)) {
      for (Index gap : {0, 3}) {
        const auto offsets = offsets_of(counts, gap);
        const Index mine = counts[at(world.rank())];
        const Index total = offsets.back() + counts.back() + gap;
        const auto in = filled<T>(world.rank(), mine);
        std::vector<T> out(at(total));
        std::vector<T> later(at(total));
        std::vector<T> in_place(at(total));
        std::copy(in.begin(), in.end(), in_place.begin() + offsets[at(world.rank())]);
        world.all_gather(in.data(), out.data(), counts, offsets, sw::data_type_of<T>());
        world.all_gather(in_place.data() + offsets[at(world.rank())], in_place.data(), counts, offsets,
                         sw::data_type_of<T>());
        auto request =
            world.all_gather_async(in.data(), later.data(), counts, offsets, sw::data_type_of<T>());
        while (!request.test()) {
        }
        bool right = true;
        for (int r = 0; r < p; ++r) {
          for (Index i = 0; i < counts[at(r)]; ++i) {
            const auto place = at(offsets[at(r)] + i);
            const double expected = number(value<T>(r, i));
            right = right && number(out[place]) == expected && number(later[place]) == expected &&
                    number(in_place[place]) == expected;
          }
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE_TEMPLATE("reduce_scatter", T, float, double, Bf16, std::int64_t) {
  for (const sw::Communicator& world : arrangements()) {
    for (const auto& counts : count_lists(world.size())) {
      const auto offsets = offsets_of(counts);
      const Index total = offsets.back() + counts.back();
      const Index mine = counts[at(world.rank())];
      const Index first = offsets[at(world.rank())];
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        const auto in = filled<T>(world.rank(), total);
        std::vector<T> out(at(mine));
        std::vector<T> later(at(mine));
        auto in_place = in;
        world.reduce_scatter(in.data(), out.data(), counts, sw::data_type_of<T>(), op);
        world.reduce_scatter(in_place.data(), in_place.data(), counts, sw::data_type_of<T>(), op);
        world.reduce_scatter_async(in.data(), later.data(), counts, sw::data_type_of<T>(), op).wait();
        bool right = true;
        for (Index i = 0; i < mine; ++i) {
          const double expected = reduced<T>(world.size(), first + i, op);
          right = right && number(out[at(i)]) == expected && number(later[at(i)]) == expected &&
                  number(in_place[at(i)]) == expected;
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE("large blocks in place, in the background too: uneven, of several pieces") {
  for (const sw::Communicator& world : arrangements()) {
    const int p = world.size(), rank = world.rank();
    std::vector<Index> counts;
    for (int r = 0; r < p; ++r) counts.push_back((3 << 20) / p + 7 * r);
    const auto offsets = offsets_of(counts);
    const Index total = offsets.back() + counts.back(), mine = counts[at(rank)], first = offsets[at(rank)];
    const auto term = [](int r, Index i) { return static_cast<float>((r + 1) * (i % 1000)); };
    std::vector<float> sums(at(total)), of_some(at(total)), elsewhere(at(mine)), blocks(at(total));
    for (Index i = 0; i < total; ++i) sums[at(i)] = of_some[at(i)] = term(rank, i);
    for (Index i = 0; i < mine; ++i) blocks[at(first + i)] = term(rank, first + i);
    float* const some = rank % 2 == 0 ? elsewhere.data() : of_some.data();  // in place on half of the ranks
    auto reduction =
        world.reduce_scatter_async(sums.data(), sums.data(), counts, DataType::f32, ReduceOp::sum);
    auto of_half = world.reduce_scatter_async(of_some.data(), some, counts, DataType::f32, ReduceOp::sum);
    auto gathering =
        world.all_gather_async(blocks.data() + first, blocks.data(), counts, offsets, DataType::f32);
    gathering.wait();
    of_half.wait();
    reduction.wait();
    bool right = true;
    for (Index i = 0; i < mine; ++i) {
      const float sum = term(p * (p + 1) / 2 - 1, first + i);
      right = right && sums[at(i)] == sum && some[i] == sum;
    }
    for (int r = 0; r < p; ++r)
      for (Index i = offsets[at(r)]; i < offsets[at(r)] + counts[at(r)]; ++i)
        right = right && blocks[at(i)] == term(r, i);
    CHECK(right);
  }
}

TEST_CASE_TEMPLATE("all_to_all", T, float, double, Bf16, std::int64_t) {
  for (const sw::Communicator& world : arrangements()) {
    const int p = world.size();
    const int me = world.rank();
    // From r to s go rows(r) * columns(s) elements: some pairs exchange nothing.
    for (int rows : {1, 2, 3}) {
      std::vector<Index> send;
      std::vector<Index> recv;
      for (int r = 0; r < p; ++r) {
        send.push_back(Index{(me + rows) % 3} * (r % 2 + rows - 1));
        recv.push_back(Index{(r + rows) % 3} * (me % 2 + rows - 1));
      }
      const auto send_offsets = offsets_of(send, 2);
      const auto recv_offsets = offsets_of(recv, 1);
      std::vector<T> in(at(send_offsets.back() + send.back() + 2));
      std::vector<T> out(at(recv_offsets.back() + recv.back() + 1));
      auto later = out;
      for (int r = 0; r < p; ++r)
        for (Index i = 0; i < send[at(r)]; ++i) in[at(send_offsets[at(r)] + i)] = value<T>(me, i + r);
      world.all_to_all(in.data(), send, send_offsets, out.data(), recv, recv_offsets, sw::data_type_of<T>());
      world
          .all_to_all_async(in.data(), send, send_offsets, later.data(), recv, recv_offsets,
                            sw::data_type_of<T>())
          .wait();
      bool right = true;
      for (int r = 0; r < p; ++r) {
        for (Index i = 0; i < recv[at(r)]; ++i) {
          const auto place = at(recv_offsets[at(r)] + i);
          const double expected = number(value<T>(r, i + me));
          right = right && number(out[place]) == expected && number(later[place]) == expected;
        }
      }
      CHECK(right);
    }
  }
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN") {
  using sw::detail::round_to_bf16;
  using sw::detail::widen_bf16;
  CHECK(widen_bf16(round_to_bf16(1.0F)) == 1.0F);
  CHECK(widen_bf16(round_to_bf16(257.0F)) == 256.0F);  // half way: to even
  CHECK(widen_bf16(round_to_bf16(259.0F)) == 260.0F);
  CHECK(widen_bf16(round_to_bf16(257.1F)) == 258.0F);
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(widen_bf16(round_to_bf16(infinity)) == infinity);
  CHECK(widen_bf16(round_to_bf16(3.4e38F)) == infinity);
  const float nan = widen_bf16(round_to_bf16(std::numeric_limits<float>::quiet_NaN()));
  CHECK(nan != nan);

  const auto world = sw::world();
  std::uint16_t x = round_to_bf16(world.rank() == world.size() - 1 ? nan : 1.0F);
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    std::uint16_t y = x;
    world.all_reduce(&x, &y, 1, DataType::bf16, op);
    CHECK(widen_bf16(y) != widen_bf16(y));
  }
}

TEST_CASE("several requests at once, finished in any order") {
  const auto world = sw::world();
  std::vector<float> x(100, 1.0F);
  std::vector<double> y(50, 2.0);
  {
    auto a = world.all_reduce_async(x.data(), x.data(), 100, DataType::f32, ReduceOp::sum);
    auto b = world.all_reduce_async(y.data(), y.data(), 50, DataType::f64, ReduceOp::sum);
    sw::Request moved;
    moved = std::move(b);
    moved.wait();
    moved.wait();
    CHECK(y[49] == 2.0 * world.size());
  }  // a waits here
  CHECK(x[99] == static_cast<float>(world.size()));
}

TEST_CASE("several pieces, and several large operations under way") {
  for (const sw::Communicator& world : arrangements()) {
    const Index n = 3'000'001;
    std::vector<float> x(at(n)), y(at(n), 1), z(at(n));
    for (Index i = 0; i < n; ++i) x[at(i)] = static_cast<float>(i % 1000 + world.rank());
    const auto p = static_cast<float>(world.size());
    {
      const auto a = world.all_reduce_async(x.data(), z.data(), n, DataType::f32, ReduceOp::sum);
      const auto b = world.all_reduce_async(y.data(), y.data(), n, DataType::f32, ReduceOp::sum);
    }
    bool right = true;
    for (Index i = 0; i < n; ++i) {
      right = right && y[at(i)] == p && z[at(i)] == p * static_cast<float>(i % 1000) + p * (p - 1) / 2;
    }
    CHECK(right);
  }
}

TEST_CASE("an operation goes on while its rank does something else" * doctest::test_suite("MPI")) {
  const auto world = sw::world().on_hosts(sw::world().rank());
  std::vector<float> x(8 << 20, 1);
  const volatile float* last = x.data() + x.size() - 1;
  sw::Request request =
      world.all_reduce_async(x.data(), x.data(), static_cast<Index>(x.size()), DataType::f32, ReduceOp::sum);
  const auto sum = static_cast<float>(world.size());
  for (int naps = 0; *last != sum && naps < 20000; ++naps) {
    sw::detail::sleep_for(0.001);  // and no call of MPI
  }
  CHECK(*last == sum);
  request.wait();
  CHECK(x == std::vector<float>(x.size(), sum));
}

TEST_CASE("hosts of a communicator and of its subgroups") {
  const int rank = sw::world().rank(), size = sw::world().size();
  CHECK(sw::world().hosts().count() == 1);  // the tests run on one
  const auto spread = sw::world().on_hosts(rank % 2 + 7);
  CHECK(spread.hosts().count() == std::min(size, 2));
  CHECK(static_cast<int>(spread.hosts().ranks_on(0).size()) == (size + 1) / 2);
  const auto sorted = spread.by_host();
  for (int r = 1; r < size; ++r) CHECK(sorted.hosts().of(r - 1) <= sorted.hosts().of(r));
  CHECK(sorted.hosts().of(sorted.rank()) == rank % 2);
  CHECK(sorted.by_host() == sorted);  // it is a new one only in another order
  CHECK((spread.by_host() == spread) == (size <= 2));
  const std::vector<int> mine{rank};
  CHECK(spread.subgroup(mine).hosts().count() == 1);
}

TEST_CASE("from host to host goes the least, as the plan says, however many ranks each has") {
  const auto all = sw::world();
  for (const sw::Communicator& ranks : arrangements()) {
    const sw::Hosts& hosts = ranks.hosts();
    const int rank = ranks.rank(), size = ranks.size();
    if (hosts.count() == 1 || !mpi_counter::counting()) continue;
    sw::MeshSizes sizes = sw::one_rank, coordinates{};
    sizes[0] = size;
    coordinates[0] = rank;
    const auto along = sw::hosts_along_axes(sw::RankGrid::whole(1, sizes), coordinates,
                                            [&](int other) { return hosts.of(other); })[1];
    const Index block = 6000, n = block * size;
    const std::vector<Index> counts(at(size), block);
    std::vector<float> in(at(n)), out(at(n));
    const auto check = [&](sw::Collective kind, Index least, auto collective) {
      INFO(sw::name_of(kind), " on ", hosts.count(), " hosts");
      mpi_counter::reset();
      collective();
      std::int64_t sent = 0;
      for (int to = 0; to < size; ++to) {
        if (hosts.of(to) != hosts.of(rank)) sent += mpi_counter::sent_to[at(to)];
      }
      CHECK(sent == sw::bytes_to_other_hosts(kind, n * Index{sizeof(float)}, along));
      all.all_reduce(&sent, &sent, 1, DataType::i64, ReduceOp::sum);
      CHECK(sent == least);
    };
    const Index once = n * Index{sizeof(float)} * (hosts.count() - 1);
    check(sw::Collective::reduce_scatter, once,
          [&] { ranks.reduce_scatter(in.data(), out.data(), counts, DataType::f32, ReduceOp::sum); });
    check(sw::Collective::all_gather, once,
          [&] { ranks.all_gather(in.data(), out.data(), counts, offsets_of(counts), DataType::f32); });
    check(sw::Collective::all_reduce, 2 * once,
          [&] { ranks.all_reduce(in.data(), out.data(), n, DataType::f32, ReduceOp::sum); });
  }
}

TEST_CASE("subgroup is collective over its members only, and keeps the order given") {
  const auto world = sw::world();
  std::vector<int> mine;
  for (int r = world.size() - 1; r >= 0; --r)
    if (r % 2 == world.rank() % 2) mine.push_back(r);
  if (world.rank() % 2 == 0 || world.size() > 2) {  // with two ranks, rank 1 does not take part at all
    const auto group = world.subgroup(mine);
    CHECK(group.size() == static_cast<int>(mine.size()));
    CHECK(mine[at(group.rank())] == world.rank());
    int sum = world.rank();
    group.all_reduce(&sum, &sum, 1, DataType::i32, ReduceOp::sum);
    int expected = 0;
    for (int r : mine) expected += r;
    CHECK(sum == expected);
  }
  const std::vector<int> twice{world.rank(), world.rank()};
  CHECK_THROWS_WITH_AS(static_cast<void>(world.subgroup(twice)), doctest::Contains("named twice"),
                       std::invalid_argument);
  const std::vector<int> beyond{world.rank(), world.size()};
  CHECK_THROWS_WITH_AS(static_cast<void>(world.subgroup(beyond)), doctest::Contains("no rank"),
                       std::invalid_argument);
  if (world.rank() != 0) {
    const int zero = 0;
    CHECK_THROWS_WITH_AS(static_cast<void>(world.subgroup({&zero, 1})),
                         doctest::Contains("is not in the group"), std::invalid_argument);
  }
}

TEST_CASE("what MPI cannot count is refused with its number") {
  const auto world = sw::world();
  const auto p = at(world.size());
  const Index many = Index{1} << 32;
  const std::vector<Index> counts(p, many);
  const std::vector<Index> zeros(p, 0);
  float x = 0;
  float y = 0;
  CHECK_THROWS_WITH_AS(world.all_reduce(&x, &y, many, DataType::f32, ReduceOp::sum),
                       doctest::Contains("4294967296"), std::length_error);
  CHECK_THROWS_WITH_AS(world.all_gather(&x, &y, counts, zeros, DataType::f32),
                       doctest::Contains("4294967296"), std::length_error);
  CHECK_THROWS_WITH_AS(world.reduce_scatter(&x, &y, counts, DataType::f32, ReduceOp::sum),
                       doctest::Contains("4294967296"), std::length_error);
  CHECK_THROWS_WITH_AS(world.all_to_all(&x, counts, zeros, &y, zeros, zeros, DataType::f32),
                       doctest::Contains("4294967296"), std::length_error);
  CHECK_THROWS_AS(world.all_reduce(&x, &y, -1, DataType::f32, ReduceOp::sum), std::invalid_argument);
  const std::vector<Index> too_long(p + 1, 1);
  CHECK_THROWS_AS(world.reduce_scatter(&x, &y, too_long, DataType::f32, ReduceOp::sum),
                  std::invalid_argument);
}

TEST_CASE("an MPI error names the call and says MPI's words" * doctest::test_suite("MPI")) {
  const auto world = sw::world();
  int x = 0;
  CHECK_THROWS_WITH_AS(sw::detail::check_mpi(MPI_Bcast(&x, 1, MPI_INT, 99, world.native()), "MPI_Bcast"),
                       doctest::Contains(("MPI_Bcast: " + words_of(MPI_ERR_ROOT)).c_str()), sw::MpiError);
}

TEST_CASE("what fails while it is under way is an MpiError where it is waited for" *
          doctest::test_suite("MPI")) {
  const auto world = sw::world().on_hosts(sw::world().rank());  // so it goes in rounds
  const std::size_t p = at(world.size()), r = at(world.rank());
  if (p == 1) return;
  std::vector<float> in(100), out(100);
  std::vector<Index> sent(p), expected(p), offsets(p);
  sent[(r + 1) % p] = 2;
  expected[(r + p - 1) % p] = 1;
  auto exchange =
      world.all_to_all_async(in.data(), sent, offsets, out.data(), expected, offsets, DataType::f32);
  CHECK_THROWS_WITH_AS(exchange.wait(),
                       doctest::Contains(("all_to_all: " + words_of(MPI_ERR_TRUNCATE)).c_str()),
                       sw::MpiError);
  const std::vector<Index> counts(p, r == 0 ? 16 : 8);
  auto reduction = world.reduce_scatter_async(in.data(), out.data(), counts, DataType::f32, ReduceOp::sum);
  if (r == 0) return reduction.wait();
  CHECK_THROWS_WITH_AS(reduction.wait(),
                       doctest::Contains(("reduce_scatter: " + words_of(MPI_ERR_TRUNCATE)).c_str()),
                       sw::MpiError);
}

TEST_CASE("numbers and texts of all ranks, and the text of rank 0") {
  const auto world = sw::world();
  const auto rank = static_cast<std::size_t>(world.rank()), size = static_cast<std::size_t>(world.size());
  const Index mine[]{world.rank(), -world.rank()};
  const std::vector<Index> numbers = world.all_gather(mine);
  const std::vector<std::string> texts = world.all_gather(std::string(rank, 'x') + '\0');
  REQUIRE(numbers.size() == 2 * size);
  REQUIRE(texts.size() == size);
  for (std::size_t r = 0; r < size; ++r) {
    CHECK(numbers[2 * r] == static_cast<Index>(r));
    CHECK(numbers[2 * r + 1] == -static_cast<Index>(r));
    CHECK(texts[r] == std::string(r, 'x') + '\0');
  }
  CHECK(world.broadcast(rank == 0 ? "of rank 0" : "of another") == "of rank 0");
}

TEST_CASE("no rank goes on before rank 0 has come" * doctest::test_suite("MPI")) {
  const auto world = sw::world();
  world.barrier();
  const double begin = MPI_Wtime();
  world.barrier();  // so rank 0 sleeps after all have begun
  if (world.rank() == 0) sw::detail::sleep_for(0.2);
  world.wait_for_first_rank();
  CHECK(MPI_Wtime() - begin > 0.1);
}

TEST_CASE("agree is true only where all agree") {
  const auto world = sw::world();
  CHECK(world.agree(true));
  CHECK_FALSE(world.agree(false));
  CHECK_FALSE(world.agree(world.rank() != world.size() - 1));
}

TEST_CASE("an environment inside another neither initialises nor finalises" * doctest::test_suite("MPI")) {
  int argc = 0;
  char** argv = nullptr;
  {
    sw::Environment second(argc, argv);
    CHECK_FALSE(second.owns_mpi());
    CHECK(second.thread_level() >= sw::ThreadLevel::funneled);
  }
  CHECK_FALSE(sw::detail::mpi_finalized());
  sw::world().barrier();
}

TEST_CASE("the counter sees one call for each collective, and its bytes" * doctest::test_suite("MPI")) {
  const auto world = sw::world();
  const int p = world.size();
  std::vector<Index> counts;
  for (int r = 0; r < p; ++r) counts.push_back(r + 1);
  const auto offsets = offsets_of(counts);
  const std::vector<Index> ones(at(p), 1);
  const auto each = offsets_of(ones);
  const Index total = offsets.back() + counts.back();
  std::vector<float> in(at(total), 1.0F);
  std::vector<float> out(at(total));

  mpi_counter::reset();
  world.all_reduce(in.data(), out.data(), total, DataType::f32, ReduceOp::sum);
  world.all_gather(in.data(), out.data(), counts, offsets, DataType::f32);
  world.reduce_scatter(in.data(), out.data(), counts, DataType::f32, ReduceOp::sum);
  world.all_to_all(in.data(), ones, each, out.data(), ones, each, DataType::f32);
  world.reduce_scatter_async(in.data(), out.data(), counts, DataType::f32, ReduceOp::sum).wait();
  const auto& seen = mpi_counter::counts();
  if (!through_mpi()) {
    CHECK(seen.data_calls() == 0);
    return;
  }
  CHECK(seen.all_reduce.calls == 1);
  CHECK(seen.all_reduce.bytes == 4 * total);
  CHECK(seen.all_gather.calls == 1);
  CHECK(seen.all_gather.bytes == 4 * total);
  CHECK(seen.reduce_scatter.calls == 2);
  CHECK(seen.reduce_scatter.bytes == 8 * total);
  CHECK(seen.all_to_all.calls == 1);
  CHECK(seen.all_to_all.bytes == 4 * p);
  CHECK(seen.data_calls() == 5);
  world.barrier();
  CHECK(seen.data_calls() == 5);
}

#ifndef __SANITIZE_ADDRESS__  // which needs memory of its own for an exception
struct Waits {
  void work() const {
    while (!over) std::this_thread::yield();
  }
  std::atomic<bool> over = false;
};
TEST_CASE("a thread for which the system has no room is an error that names the limits") {
  Waits waits;
  std::vector<pthread_t> threads;
  std::string problem;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  rlimit little = before;
  little.rlim_cur = 1 << 20;  // no new stack
  REQUIRE(::setrlimit(RLIMIT_AS, &little) == 0);
  try {
    while (threads.size() < 100)
      threads.push_back(shardwise::detail::start_thread<&Waits::work>(waits, "here"));
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  CHECK(::setrlimit(RLIMIT_AS, &before) == 0);
  waits.over = true;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  CHECK(problem.find("here: a thread cannot be started (error 11): expected room for another by ulimit -u") ==
        0);
}
#endif
