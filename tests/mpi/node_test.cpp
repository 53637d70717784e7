// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Collectives through the memory that the ranks of a host share: every bit of their results, at sizes that take each
/// of their ways; and what they do while they wait.

#include <doctest/doctest.h>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/reduced_numbers.hpp>

#include <cstring>
#include <ctime>
#include <vector>

namespace sw = shardwise;
using sw::DataType;
using sw::Index;
using sw::ReduceOp;

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Terms whose sum depends on the order.
std::vector<float> terms(int rank, Index n) {
  std::vector<float> values(at(n));
  for (Index i = 0; i < n; ++i)
    values[at(i)] = 1.0F / static_cast<float>((rank + 1) * 7 + (i * (rank + 3)) % 1013);
  return values;
}
/// What ranks 0, 1, 2, … come to in this order.
std::vector<float> sum_in_order(int ranks, Index n) {
  std::vector<float> sum = terms(0, n);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<float> next = terms(r, n);
    for (Index i = 0; i < n; ++i) sum[at(i)] += next[at(i)];
  }
  return sum;
}
bool same_bits(const float* a, const float* b, Index n) {
  return n == 0 || std::memcmp(a, b, at(n) * sizeof(float)) == 0;
}

/// Elements: one, what lies beside a flag and one more, around what is reduced whole, around a slot, around what is
/// read where it lies, several slots.
const std::vector<Index> sizes{1,     2,     12,    13,    1000,  2048,   2049,   21844,
                               32767, 32768, 32769, 65535, 65536, 100003, 700001, 2100000};

/// Uneven blocks of `n` elements together; the last but one rank has none.
std::vector<Index> uneven(int ranks, Index n, bool growing) {
  std::vector<Index> counts(at(ranks), 0);
  Index left = n;
  for (int r = 0; r < ranks; ++r) {
    const int place = growing ? ranks - 1 - r : r;
    if (ranks > 2 && place == ranks - 2) continue;
    counts[at(place)] = r + 1 == ranks || left < 3 ? left : left * 2 / 3;
    left -= counts[at(place)];
  }
  counts[0] += left;
  return counts;
}

struct Wide {
  double values[250];  // wider than a slot of 64 ranks would take
  static void combine(Index count, const Wide* terms, Wide* results) {
    for (Index i = 0; i < count; ++i)
      for (int j = 0; j < 250; ++j) results[i].values[j] += terms[i].values[j];
  }
};

double seconds_of_this_process() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

TEST_CASE("a communicator says what moves its data") {
  const auto world = sw::world();
  CHECK(world.transport() == std::string(world.size() == 1 ? "MPI" : "shared memory"));
}

TEST_CASE("sums have the bits of the order of the ranks, on all ranks, in every run, in place or not") {
  const auto world = sw::world();
  const int p = world.size();
  for (Index n : sizes) {
    CAPTURE(n);
    const auto in = terms(world.rank(), n);
    const auto expected = sum_in_order(p, n);
    for (int repeated = 0; repeated < 3; ++repeated) {
      std::vector<float> out(at(n));
      auto in_place = in;
      world.all_reduce(in.data(), out.data(), n, DataType::f32, ReduceOp::sum);
      world.all_reduce(in_place.data(), in_place.data(), n, DataType::f32, ReduceOp::sum);
      CHECK(same_bits(out.data(), expected.data(), n));
      CHECK(same_bits(in_place.data(), expected.data(), n));
    }
    for (bool growing : {false, true}) {
      const auto counts = uneven(p, n, growing);
      const auto offsets = sw::detail::offsets_of(counts);
      const Index mine = counts[at(world.rank())], first = offsets[at(world.rank())];
      std::vector<float> out(at(mine));
      auto in_place = in;
      world.reduce_scatter(in.data(), out.data(), counts, DataType::f32, ReduceOp::sum);
      world.reduce_scatter(in_place.data(), in_place.data(), counts, DataType::f32, ReduceOp::sum);
      CHECK(same_bits(out.data(), expected.data() + first, mine));
      CHECK(same_bits(in_place.data(), expected.data() + first, mine));
    }
  }
}

