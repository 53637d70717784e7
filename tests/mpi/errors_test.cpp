// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What cannot be known before the program runs and does not fit: one message that names the numbers, on all
/// ranks alike and before anything is sent.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/activation.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/ops/layer_norm.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/unit.hpp>
#include <support/mpi_counter.hpp>
#include "support/gpt.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace shardwise::testing::errors {
namespace sw = shardwise;
using sw::Index;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<tp>;

Mesh line() { return Mesh(sw::world(), {sw::any}); }

/// The message of the `Error` that f throws; and it must not have communicated.
template <class Error, class F>
std::string refusal(F f) {
  mpi_counter::reset();
  try {
    f();
  } catch (const Error& error) {
    return mpi_counter::counts().data_calls() == 0 ? error.what() : "communicated before it threw";
  }
  return "no error";
}

struct Two : sw::Module<Two> {
  sw::Linear<Mesh> a, b;
  explicit Two(const Mesh& mesh) : a(mesh, 2, 2), b(mesh, 2, 2) {}
  void visit(auto&& f) { f("up", a), f("up", b); }
};

auto ids(const Mesh& mesh, std::vector<std::int32_t> values) {
  return sw::distribute<Replicate>(mesh, sw::Shape<2>{1, static_cast<Index>(values.size())},
                                   std::span<const std::int32_t>(values));
}

}  // namespace

TEST_CASE("attention: heads and ranks") {
  const Mesh mesh = line();
  const int ranks = mesh.size();
  CHECK(refusal<std::invalid_argument>([&] { sw::Attention<Mesh>(mesh, 10, 4); }) ==
        "Attention: 10 features are not a multiple of 4 heads");
  CHECK(refusal<std::invalid_argument>([&] { sw::Attention<Mesh>(mesh, 10, 0); }) ==
        "Attention: 10 features are not a multiple of 0 heads");
  CHECK(refusal<std::invalid_argument>([&] { sw::Attention<Mesh>(mesh, 10, -5); }) ==
        "Attention: 10 features are not a multiple of -5 heads");
  if (ranks > 1) {
    CHECK(refusal<std::invalid_argument>([&] { sw::Attention<Mesh>(mesh, 4, ranks - 1 == 3 ? 2 : 1); }) ==
          "Attention: " + std::string(ranks == 4 ? "2" : "1") + " heads cannot be shared by the " +
              std::to_string(ranks) + " ranks of axis tp: a head is not split, so use at most " +
              (ranks == 4 ? "2" : "1") + " ranks");
  }
  using Gathered = sw::ColwiseParallel<tp, sw::output<Replicate>>;
  CHECK(refusal<std::invalid_argument>([&] { sw::Attention<Mesh, float, Gathered>(mesh, 4, 1); }) ==
        "no error");
  // The same words before a large job is started.
  CHECK(refusal<std::invalid_argument>([] {
          sw::trace<sw::Mesh<tp>>({16}, [](auto dry) { Gpt<decltype(dry)>(dry, {.heads = 8}); });
        }).find("8 heads cannot be shared by the 16 ranks of axis tp") != std::string::npos);
}

TEST_CASE("a parameter without a value") {
  const Mesh mesh = line();
  sw::Mlp<Mesh> mlp(mesh, 4, 8);
  const auto x = sw::zeros<float, Replicate>(mesh, {2, 4});
  const auto unset = [&](const std::string& shape) {  // of its weight, or of its bias: whichever comes first
    const std::string text = refusal<std::logic_error>([&] { mlp(x); });
    return text.find("a parameter " + shape) == 0 &&
           text.find(
               "] is used before it has a value: call initialize(model, seed) first; if you did, a "
               "module's visit does not name it") != text.npos;
  };
  CHECK(unset("[8"));
  sw::initialize(mlp.up, 1);
  CHECK(unset("[4"));
  sw::initialize(mlp, 1);
  CHECK(refusal<std::logic_error>([&] { mlp.up(x); }) == "no error");
  CHECK(refusal<std::invalid_argument>([&] {
          mlp.down.bias.assign(sw::zeros<float, Replicate>(mesh, {5}));
        }) == "Parameter: the value is [5], the parameter [4]");
}

