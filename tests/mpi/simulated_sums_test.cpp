// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sums of real ranks, on one host and as if on several, and of the same ranks in a simulation: the same bits.

#include <doctest/doctest.h>
#include <shardwise/comm/environment.hpp>
#include <shardwise/nn/loss_of_rows.hpp>
#include <shardwise/simulate/simulate.hpp>

#include <cstring>
#include <functional>

namespace sw = shardwise;
using sw::Index;

namespace {

using Bits = std::vector<char>;
using Sum = std::function<Bits(const sw::Communicator& ranks)>;

/// Numbers whose sum depends on its order, other ones on each rank.
template <class T>
std::vector<T> terms(Index count, int rank) {
  std::vector<T> all(static_cast<std::size_t>(count));
  std::uint64_t random = 88172645463325252u + static_cast<std::uint64_t>(rank) * 7919;
  for (T& each : all) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const double value =
        (static_cast<double>(random >> 40) - 8e6) * std::pow(10., static_cast<double>(random % 5));
    if constexpr (sizeof(T) == 2) {
      each = T{sw::detail::round_to_bf16(static_cast<float>(value))};
    } else {
      each = static_cast<T>(value);
    }
  }
  return all;
}

template <class T>
Bits summed(const sw::Communicator& ranks, sw::DataType type, Index count, bool scatters, bool background) {
  const std::vector<T> mine = terms<T>(count, ranks.rank());
  std::vector<Index> counts;
  for (int r = 0; r < ranks.size(); ++r)
    counts.push_back(count * (r + 1) / ranks.size() - count * r / ranks.size());
  Bits out(sizeof(T) *
           static_cast<std::size_t>(scatters ? counts[static_cast<std::size_t>(ranks.rank())] : count));
  const auto sum = sw::ReduceOp::sum;
  if (scatters && background) {
    ranks.reduce_scatter_async(mine.data(), out.data(), counts, type, sum).wait();
  } else if (scatters) {
    ranks.reduce_scatter(mine.data(), out.data(), counts, type, sum);
  } else if (background) {
    ranks.all_reduce_async(mine.data(), out.data(), count, type, sum).wait();
  } else {
    ranks.all_reduce(mine.data(), out.data(), count, type, sum);
  }
  return out;
}

/// Whether this rank has the same bits in a simulation of all.
bool as_simulated(const std::function<int(int rank)>& host_of, const Sum& sum) {
  const int rank = sw::world().rank(), size = sw::world().size();
  const auto here = [&] { return sum(sw::world().on_hosts(host_of(sw::world().rank()))); };
  const Bits real = here();
  Bits simulated;
  sw::simulate(size, [&] {
    const Bits found = here();
    if (sw::world().rank() == rank) simulated = found;
  });
  return real == simulated;
}

template <class T>
void compare(sw::DataType type) {
  const std::vector<std::function<int(int)>> arrangements{
      [](int) { return 0; }, [](int rank) { return rank; }, [](int rank) { return rank / 2; },
      [](int rank) { return rank % 2; }, [](int rank) { return rank == 0 ? 0 : 1; }};
  for (std::size_t hosts = 0; hosts < arrangements.size(); ++hosts) {
    for (const Index count : {Index{7}, Index{1000}, Index{5000}, Index{70000}}) {
      for (const bool scatters : {false, true}) {
        for (const bool background : {false, true}) {
          const Index bytes = count * Index{sizeof(T)};  // what MPI sums has its order
          const bool few = bytes * sw::world().size() <= 16384 && !scatters;
          const bool by_mpi = hosts > 0 && !background && bytes < 16384 && !few && sizeof(T) != 2;
          if (by_mpi && sw::world().size() > 2) continue;
          CAPTURE(hosts);
          CAPTURE(count);
          CAPTURE(scatters);
          CAPTURE(background);
          CHECK(as_simulated(arrangements[hosts], [&](const sw::Communicator& ranks) {
            return summed<T>(ranks, type, count, scatters, background);
          }));
        }
      }
    }
  }
}

struct Bf16 {
  std::uint16_t bits;
};

}  // namespace

TEST_CASE("sums of float") { compare<float>(sw::DataType::f32); }
TEST_CASE("sums of double") { compare<double>(sw::DataType::f64); }
TEST_CASE("sums of bfloat16") { compare<Bf16>(sw::DataType::bf16); }
TEST_CASE("the losses of rows, whose classes are cut") {
  using Rows = sw::kernel::RowTerms<float>;
  for (const Index rows : {Index{37}, Index{1001}, Index{30011}}) {
    for (const int many : {1, 0}) {  // hosts
      if (many == 1 && rows * Index{sizeof(Rows)} * sw::world().size() > 16384 && sw::world().size() > 2)
        continue;
      CAPTURE(rows);
      CAPTURE(many);
      CHECK(as_simulated([&](int rank) { return many * rank; },
                         [&](const sw::Communicator& ranks) {
                           const std::vector<float> numbers = terms<float>(3 * rows, ranks.rank());
                           std::vector<Rows> mine, all(static_cast<std::size_t>(rows));
                           for (std::size_t i = 0; i < all.size(); ++i)
                             mine.push_back({numbers[3 * i] * 1e-10f,
                                             1 + std::abs(numbers[3 * i + 1]) * 1e-8f, numbers[3 * i + 2]});
                           ranks.all_reduce(mine.data(), all.data(), rows);
                           Bits bits(sizeof(Rows) * all.size());
                           std::memcpy(bits.data(), all.data(), bits.size());
                           return bits;
                         }));
    }
  }
}