TEST_CASE("blocks arrive whole, of any sizes and at any places") {
  const auto world = sw::world();
  const int p = world.size(), me = world.rank();
  for (Index n : sizes) {
    CAPTURE(n);
    for (bool growing : {false, true}) {
      const auto counts = uneven(p, n, growing);
      auto offsets = sw::detail::offsets_of(counts);
      for (int r = 0; r < p; ++r) offsets[at(r)] += 3 * r;  // gaps
      const auto in = terms(me, counts[at(me)]);
      std::vector<float> out(at(n + 3 * p)), in_place(out.size());
      std::copy(in.begin(), in.end(), in_place.begin() + offsets[at(me)]);
      world.all_gather(in.data(), out.data(), counts, offsets, DataType::f32);
      world.all_gather(in_place.data() + offsets[at(me)], in_place.data(), counts, offsets, DataType::f32);
      for (int r = 0; r < p; ++r) {
        const auto expected = terms(r, counts[at(r)]);
        CHECK(same_bits(out.data() + offsets[at(r)], expected.data(), counts[at(r)]));
        CHECK(same_bits(in_place.data() + offsets[at(r)], expected.data(), counts[at(r)]));
      }

      // From r to s go the counts of the one, as many times as the other's number says.
      const auto between = [&](int r, int s) { return (r + s) % 2 == 0 ? counts[at(r)] : counts[at(s)] / 3; };
      std::vector<Index> send, recv;
      for (int r = 0; r < p; ++r) {
        send.push_back(between(me, r));
        recv.push_back(between(r, me));
      }
      auto send_offsets = sw::detail::offsets_of(send), recv_offsets = sw::detail::offsets_of(recv);
      std::vector<float> sent(at(send_offsets.back() + send.back()));
      std::vector<float> received(at(recv_offsets.back() + recv.back()));
      for (int r = 0; r < p; ++r) {
        const auto block = terms(me * p + r, send[at(r)]);
        std::copy(block.begin(), block.end(), sent.begin() + send_offsets[at(r)]);
      }
      world.all_to_all(sent.data(), send, send_offsets, received.data(), recv, recv_offsets, DataType::f32);
      for (int r = 0; r < p; ++r) {
        const auto expected = terms(r * p + me, recv[at(r)]);
        CHECK(same_bits(received.data() + recv_offsets[at(r)], expected.data(), recv[at(r)]));
      }
    }
  }
}

TEST_CASE("bfloat16 is added up in float, in the order of the ranks, and rounded once") {
  const auto world = sw::world();
  for (Index n : {1, 5000, 300000}) {
    const auto term = [&](int rank, Index i) {
      return sw::detail::round_to_bf16(1.0F / static_cast<float>(rank + 3 + i % 97));
    };
    std::vector<std::uint16_t> values, expected;
    for (Index i = 0; i < n; ++i) {
      values.push_back(term(world.rank(), i));
      float sum = sw::detail::widen_bf16(term(0, i));
      for (int r = 1; r < world.size(); ++r) sum += sw::detail::widen_bf16(term(r, i));
      expected.push_back(sw::detail::round_to_bf16(sum));
    }
    world.all_reduce(values.data(), values.data(), n, DataType::bf16, ReduceOp::sum);
    CHECK(values == expected);
  }
}

TEST_CASE("structs of any width") {
  const auto world = sw::world();
  for (Index n : {1, 3, 100, 500}) {
    std::vector<Wide> in(at(n)), out(at(n));
    for (Index i = 0; i < n; ++i)
      for (int j = 0; j < 250; ++j) in[at(i)].values[j] = static_cast<double>(i + j + world.rank());
    world.all_reduce(in.data(), out.data(), n);
    bool right = true;
    const int p = world.size();
    for (Index i = 0; i < n; ++i)
      for (int j = 0; j < 250; ++j)
        right = right && out[at(i)].values[j] == static_cast<double>((i + j) * p + p * (p - 1) / 2);
    CHECK(right);
  }
}

TEST_CASE("many communicators at once, of all ranks and of some, in turn") {
  const auto world = sw::world();
  std::vector<sw::Communicator> all;
  for (int i = 0; i < 20; ++i) all.push_back(sw::Communicator::duplicate(world.native()));
  std::vector<int> like_me;
  for (int r = world.rank() % 2; r < world.size(); r += 2) like_me.push_back(r);
  const auto half = world.subgroup(like_me);
  bool right = true;
  for (int i = 0; i < 200; ++i) {
    const auto& one = all[at(i * 7 % 20)];
    std::int32_t sum = i + world.rank(), of_half = 1;
    one.all_reduce(&sum, &sum, 1, DataType::i32, ReduceOp::sum);
    half.all_reduce(&of_half, &of_half, 1, DataType::i32, ReduceOp::sum);
    const int p = world.size();
    right = right && sum == i * p + p * (p - 1) / 2 && of_half == static_cast<int>(like_me.size());
  }
  CHECK(right);
}