struct Forgetful : sw::Module<Forgetful> {
  explicit Forgetful(const Mesh& mesh) : up(mesh, 4, 8), down(mesh, 8, 4) {}
  auto forward(const auto& x) const { return down(up(x)); }
  void visit(auto&& f) { f("up", up); }
  sw::Linear<Mesh, sw::NoParallel> up, down;
};

TEST_CASE("a member that visit leaves out has no value") {
  const Mesh mesh = line();
  Forgetful model(mesh);
  sw::initialize(model, 1);
  CHECK(refusal<std::logic_error>([&] {
          model(sw::zeros<float, Replicate>(mesh, {2, 4}));
        }).find("visit does not name it") != std::string::npos);
}

TEST_CASE("a tape goes back over an operation once") {
  const Mesh mesh = line();
  const auto value = sw::full<float, Replicate>(mesh, {2, 3}, 1);
  const std::string again = "had its backward pass before";
  sw::Tape tape;
  auto x = tape.input(value);
  CHECK(refusal<std::logic_error>([&] { sw::full_tensor(x.gradient()); }).find("an empty tensor is used") ==
        0);
  const std::string empty = "an empty tensor is used";
  CHECK(refusal<std::logic_error>([&] { sw::scale(x.gradient(), 2); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::add(value, x.gradient()); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::reshape<Replicate>(x.gradient(), {6}); }).find(empty) == 0);
  auto y = sw::mul(x, x);
  auto other = sw::sum(sw::scale(y, 3)), loss = sw::sum(y);
  tape.backward(loss);
  for (const auto& repeated : {other, loss}) {  // `other` was on the tape that `loss` emptied
    CHECK(refusal<std::logic_error>([&] { tape.backward(repeated); }).find(again) != std::string::npos);
  }
  auto late = sw::sum(sw::gelu(y));
  CHECK(refusal<std::logic_error>([&] { tape.backward(late); }).find(again) != std::string::npos);
  CHECK(sw::full_tensor(x.gradient()) == Eigen::MatrixXf::Constant(2, 3, 2));
  auto cleared = sw::sum(sw::mul(x, x));
  tape.clear();
  CHECK(refusal<std::logic_error>([&] { tape.backward(cleared); }).find("or was cleared") !=
        std::string::npos);
  tape.backward(sw::sum(sw::mul(x, x)));  // what is computed anew is added
  CHECK(sw::full_tensor(x.gradient()) == Eigen::MatrixXf::Constant(2, 3, 4));

  sw::Linear<Mesh> head(mesh, 3, 5);
  sw::initialize(head, 1);
  const auto targets = sw::distribute<Replicate>(mesh, {2}, std::vector<std::int32_t>{0, 4});
  auto of_logits = sw::CrossEntropyLoss()(head(x), targets);
  auto in_pieces = sw::LinearCrossEntropyLoss()(x, head.weight, targets);
  auto recomputed = sw::recompute(head, x);
  tape.clear();
  const std::string gone = "or was cleared";
  CHECK(refusal<std::logic_error>([&] { tape.backward(of_logits); }).find(gone) != std::string::npos);
  CHECK(refusal<std::logic_error>([&] { tape.backward(in_pieces); }).find(gone) != std::string::npos);
  const auto ones = sw::full<float, Replicate>(mesh, {2, 5}, 1);
  CHECK(refusal<std::logic_error>([&] { tape.backward(recomputed, ones); }).find(gone) != std::string::npos);
}

