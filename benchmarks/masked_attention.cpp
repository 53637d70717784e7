// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Attention over what may be seen, forward and backward, against causal attention over all of the same row: what nobody
/// sees must cost nothing.

#include <cstdio>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index;

namespace {

using Mesh = sw::Mesh<sw::tp>;
using Heads = sw::Tensor<float, 4, Mesh, sw::Shard<2>>;
using Documents = sw::Tensor<std::int32_t, 2, Mesh, sw::Replicate>;

struct Options {
  Index tokens = 2048, heads = 8, head_dim = 64, packed = 8;
  int repetitions = 15;
};

Documents documents_of(const Mesh& mesh, Index tokens, Index size) {
  Documents documents(mesh, {1, tokens});
  for (Index t = 0; t < tokens; ++t) documents.writable().data[t] = static_cast<std::int32_t>(t / size);
  return documents;
}

void report(const Mesh& mesh, const Options& options) {
  const auto random = [&](std::uint64_t seed) {
    return sw::randn<float, sw::Shard<2>>(mesh, {1, options.tokens, options.heads, options.head_dim}, seed);
  };
  const Heads q = random(1), k = random(2), v = random(3), gradient = random(4);
  const auto step = [&](const auto& attend) {
    return [&] {
      sw::Tape tape;
      const auto tq = tape.input(q), tk = tape.input(k), tv = tape.input(v);
      tape.backward(attend(tq, tk, tv), gradient);
    };
  };
  const auto causal = [](const auto&... x) { return sw::attention(x...); };
  const auto compare = [&](const char* what, const auto& attend) {
    const auto c = benchmarks::interleave(options.repetitions, 1, step(attend), step(causal));
    if (mesh.rank() != 0) return;
    std::printf("%-28s %8.1f ms %8.1f ms   %5.3f  (%.3f to %.3f)\n", what, c.ours * 1e3, c.bare * 1e3,
                c.ratio, c.lower, c.upper);
    std::fflush(stdout);
  };
  const Documents one = documents_of(mesh, options.tokens, options.tokens),
                  many = documents_of(mesh, options.tokens,
                                      (options.tokens + options.packed - 1) / options.packed);
  compare("whole", [](const auto&... x) { return sw::attention(x..., {.causal = false}); });
  compare("causal, one document", [&](const auto&... x) { return sw::attention(x..., one); });
  compare("causal, packed documents", [&](const auto&... x) { return sw::attention(x..., many); });
  compare("causal, window 256", [](const auto&... x) { return sw::attention(x..., {.window = 256}); });
  compare("causal, dropout 0.1", [](const auto&... x) { return sw::attention(x..., {.dropout = 0.1}); });
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times attention over a part of the keys against causal attention over all.",
                 "masked_attention");
    app.option_defaults()->always_capture_default();
    app.add_option("--tokens", options.tokens, "of the row")->check(CLI::Range(1, 1 << 20));
    app.add_option("--heads", options.heads, "over all ranks")->check(CLI::Range(1, 1 << 20));
    app.add_option("--head-dim", options.head_dim, "features of a head")->check(CLI::Range(1, 1 << 20));
    app.add_option("--packed", options.packed, "documents in the row")->check(CLI::Range(1, 1 << 20));
    app.add_option("--repetitions", options.repetitions, "of each way")->check(CLI::Range(1, 1000000));
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const Mesh mesh(sw::world(), {sw::any});
    if (mesh.rank() == 0) {
      std::printf(
          "masked_attention: %td tokens, %td heads of %td, float, on %d ranks; forward and backward, medians "
          "of "
          "%d\n",
          options.tokens, options.heads, options.head_dim, mesh.size(), options.repetitions);
      std::printf("%-28s %11s %11s   %s\n", "", "", "causal", "ratio");
    }
    report(mesh, options);
    return 0;
  });
}