TEST_CASE("ranks that call different collectives all throw, and can go on") {
  const auto world = sw::world();
  const int p = world.size();
  if (p == 1) return;
  const bool differs = world.rank() == p - 1;
  std::vector<float> x(200000, 1.0F), y(x);
  const char* message = "ranks differ in their collective";
  for (Index n : {Index{5}, Index{3000}, Index{100000}}) {
    CAPTURE(n);
    const Index other = differs ? n + 1 : n;
    const DataType type = differs ? DataType::i32 : DataType::f32;
    const ReduceOp op = differs ? ReduceOp::max : ReduceOp::sum;
    const std::vector<Index> counts(at(p), other / p);
    CHECK_THROWS_WITH(world.all_reduce(x.data(), y.data(), other, DataType::f32, ReduceOp::sum),
                      doctest::Contains(message));
    CHECK_THROWS_WITH(world.all_reduce(x.data(), y.data(), n, type, ReduceOp::sum),
                      doctest::Contains(message));
    CHECK_THROWS_WITH(world.all_reduce(x.data(), y.data(), n, DataType::f32, op), doctest::Contains(message));
    const auto kind = [&] {
      if (differs) return world.reduce_scatter(x.data(), y.data(), counts, DataType::f32, ReduceOp::sum);
      world.all_reduce(x.data(), y.data(), n, DataType::f32, ReduceOp::sum);
    };
    CHECK_THROWS_WITH(kind(), doctest::Contains(message));
    world.all_reduce(x.data(), y.data(), n, DataType::f32, ReduceOp::sum);
    CHECK(y[at(n - 1)] == static_cast<float>(p));
  }
}

TEST_CASE("ranks that expect other blocks than are sent all throw") {
  const auto world = sw::world();
  const int p = world.size();
  if (p == 1) return;
  const bool differs = world.rank() == p - 1;
  std::vector<float> x(at(Index{200000} * p), 1.0F), y(x);
  for (const Index n : {Index{3}, Index{150000}}) {  // the second goes through MPI where it is gathered
    CAPTURE(n);
    const Index other = differs ? n + 1 : n;
    const std::vector<Index> counts(at(p), other);
    std::vector<Index> offsets;
    for (Index r = 0; r < p; ++r) offsets.push_back(r * other);
    CHECK_THROWS_WITH(world.all_gather(x.data(), y.data(), counts, offsets, DataType::f32),
                      doctest::Contains("ranks differ in their collective"));
    const auto exchange = [&] {
      world.all_to_all(x.data(), counts, offsets, y.data(), counts, offsets, DataType::f32);
    };
    CHECK_THROWS_WITH(exchange(), doctest::Contains(" elements of rank "));
    // Also where a rank sends nothing, and expects it.
    const std::vector<Index> sent(at(p), differs ? 0 : n), expected(at(p), n);
    const auto nothing = [&] {
      world.all_to_all(x.data(), sent, offsets, y.data(), expected, offsets, DataType::f32);
    };
    if (differs) {
      nothing();  // what it expects is sent
    } else {
      CHECK_THROWS_WITH(nothing(), doctest::Contains("which sends 0"));
    }
    world.barrier();
  }
}

TEST_CASE("a rank that waits leaves its core to others") {
  const auto world = sw::world();
  world.barrier();
  const double before = seconds_of_this_process();
  if (world.rank() == 0) sw::detail::sleep_for(0.5);
  world.barrier();
  CHECK(seconds_of_this_process() - before < 0.2);
}

TEST_CASE("MPI goes on while ranks wait in shared memory") {
  const auto world = sw::world();
  std::vector<float> x(1 << 20, 1.0F), y(x);
  const int n = static_cast<int>(x.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(x.data(), y.data(), n, MPI_FLOAT, MPI_SUM, world.native(), &request);
  if (world.rank() == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);  // which needs all the others
  world.barrier();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(y[12345] == static_cast<float>(world.size()));

  const auto far = world.on_hosts(world.rank());  // as if each had a host for itself
  auto later = far.all_reduce_async(x.data(), x.data(), n, DataType::f32, ReduceOp::sum);
  if (world.rank() == 0) later.wait();
  world.barrier();
  later.wait();
  CHECK(x[12345] == static_cast<float>(world.size()));
}
