// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Products with quantised weights, and with weights in float, against reading the same memory once. The weights of
/// all matrices together are far larger than any cache, as in decoding.

#include <array>
#include <cstdio>
#include <cstring>

#include <shardwise/llm/decoding/block_product.hpp>

#include "support.hpp"

namespace sw = shardwise;
namespace kernel = shardwise::llm::kernel;
using sw::Index;

namespace {

using kernel::Instructions;

/// Of x in one product: a few when decoding, many for a prompt.
constexpr std::array<Index, 6> row_counts{1, 2, 3, 4, 8, 64};

struct Options {
  Index features = 2048, megabytes = 640;
  int repetitions = 9;
  bool all = false;
};

/// Reads memory as fast as one core can. The result only keeps the loop.
template <class Weight>
std::uint64_t read_all(const std::vector<Weight>& weights) {
  using Lane = std::uint64_t __attribute__((vector_size(64)));
  const auto* bytes = reinterpret_cast<const char*>(weights.data());
  const std::size_t size = weights.size() * sizeof(Weight);
  Lane sums[8] = {}, line;
  for (std::size_t at = 0; at + sizeof sums <= size; at += sizeof sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      std::memcpy(&line, bytes + at + i * sizeof line, sizeof line);
      sums[i] ^= line;
    }
  }
  for (std::size_t i = 1; i < 8; ++i) sums[0] ^= sums[i];
  return sums[0][0] ^ sums[0][7];
}

volatile std::uint64_t kept;

/// Times `multiply(matrix, rows)` over all matrices.
template <class Weight, class Multiply>
void compare(const char* what, const Options& options, const std::vector<Weight>& weights, Index matrix_size,
             Multiply multiply) {
  const double bytes = static_cast<double>(weights.size() * sizeof(Weight));
  const Index matrices = static_cast<Index>(weights.size()) / matrix_size;
  for (const Index rows : row_counts) {
    const auto all = [&] {
      for (Index m = 0; m < matrices; ++m) multiply(weights.data() + m * matrix_size, rows);
    };
    const auto c = benchmarks::interleave(options.repetitions, 1, all, [&] { kept = read_all(weights); });
    if (sw::world().rank() != 0) continue;
    std::printf("%-22s %4td %9.1f GB/s %9.1f GB/s   %5.3f  (%.3f to %.3f)\n", what, rows,
                bytes / c.ours / 1e9, bytes / c.bare / 1e9, 1 / c.ratio, 1 / c.upper, 1 / c.lower);
    std::fflush(stdout);
  }
}

/// Copies of one matrix, together of the size that the options demand.
template <class Weight>
std::vector<Weight> repeat(const Options& options, const std::vector<Weight>& matrix) {
  std::vector<Weight> weights;
  const auto bytes = static_cast<std::size_t>(options.megabytes) * 1000000;
  weights.reserve(bytes / sizeof(Weight) + matrix.size());
  while (weights.size() * sizeof(Weight) < bytes) weights.insert(weights.end(), matrix.begin(), matrix.end());
  return weights;
}

template <class Block>
void compare_blocks(const char* bits, const Options& options, const std::vector<float>& matrix,
                    const std::vector<float>& x, std::vector<float>& y) {
  const Index n = options.features, groups = n / kernel::numbers_per_block;
  std::vector<Block> blocks(static_cast<std::size_t>(n * groups));
  kernel::quantise(n * groups, matrix.data(), blocks.data());
  const auto weights = repeat(options, blocks);
  const char* names[] = {"portable", "AVX2", "AVX-512 VNNI"};
  for (auto set : {Instructions::avx512_vnni, Instructions::avx2, Instructions::portable}) {
    const auto best = kernel::best_instructions();
    if (options.all ? set > best : set != best) continue;
    const std::string what = std::string(bits) + ", " + names[static_cast<int>(set)];
    compare(what.c_str(), options, weights, n * groups, [&](const Block* w, Index rows) {
      kernel::block_product(rows, n, groups, x.data(), n, w, groups, y.data(), n, set);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times products with quantised weights against reading them.", "block_product");
    app.option_defaults()->always_capture_default();
    app.add_option("--features", options.features, "of the square matrices; a multiple of 32")
        ->check(CLI::Range(32, 1 << 16));
    app.add_option("--megabytes", options.megabytes, "of all weights")->check(CLI::Range(1, 1 << 20));
    app.add_option("--repetitions", options.repetitions, "of each way")->check(CLI::Range(1, 1000000));
    app.add_flag("--all", options.all, "also instruction sets that this processor has, but does not use");
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;
    if (options.features % kernel::numbers_per_block != 0) {
      std::fprintf(stderr, "--features %td is not a multiple of 32\n", options.features);
      return 1;
    }

    const Index n = options.features;
    std::vector<float> matrix(static_cast<std::size_t>(n * n)),
        x(static_cast<std::size_t>(row_counts.back() * n)), y(x.size());
    kernel::fill_uniform(n * n, 1, 0, -1, 1, matrix.data());
    kernel::fill_uniform(row_counts.back() * n, 2, 0, -1, 1, x.data());
    if (sw::world().rank() == 0) {
      std::printf("block_product: matrices [%td, %td], %td MB of weights, %d ranks; medians of %d\n", n, n,
                  options.megabytes, sw::world().size(), options.repetitions);
      std::printf("%-22s %4s %14s %14s   %s\n", "weights", "rows", "a rank", "reading", "ratio");
    }
    compare_blocks<kernel::Block16>("16 bits", options, matrix, x, y);
    compare_blocks<kernel::Block8>("8 bits", options, matrix, x, y);
    compare_blocks<kernel::Block4>("4 bits", options, matrix, x, y);
    compare("float, gemm", options, repeat(options, matrix), n * n, [&](const float* w, Index rows) {
      kernel::gemm(kernel::Transpose::no, kernel::Transpose::yes, rows, n, n, x.data(), n, w, n, y.data(), n,
                   false);
    });
    return 0;
  });
}
