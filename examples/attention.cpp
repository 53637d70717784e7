// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Causal attention with heads split over all ranks. Prints how far its results are from those of a single rank.

#include <cstdio>

#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

template <class Mesh>
struct Attention : sw::Module<Attention<Mesh>> {
  sw::Linear<Mesh, sw::ColwiseParallel<sw::tp>, float, 2, 1> wq, wk, wv;  // features to [heads, head size]
  sw::Linear<Mesh, sw::RowwiseParallel<sw::tp>, float, 1, 2> wo;  // and back: each rank computes a term

  constexpr Attention(const Mesh& mesh, sw::Shape<1> in, sw::Shape<2> heads)
      : wq(mesh, in, heads), wk(mesh, in, heads), wv(mesh, in, heads), wo(mesh, heads, in) {}
  constexpr auto forward(const auto& x) const {
    const auto [q, k, v] = sw::project(x, wq, wk, wv);  // x is redistributed once, and so is its gradient
    return wo(sw::attention(q, k, v));
  }
  constexpr void visit(auto&& f) { f("wq", wq), f("wk", wk), f("wv", wv), f("wo", wo); }
};

// Megatron's two all-reduces, of 4 sequences of 128 tokens with 512 features: counted at compile time, for 8 ranks.
constexpr auto planned = sw::trace<sw::Mesh<sw::tp>>({8}, [](const auto& mesh) {
  const Attention attention(mesh, {512}, {8, 64});
  sw::Tape tape;
  const auto x = tape.input(sw::empty<float, sw::Replicate>(mesh, {4, 128, 512}));
  tape.backward(sw::sum_of_squares(attention(x)));
});
static_assert(planned.count(sw::Collective::all_reduce, sw::Phase::forward) == 1);
static_assert(planned.count(sw::Collective::all_reduce, sw::Phase::backward) == 1);
static_assert(planned.collectives() == 2 && planned.bytes() == 2 * 4 * 128 * 512 * sizeof(float));

/// The output, and the gradient of the input, both whole on every rank of the mesh.
auto attend(const sw::Mesh<sw::tp>& mesh) {
  Attention attention(mesh, {512}, {8, 64});
  sw::initialize(attention, 1);  // the same weights on any mesh
  sw::Tape tape;
  const auto x = tape.input(sw::randn<float, sw::Replicate>(mesh, {4, 128, 512}, 2));
  const auto y = attention(x);
  tape.backward(sw::sum_of_squares(y));
  std::printf("rank %d of %d has %td of 8 heads\n", mesh.rank(), mesh.size(),
              attention.wq.weight.value().local_shape()[0]);
  return std::pair(sw::full_tensor(y.value()), sw::full_tensor(x.gradient()));
}

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": attention takes no arguments");
    const auto [y, dx] = attend({sw::world(), {sw::any}});
    if (sw::world().rank() != 0) return;
    const auto [y1, dx1] = attend({sw::self(), {1}});
    std::printf("relative difference of the output %.0e, of the gradient %.0e\n", (y - y1).norm() / y1.norm(),
                (dx - dx1).norm() / dx1.norm());
  });
}
