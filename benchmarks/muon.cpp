// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A step of Muon in three ways: every rank gathers and makes orthogonal all matrices; their owners do; and by Gram
/// matrices. Columns are cut. A time is the CPU seconds of the slowest rank, the least of some repetitions.

#include <shardwise/train/muon.hpp>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index;

namespace {

using Line = sw::Mesh<sw::tp>;

struct Layers : sw::Module<Layers> {
  Layers(const Line& mesh, Index count, Index m, Index n) {
    for (Index i = 0; i < count; ++i) weights.emplace_back(mesh, sw::Shape<2>{m, n}, sw::Init::normal(1));
  }
  auto forward(const auto& x) const { return x; }
  void visit(auto&& f) { f("weights", weights); }
  std::vector<sw::Parameter<sw::Tensor<float, 2, Line, sw::Shard<1>>>> weights;
};

/// Layers with gradients, and a step of `optimizer` after `before`.
auto step(const Line& mesh, Index count, Index m, Index n, auto optimizer, auto before) {
  Layers layers(mesh, count, m, n);
  sw::initialize(layers, 1);
  return [=, layers = std::move(layers), optimizer = std::move(optimizer)]() mutable {
    for (auto& weight : layers.weights) weight.slot()->add(sw::randn<float, sw::Shard<1>>(mesh, {m, n}, 2));
    sw::world().barrier();
    const double begin = benchmarks::cpu_seconds();
    before();
    optimizer.step(layers);
    double spent = benchmarks::cpu_seconds() - begin;
    sw::world().all_reduce(&spent, &spent, 1, sw::DataType::f64, sw::ReduceOp::max);
    return spent;
  };
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Index count = 8, m = 512, n = 2048;
    int repetitions = 5;
    CLI::App app("Muon's orthogonal matrices: on every rank, on owners, and by Gram matrices.");
    app.add_option("--count", count, "matrices")->check(CLI::Range(1, 1 << 12));
    app.add_option("--rows", m, "of a matrix")->check(CLI::Range(1, 1 << 16));
    app.add_option("--columns", n, "of a matrix")->check(CLI::Range(1, 1 << 16));
    app.add_option("--repetitions", repetitions, "of which the fastest counts")->check(CLI::Range(1, 1000));
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Line mesh(sw::world(), {sw::any});
    const auto cut = sw::randn<float, sw::Shard<2>>(mesh, {count, m, n}, 2);
    const auto compute_all = [=] {
      auto all = sw::redistribute<sw::Replicate>(cut);
      for (Index i = 0; i < count; ++i)
        sw::kernel::orthogonalize(m, n, all.writable().data + i * m * n, sw::kernel::muon_steps, 1e-7, 1);
      sw::redistribute<sw::Shard<2>>(all);
    };
    const sw::SgdUpdate others{
        .momentum = 0.95, .weight_decay = 0.1, .nesterov = true};  // as Muon's other work
    const auto nothing = [] {};
    auto duplicated = step(mesh, count, m, n, sw::SGD(others), compute_all);
    auto owned = step(mesh, count, m, n, sw::Muon(), nothing);
    auto gram = step(mesh, count, m, n, sw::Muon({.by_gram = true}), nothing);
    double least[]{1e30, 1e30, 1e30};
    for (int i = 0; i < repetitions; ++i) {
      least[0] = std::min(least[0], duplicated());
      least[1] = std::min(least[1], owned());
      least[2] = std::min(least[2], gram());
    }
    if (mesh.rank() == 0) {
      std::printf("%td matrices %td x %td, %d ranks, CPU seconds of the slowest rank\n", count, m, n,
                  mesh.size());
      std::printf("duplicated %.3f, owned %.3f (%.2f times as fast), by Gram matrices %.3f (%.2f)\n",
                  least[0], least[1], least[0] / least[1], least[2], least[0] / least[2]);
    }
    return 0;
  });
}