TEST_CASE("tensors without a block, and a model that was moved from") {
  const Mesh mesh = line();
  const std::string empty = "an empty tensor is used: one that was moved from, or a gradient";
  auto value = sw::zeros<float, Replicate>(mesh, {2, 4});
  auto moved = std::move(value);
  const decltype(value) none;
  const decltype(none)* const empties[] = {&none, &value};
  sw::Mlp<Mesh> mlp(mesh, 4, 8);
  sw::initialize(mlp, 1);
  for (const auto* x : empties) {
    CHECK(refusal<std::logic_error>([&] { x->local(); }).find(empty) == 0);
    CHECK(refusal<std::logic_error>([&] { sw::redistribute<Shard<0>>(*x); }).find(empty) == 0);
    CHECK(refusal<std::logic_error>([&] { sw::full_tensor(*x); }).find(empty) == 0);
    CHECK(refusal<std::logic_error>([&] { sw::sum(*x); }).find(empty) == 0);
    CHECK(refusal<std::logic_error>([&] { sw::item(sw::Tensor<float, 0, Mesh, Replicate>()); }).find(empty) ==
          0);
    CHECK(refusal<std::logic_error>([&] { mlp(*x); }).find(empty) == 0);
    sw::Tape tape;
    CHECK(refusal<std::logic_error>([&] { mlp(tape.constant(*x)); }).find(empty) == 0);
  }
  CHECK(refusal<std::logic_error>([&] { mlp.up.weight.gradient().local(); }).find(empty) == 0);
  const std::string early = refusal<std::logic_error>([&] { mlp.up.weight.finished_gradient().local(); });
  CHECK(early.find(empty) == 0);
  CHECK(early.find("gradient() before reduce_gradients, and finished_gradient() from then") !=
        std::string::npos);

  sw::Tape tape;
  auto given = tape.input(moved);
  auto given_on = std::move(given);
  const auto ones = sw::full<float, Replicate>(mesh, {2, 4}, 1);
  CHECK(refusal<std::logic_error>([&] { given.gradient(); }).find("gradient: the Var was moved from") == 0);
  CHECK(refusal<std::logic_error>([&] { given.value().local(); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::add(given, given_on); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::redistribute<Shard<0>>(given); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { mlp(given); }).find(empty) == 0);
  CHECK(refusal<std::logic_error>([&] { tape.backward(given, ones); }) != "no error");
  tape.backward(std::move(given_on), ones);
  CHECK(refusal<std::logic_error>([&] { given_on.gradient(); }).find("gradient: the Var was moved from") ==
        0);
  auto loss = sw::sum(tape.input(moved));
  auto loss_too = std::move(loss);
  CHECK(refusal<std::logic_error>([&] { tape.backward(loss); }) != "no error");

  sw::Mlp<Mesh> taken = std::move(mlp);
  const std::string gone = "a parameter is used that was moved from";
  CHECK(refusal<std::logic_error>([&] { mlp(moved); }).find(gone) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::initialize(mlp, 1); }).find(gone) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::SGD({.rate = 1}).step(mlp); }).find(gone) == 0);
  CHECK(refusal<std::logic_error>([&] { sw::parameter_count(mlp); }).find(gone) == 0);
  taken(moved);
  sw::Unit unit(taken.up);
  const sw::Unit unit_too = std::move(unit);
  CHECK(refusal<std::logic_error>([&] { unit(moved, [](const auto& x) { return x; }); }).find(gone) == 0);
}

TEST_CASE("tokens outside the vocabulary, on all ranks, whoever holds the rows") {
  const Mesh mesh = line();
  sw::Embedding<Mesh, sw::RowwiseParallel<tp>> embedding(mesh, 13, 4);
  sw::initialize(embedding, 1);
  const std::string large = refusal<std::out_of_range>([&] { embedding(ids(mesh, {0, 12, 13, 5})); });
  CHECK(large.find("embedding: token 13 at [0, 2] is outside the vocabulary of 13") == 0);
  const std::string negative = refusal<std::out_of_range>([&] { embedding(ids(mesh, {0, -1})); });
  CHECK(negative.find("embedding: token -1 at [0, 1] is outside the vocabulary of 13") == 0);
  CHECK(sw::full_tensor(embedding(ids(mesh, {0, 12}))).rows() == 2);
}

TEST_CASE("targets that are no class, or are too few") {
  const Mesh mesh = line();
  const auto logits = sw::zeros<float, Replicate>(mesh, {1, 3, 7});
  CHECK(refusal<std::out_of_range>([&] {
          sw::CrossEntropyLoss()(logits, ids(mesh, {6, 7, 0}));
        }) == "CrossEntropyLoss: target 7 at [0, 1] is not one of the 7 classes");
  CHECK(refusal<std::invalid_argument>([&] {
          sw::CrossEntropyLoss()(logits, ids(mesh, {6, 0}));
        }).find("CrossEntropyLoss: logits [1 x 3 x 7] and targets [1 x 2] differ in dimension 1") == 0);
}

