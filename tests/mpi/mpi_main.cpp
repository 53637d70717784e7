// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The `main` of every MPI test: doctest under `shardwise::Environment`. Every rank runs every test case; a
/// rank's report is printed in one piece under its number, rank 0's always and the others' where they failed,
/// and one failing rank fails the whole job.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/mesh/environment.hpp>

#include <cstdio>
#include <sstream>
#include <string>

int main(int argc, char** argv) {
  return shardwise::run(argc, argv, [&] {
    const shardwise::Communicator world = shardwise::world();
    std::ostringstream report;
    doctest::Context context(argc, argv);
    context.setOption("no-colors", true);
    context.setCout(&report);
    const int failed = context.run();
    const std::string text = report.str();
    if (world.rank() == 0 || failed != 0) {
      const std::string title =
          "---- rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size());
      std::fputs((title + "\n" + text).c_str(), stdout);
      std::fflush(stdout);
    }
    int any = 0;
    world.all_reduce(&failed, &any, 1, shardwise::DataType::i32, shardwise::ReduceOp::max);
    return any;
  });
}
