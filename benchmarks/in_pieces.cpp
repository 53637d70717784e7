// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Messages beside computation, for ranks on several hosts: a random Llama whose sequence is cut, with the style
/// `InPieces` and without it, and with gradients of parameters computed during messages and after them, in turn.

#include "support.hpp"

namespace {

namespace sw = shardwise;
using Mesh = sw::Mesh<sw::tp>;
using Whole = sw::llm::LlamaSequenceParallel<>;
using Pieces = sw::PlanWith<Whole, sw::InPieces<4>>;

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 2048, .features = 768, .layers = 4, .heads = 12, .kv_heads = 12, .hidden = 2048};
  sw::Index batch = 4, sequence = 256;
  int repetitions = 8;
};

template <class Plan>
struct Run {
  const Mesh& mesh;
  const Options& options;
  sw::llm::Llama<Mesh, Plan> model{mesh, options.model};

  auto tokens() const {
    return benchmarks::random_ids<sw::Tensor<std::int32_t, 2, Mesh, sw::Replicate>>(
        mesh, {options.batch, options.sequence}, options.model.vocabulary, 7);
  }
  void forward() { model(tokens()); }
  /// `during`: messages may travel while gradients of parameters are computed.
  void pass(bool during) {
    sw::Tape tape;
    const auto loss = sw::CrossEntropyLoss()(model(tape.constant(tokens())), tokens());
    if (during) {
      tape.backward(loss);
    } else {
      tape.backward_inputs(loss);
      tape.backward_parameters();
    }
    sw::reduce_gradients(model);
    sw::clear_gradients(model);
  }
};

void compare(const Mesh& mesh, const Options& options) {
  Run<Pieces> pieces{mesh, options};
  Run<Whole> whole{mesh, options};
  sw::initialize(pieces.model, 3);
  sw::initialize(whole.model, 3);
  const auto print = [&](const char* what, auto with, auto without) {
    const auto [ours, bare, ratio, lower, upper] =
        benchmarks::interleave(options.repetitions, 1, with, without);
    if (sw::world().rank() == 0)
      std::printf("%-50s %9.2f ms %9.2f ms   %.3f (%.3f to %.3f)\n", what, 1e3 * ours, 1e3 * bare, ratio,
                  lower, upper);
  };
  if (sw::world().rank() == 0) std::printf("%-50s %12s %12s   ratio and quartiles\n", "", "with", "without");
  print(
      "forward: InPieces<4>", [&] { pieces.forward(); }, [&] { whole.forward(); });
  print(
      "forward and backward: during messages", [&] { whole.pass(true); }, [&] { whole.pass(false); });
  print(
      "forward and backward: InPieces<4> and during", [&] { pieces.pass(true); }, [&] { whole.pass(false); });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Messages beside computation, on several hosts.");
  benchmarks::add_sizes(app, options.model);
  app.add_option("--batch", options.batch, "sequences")->check(CLI::Range(1, 1 << 20));
  app.add_option("--sequence", options.sequence, "tokens of one")->check(CLI::Range(1, 1 << 20));
  app.add_option("--repetitions", options.repetitions, "whose median counts")->check(CLI::Range(1, 1 << 20));
  return sw::run(argc, argv, [&] {
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Mesh mesh(sw::world(), {sw::world().size()});
    compare(mesh, options);
    return 0;
  });
}