TEST_CASE("shapes that do not fit") {
  const Mesh mesh = line();
  const auto x = sw::zeros<float, Reduced>(mesh, {2, 5});
  const auto w = sw::zeros<float, Shard<0>>(mesh, {7, 6});
  CHECK(refusal<std::invalid_argument>([&] { sw::linear(x, w); }) ==
        "linear: the operands [2 x 5] and [7 x 6] do not fit: dimension 1 of operand 0 has 5 elements, "
        "dimension 1 of operand 1 has 6");
  const auto fitting = sw::zeros<float, Shard<0>>(mesh, {7, 5});
  const auto bias = sw::zeros<float, Shard<0>>(mesh, {6});
  CHECK(refusal<std::invalid_argument>([&] { sw::linear(x, fitting, bias); }) ==
        "linear: the operands [2 x 5], [7 x 5] and [6] do not fit: dimension 0 of operand 1 has 7 elements, "
        "dimension 0 of operand 2 has 6");
  sw::Mlp<Mesh> mlp(mesh, 6, 8);
  sw::initialize(mlp, 1);
  CHECK(refusal<std::invalid_argument>([&] {
          mlp(sw::zeros<float, Replicate>(mesh, {2, 5}));
        }) ==
        "linear: the operands [2 x 5], [8 x 6] and [8] do not fit: dimension 1 of operand 0 has 5 elements, "
        "dimension 1 of operand 1 has 6");
  const std::string sum = refusal<std::invalid_argument>([&] {
    sw::add(x, sw::zeros<float, Reduced>(mesh, {3, 5}));
  });
  CHECK(sum.find("add: ") == 0);
  CHECK(sum.find("2") != std::string::npos);
  CHECK(sum.find("3") != std::string::npos);
  CHECK(refusal<std::invalid_argument>([&] {
          sw::dropout(x, 1.0, 1);
        }).find("dropout: the probability 1 is not in [0, 1)") == 0);
}

