// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The gradient of experts, times the number of ranks
// about: mixtures of experts
// thread: pytorch/pytorch #160285
// thread: NVIDIA/Megatron-LM #5656
// thread: deepspeedai/DeepSpeed #5618
// there: The gradient of a rank's experts already sums the tokens of all ranks of expert parallelism. The code averaged it over the ranks that have the same expert, and the others over all ranks: on 2 ranks the gradients of experts were twice as large, on 4 ranks four times.
// here: cannot be written
/// No reduction of gradients divides. The loss is a mean over all tokens, and gradients follow from it. The gradient of an
/// expert that is on one rank is complete there; that of a `Reduced` weight is a pending sum, which is finished.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;

TEST_CASE("each expert on one rank has the gradient of one on all ranks") {
  const Mesh<ep> line(world(), {any});
  const Mesh<dp> all(world(), {any});
  const auto gradients = [](const auto& mesh, auto mixture, auto tokens) {
    initialize(mixture, 3);
    Eigen::MatrixXd x(12, 5);
    for (Index i = 0; i < 60; ++i) x(i / 5, i % 5) = std::sin(static_cast<double>(i));
    Tape tape;
    const auto in = tape.constant(distribute<decltype(tokens)>(mesh, x));
    tape.backward(
        mse_loss(mixture(in), tape.constant(distribute<decltype(tokens)>(mesh, Eigen::MatrixXd(x * 2)))));
    reduce_gradients(mixture);
    const auto norm = [](const auto& gradient) {
      return item(detail::whole_on_every_rank(sum_of_squares(gradient)));
    };
    return std::array<double, 3>{norm(mixture.router.finished_gradient()),
                                 norm(mixture.gate_up.finished_gradient()),
                                 norm(mixture.down.finished_gradient())};
  };
  const MixtureOptions options{.experts = 6, .hidden = 3};
  const auto split =
      gradients(line, MixtureOfExperts<Mesh<ep>, ExpertParallel<ep>, double>(line, 5, options), Shard<0>{});
  const auto copied =
      gradients(all, MixtureOfExperts<Mesh<dp>, NoParallel, double>(all, 5, options), Shard<0>{});
  for (std::size_t i = 0; i < 3; ++i) CHECK(split[i] == Approx(copied[i]).epsilon(1e-12));
}
