// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Somebody else's program: it must build in each of the ways that the README names. It uses something of both units of
/// shardwise::shardwise.

#include <cstdio>

#ifdef WITH_PAGE  // where CMake makes it
#include <shardwise/inspect/page.hpp>
#endif
#include <shardwise/schedule/named.hpp>
#include <shardwise/shardwise.hpp>

int main(int argc, char** argv) {
  return shardwise::run(argc, argv, [] {
    const auto world = shardwise::world();
    float x = 1;
    world.all_reduce(&x, &x, 1, shardwise::DataType::f32, shardwise::ReduceOp::sum);
    bool works = shardwise::pipeline_schedule("1f1b", 2, 1, 4).ranks() == 2;
#ifdef WITH_PAGE
    works = works && shardwise::page("{}").starts_with("<!doctype html>");
#endif
    if (world.rank() == 0 && works) std::printf("consumer: %g of %d\n", static_cast<double>(x), world.size());
  });
}