TEST_CASE("a sequence longer than the model's context") {
  if (sw::world().size() > 4) return;  // which are its heads
  const Mesh mesh = line();
  Gpt<Mesh> model(mesh, {.vocabulary = 7, .context = 4, .features = 8, .heads = 4, .hidden = 8, .layers = 1});
  sw::initialize(model, 1);
  const std::string message = [&]() -> std::string {
    try {
      model(ids(mesh, {1, 2, 3, 4, 5}));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  }();
  CHECK(message.find("5") != std::string::npos);
  CHECK(message.find("4") != std::string::npos);
}

TEST_CASE("operands of two meshes, or of two tapes") {
  const Mesh mesh = line(), other = line();
  const auto x = sw::zeros<float, Replicate>(mesh, {2, 5});
  const auto y = sw::zeros<float, Replicate>(other, {2, 5});
  CHECK(refusal<std::invalid_argument>([&] { sw::add(x, y); }) ==
        "the operands, of which the first is [2 x 5], live on two different meshes of one type: copies of "
        "one are "
        "the same mesh");
  sw::Tape one, two;
  CHECK(refusal<std::invalid_argument>([&] { sw::add(one.input(x), two.input(x)); }) ==
        "the operands are on different tapes");
}

TEST_CASE("extents and places whose sums or products are no number") {
  const Mesh mesh = line();
  const auto x = sw::zeros<float, Replicate>(mesh, {4, 2});
  constexpr Index most = std::numeric_limits<Index>::max();
  CHECK(refusal<std::invalid_argument>([&] { sw::narrow<0>(x, most, 1); }).find("narrow: ") == 0);
  CHECK(refusal<std::invalid_argument>([&] { sw::narrow<0>(x, 1, most); }).find("narrow: ") == 0);
  // Modulo 2^64 they are as many as x has.
  CHECK(refusal<std::invalid_argument>([&] {
          sw::reshape<Replicate>(x, sw::Shape<2>{(Index{1} << 62) + 2, 4});
        }) == "reshape: [4611686018427387906 x 4] are more than 2^58 elements");
  CHECK(refusal<std::invalid_argument>([&] {
          sw::zeros<double, Replicate>(mesh, {Index{1} << 30, Index{1} << 30});
        }) == "Tensor: [1073741824 x 1073741824] are more than 2^58 elements");
}

TEST_CASE("a target that is no class, where classes have weights") {
  const Mesh mesh = line();
  const sw::CrossEntropyOptions weighted{.class_weights = {1, 2, 1, 1, 1, 1}};
  const sw::LinearCrossEntropyLoss of_linear(weighted);
  const sw::CrossEntropyLoss of_logits(weighted);
  const auto x = sw::randn<float, Replicate>(mesh, {4, 8}, 1),
             w = sw::randn<float, Replicate>(mesh, {6, 8}, 2);
  for (const std::int32_t wrong : {-7, 6, 2000000000}) {
    const auto targets = sw::full<std::int32_t, Replicate>(mesh, {4}, wrong);
    sw::Tape tape;
    CHECK_THROWS_AS(of_linear(tape.input(x), tape.input(w), targets), std::out_of_range);
    CHECK_THROWS_AS(of_logits(sw::linear(tape.input(x), tape.input(w)), targets), std::out_of_range);
  }
}

TEST_CASE("a value from a mesh of other sizes") {
  using Grid = sw::Mesh<sw::dp, tp>;
  const Grid mesh(sw::world(), {1, sw::any}), other(sw::world(), {sw::any, 1});
  sw::Linear<Grid, sw::ColwiseParallel<tp>> layer(mesh, 4, 8);
  const auto value = sw::zeros<float, Reduced, Shard<0>>(other, {8, 4});
  CHECK(refusal<std::invalid_argument>([&] { layer.weight.assign(value); }) ==
        (sw::world().size() > 1 ? "Parameter: the value is on a mesh of other sizes" : "no error"));
}

TEST_CASE("what a parameter returned is assigned to the same parameter, as if it were a copy") {
  const Mesh mesh = line();
  sw::Linear<Mesh, sw::ColwiseParallel<tp>> layer(mesh, 4, 8);
  layer.weight.initialize(1);
  const auto best = layer.weight.stored(), copy = sw::scale(best, 1);
  CHECK(refusal<std::invalid_argument>([&] { layer.weight.assign(best); }).find("copy it") !=
        std::string::npos);
  layer.weight.initialize(2);
  layer.weight.assign(copy);
  CHECK(sw::full_tensor(layer.weight.value()) == sw::full_tensor(copy));
}

TEST_CASE("numbers that make no sense") {
  const Mesh mesh = line();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto x = sw::zeros<float, Replicate>(mesh, {2, 4});
  const auto of_features = sw::full<float, Replicate>(mesh, {4}, 1);
  CHECK(refusal<std::invalid_argument>([&] { sw::layer_norm(x, of_features, of_features, -1); }) ==
        "layer_norm: epsilon is -1, which must be 0 or more");
  CHECK(refusal<std::invalid_argument>([&] { sw::rms_norm(x, of_features, nan); }) ==
        "rms_norm: epsilon is nan, which must be 0 or more");
  CHECK_THROWS_AS(sw::Init::uniform(nan), std::invalid_argument);
  CHECK(refusal<std::invalid_argument>([] { (void)sw::Init::normal(-1); }) ==
        "Init::normal: the deviation is -1, but must be finite and at least 0");
  CHECK(refusal<std::invalid_argument>([&] { (void)sw::AttentionOptions{.scale = nan}.checked(); }) ==
        "attention: the scale is nan, which is not a finite number");
}

TEST_CASE("two parameters of one name") {
  const Mesh mesh = line();
  Two two(mesh);
  CHECK(refusal<std::invalid_argument>([&] { sw::initialize(two, 1); }) ==
        "two parameters of a module have the name \"up.weight\": they would get the same first value");
}

TEST_CASE("an optimizer is for one module, also when that is gone, and for rates that make sense") {
  const Mesh mesh = line();
  sw::AdamW adamw;
  const auto step = [&](Index features) {
    sw::Linear<Mesh> layer(mesh, features, 8);
    sw::initialize(layer, 1);
    sw::Tape tape;
    const auto loss = sw::mean(layer(tape.constant(sw::randn<float, Replicate>(mesh, {3, features}, 2))));
    sw::backward_and_reduce(loss, layer);
    adamw.step(layer);
  };
  step(8);
  for (const Index features : {8, 512}) CHECK_THROWS_AS(step(features), std::invalid_argument);
  CHECK_THROWS_AS(adamw.set_rate(-1), std::invalid_argument);
  adamw.settings().beta1 = 1;
  CHECK_THROWS_WITH_AS(step(8), "AdamW: beta1 is 1, which must be 0 or more, and below 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(adamw.set_rate(std::numeric_limits<double>::infinity()), std::invalid_argument);
  static_assert(!std::is_copy_constructible_v<sw::AdamW>);  // they would share their moments
}

}  // namespace shardwise::testing::errors
