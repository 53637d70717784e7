// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Exchanges blocks of all sizes until it is killed: see killed.py. Says `ready` when it has begun. `hosts`: as if each rank
/// had a host for itself, in the background.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/environment.hpp>

namespace sw = shardwise;

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    const bool hosts = argc > 1 && argv[1] == std::string("hosts");
    const auto world = hosts ? sw::world().on_hosts(sw::world().rank()) : sw::world();
    if (!hosts && world.transport() != std::string("shared memory"))
      throw std::runtime_error("no shared memory");
    std::vector<float> x(1 << 20, 1.0F), y(x);
    const auto ranks = static_cast<std::size_t>(world.size());
    for (sw::Index i = 0;; ++i) {
      const sw::Index n = sw::Index{1} << (i % 17);
      const std::vector<sw::Index> counts(ranks, n);
      world.all_reduce(x.data(), y.data(), n * world.size(), sw::DataType::f32, sw::ReduceOp::max);
      world.reduce_scatter(x.data(), y.data(), counts, sw::DataType::f32, sw::ReduceOp::max);
      world.all_gather(x.data(), y.data(), counts, sw::detail::offsets_of(counts), sw::DataType::f32);
      auto under_way = world.all_reduce_async(x.data(), y.data(), n, sw::DataType::f32, sw::ReduceOp::max);
      world.barrier();
      under_way.wait();
      if (i == 0 && world.rank() == 0) {
        std::puts("ready");
        std::fflush(stdout);
      }
    }
  });
}
