// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Mixtures of experts: routing, its losses, and the module on every mesh against one rank.

#include <doctest/doctest.h>
#include <mpi/experts_reference.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_gradients.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/sgd.hpp>

#include "module_check.hpp"
#include "ops_check.hpp"

namespace shardwise::testing::mixtures {
namespace {

/// The same on every mesh.
template <class Style>
struct Make {
  Index features;
  MixtureOptions options;

  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return MixtureOfExperts<MeshType, Style, double>(mesh, features, options);
  }
};
/// A mixture on `mesh` against the same on one rank; returns what it communicates.
template <class Style, class MeshType, class Input>
std::string check_mixture(const MeshType& mesh, const MixtureOptions& options, Input input) {
  const Index features = input.shape[2];
  return traffic(check_module(mesh, Make<Style>{features, options}, input,
                              Make<NoParallel>{features, options}, Normal<Replicate>{input.shape}));
}

constexpr MixtureOptions eight{.experts = 8, .hidden = 6, .routing = {.k = 2}};
constexpr MixtureOptions deepseek{.experts = 6,
                                  .hidden = 3,
                                  .routing = {.k = 3,
                                              .scores = ScoreFunction::sigmoid,
                                              .scale = 2.5,
                                              .choice = {.groups = 3, .kept_groups = 2}},
                                  .shared_hidden = 5,
                                  .bias = true};

TEST_CASE("expert parallelism: one all-gather and one reduce-scatter each way") {
  const Mesh<ep> mesh(world(), {any});
  const std::string one = "all_gather 1, reduce_scatter 1",
                    both = mesh.size() == 1 ? " / " : one + " / " + one;
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, eight, Normal<Shard<0>>{{32, 8, 16}}) == both);
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, deepseek, Normal<Shard<1>>{{2, 9, 7}}) == both);
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, {.experts = 63, .hidden = 3, .routing = {.k = 2}},
                                          Normal<Shard<0>>{{9, 3, 5}}) == both);
  CHECK(check_mixture<ExpertParallel<ep>>(mesh, eight, Normal<Replicate>{{3, 5, 7}}) ==
        (mesh.size() == 1 ? " / " : "all_reduce 1 / all_reduce 1"));
  CHECK(check_mixture<NoParallel>(mesh, eight, Normal<Shard<0>>{{5, 3, 7}}) == " / ");
}

TEST_CASE("experts and their hidden features split over two axes") {
  using Both = Styles<ExpertParallel<ep>, ExpertTensorParallel<tp>>;
  for (const auto& mesh : all_meshes<tp, ep>()) {
    check_mixture<Both>(mesh, deepseek, Normal<Replicate, Shard<0>>{{5, 3, 7}});
    check_mixture<Both>(mesh, deepseek, Normal<Shard<1>, Shard<0>>{{3, 5, 7}});
  }
  for (const auto& mesh : all_meshes<dp, ep>()) {
    check_mixture<ExpertParallel<ep>>(mesh, deepseek, Normal<Shard<0>, Shard<0>>{{5, 3, 7}});
    check_mixture<ExpertParallel<AxisList<dp, ep>>>(mesh, eight, Normal<Shard<0>, Shard<0>>{{5, 3, 7}});
  }
}

/// Element i of tensor number n is cos(3 i + n) / 2, as in tests/reference/experts.py.
Dense cosines(std::vector<Index> shape, int number) {
  Dense all(std::move(shape));
  for (Index i = 0; i < all.size(); ++i) {
    all[i] = std::cos(3. * static_cast<double>(i) + number) * (number == 0 ? 1 : 0.5);
  }
  return all;
}
int number_of(std::string_view parameter) {
  const std::vector<std::string_view> names{"router",    "gate_up",     "down", "shared.gate",
                                            "shared.up", "shared.down", "bias"};
  return 1 + static_cast<int>(std::find(names.begin(), names.end(), parameter) - names.begin());
}
template <class Model>
void set_cosines(Model& model) {
  for_each_named_parameter(model, [](std::string_view name, auto& p) {
    using Stored = typename std::remove_cvref_t<decltype(p)>::Stored;
    p.assign(place<Stored>(p.mesh(), cosines({p.shape().begin(), p.shape().end()}, number_of(name))));
  });
}

/// The layers and the loss of tests/reference/experts.py.
template <class MeshType, class Style, class T, class... Placements>
struct Reference {
  using X = Tensor<T, 3, MeshType, Placements...>;
  MixtureOfExperts<MeshType, Style, T> moe;
  X x;
  Tensor<T, 2, MeshType, Placements...> mask;
  bool masked;

  Reference(const MeshType& mesh, const MixtureOptions& options, bool with_mask)
      : moe(mesh, 7, options), x(place<X>(mesh, cosines({3, 5, 7}, 0))), masked(with_mask) {
    set_cosines(moe);
    Dense counted({3, 5});
    for (Index t = 0; t < 15; ++t) counted[t] = t % 4 == 1 ? 0 : 1;
    mask = place<Tensor<T, 2, MeshType, Placements...>>(mesh, counted);
  }
  /// y, the balance loss, the z-loss, and what to minimise.
  auto operator()(const auto& input) const {
    const auto in = moe.take(input);
    const auto routing = moe.route(in);
    const auto y = moe.mix(in, routing, input);
    Dense dy({3, 5, 7});
    for (Index i = 0; i < dy.size(); ++i) dy[i] = std::sin(static_cast<double>(i));
    const auto task =
        detail::whole_on_every_rank(sum(mul(y, alongside(place<tensor_of<decltype(y)>>(x.mesh(), dy), y))));
    const auto balance = masked ? balance_loss(routing, {}, mask) : balance_loss(routing);
    const auto z = masked ? z_loss(routing, mask) : z_loss(routing);
    return std::tuple(y, balance, z, add(task, add(scale(balance, 0.3), scale(z, 0.1))));
  }
};

template <class Style, class T, class... Placements, class MeshType>
void check_against_pytorch(const MeshType& mesh, const char* name, const MixtureOptions& options,
                           bool masked) {
  CAPTURE(name);
  const auto& expected = experts_of_pytorch.at(name);
  const double tolerance = std::is_same_v<T, double> ? 3e-15 : 1.4e-6;
  Reference<MeshType, Style, T, Placements...> reference(mesh, options, masked);
  Tape tape;
  const auto x = tape.input(reference.x);
  const auto [y, balance, z, loss] = reference(x);
  CHECK(error(whole(y.value()), expected.at("y")) <= tolerance);
  CHECK(std::abs(static_cast<double>(item(balance)) - expected.at("losses")[0]) <= tolerance);
  CHECK(std::abs(static_cast<double>(item(z)) - expected.at("losses")[1]) <= tolerance * 10);
  backward_and_reduce(loss, reference.moe);
  CHECK(error(whole(x.gradient()), expected.at("dx")) <= tolerance);
  Outcome gradients = gradients_of(reference.moe);
  gradients.erase("bias");  // no derivative
  CHECK(gradients.size() == (options.shared_hidden > 0 ? 6 : 3));
  for (const auto& each : gradients) {
    CAPTURE(each.first);
    CHECK(error(each.second, expected.at(each.first)) <= tolerance);
  }
}
template <class Style, class T, class... Placements>
void check_against_pytorch(const auto& mesh) {
  check_against_pytorch<Style, T, Placements...>(mesh, "mixtral",
                                                 {.experts = 6, .hidden = 3, .routing = {.k = 2}}, false);
  check_against_pytorch<Style, T, Placements...>(
      mesh, "unnormalized", {.experts = 6, .hidden = 3, .routing = {.k = 3, .normalized = false}}, true);
  check_against_pytorch<Style, T, Placements...>(mesh, "deepseek", deepseek, true);
}

TEST_CASE("results, losses and gradients are PyTorch's on every mesh") {
  using Both = Styles<ExpertParallel<ep>, ExpertTensorParallel<tp>>;
  for (const auto& mesh : all_meshes<tp, ep>()) {
    check_against_pytorch<Both, double, Shard<1>, Shard<0>>(mesh);
    check_against_pytorch<Both, float, Replicate, Shard<0>>(mesh);
    using ByCounts = Styles<ExpertParallel<ep, by_counts>, ExpertTensorParallel<tp>>;
    check_against_pytorch<ByCounts, double, Shard<1>, Shard<0>>(mesh);
    check_against_pytorch<ByCounts, float, Replicate, Shard<1>>(mesh);
  }
  for (const auto& mesh : all_meshes<dp, ep>()) {
    check_against_pytorch<Styles<Zero<2, dp>, ExpertParallel<ep>>, double, Shard<0>, Shard<0>>(mesh);
  }
}

template <class Style>
void check_differences() {
  const Mesh<ep> mesh(world(), {any});
  Reference<Mesh<ep>, Style, double, Shard<0>> reference(mesh, deepseek, true);
  check_gradients(reference.moe,
                  [&](Tape& tape) { return std::get<3>(reference(tape.constant(reference.x))); });
}

TEST_CASE("gradients of the results and of both losses are central differences") {
  check_differences<ExpertParallel<ep>>();
  check_differences<ExpertParallel<ep, by_counts>>();
}

TEST_CASE("a mixture that is computed again has the same gradients, bit by bit") {
  const Mesh<ep> mesh(world(), {any});
  Outcome gradients[2];
  for (const bool again : {false, true}) {
    MixtureOfExperts<Mesh<ep>, ExpertParallel<ep>, double> moe(mesh, 7, deepseek);
    set_cosines(moe);
    Tape tape;
    const auto x = tape.input(place<Tensor<double, 3, Mesh<ep>, Shard<0>>>(mesh, cosines({3, 5, 7}, 0)));
    const auto y = again ? recompute(moe, x) : moe(x);
    backward_and_reduce(detail::whole_on_every_rank(sum_of_squares(y)), moe);
    gradients[again ? 1 : 0] = gradients_of(moe);
    gradients[again ? 1 : 0].emplace("x", whole(x.gradient()));
  }
  CHECK(gradients[0] == gradients[1]);
}

/// The weights of experts 0 to 3 for one token, whose logits are 1, 2, 3, 4.
std::string routed(const RoutingOptions& options, const std::vector<double>& bias = {}) {
  const auto mesh = line();
  const auto logits = distribute<Replicate>(mesh, Shape<2>{1, 4}, std::vector<double>{1, 2, 3, 4});
  const auto show = [](const auto& routing) {
    std::string text;
    for (Index i = 0; i < 2; ++i) {
      char buffer[32];
      std::snprintf(buffer, sizeof(buffer), "%d %.5f ", static_cast<int>(routing.ids.data()[i]),
                    routing.weights.data()[i]);
      text += buffer;
    }
    return text;
  };
  if (bias.empty()) return show(route(logits, options));
  return show(route(logits, options, distribute<Replicate>(mesh, Shape<1>{std::ssize(bias)}, bias)));
}

TEST_CASE("the routing of Mixtral, Qwen and DeepSeek") {
  CHECK(routed({}) == "3 0.73106 2 0.26894 ");
  CHECK(routed({.normalized = false}) == "3 0.64391 2 0.23688 ");
  CHECK(routed({.scores = ScoreFunction::sigmoid, .scale = 2.5}) == "3 1.26902 2 1.23098 ");
  CHECK(routed({.scores = ScoreFunction::sigmoid, .scale = 2.5}, {0, 0, -1, 0}) == "3 1.31792 1 1.18208 ");
  CHECK(routed({.scores = ScoreFunction::sigmoid, .normalized = false}) == "3 0.98201 2 0.95257 ");
  CHECK(routed({.choice = {.groups = 2, .kept_groups = 1}}, {1, 1, 0, 0}) == "1 0.73106 0 0.26894 ");
}

TEST_CASE("a router whose weights no logit can change is refused where it would be trained") {
  const auto mesh = line();
  const auto problem = [&](Index experts, const RoutingOptions& options) {
    Tape tape;
    const auto logits = zeros<double, Shard<0>>(mesh, {4, experts});
    route(logits, options);  // no gradient: nothing to learn
    route(tape.constant(logits), options);
    try {
      route(tape.input(logits), options);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string only =
      ", because weights are normalized, so the router learns nothing; expected k of 2 or more, or "
      "normalized = false";
  CHECK(problem(4, {.k = 1}) == "route: the weight of a token's only expert is always 1" + only);
  CHECK(problem(4, {.k = 1, .scores = ScoreFunction::sigmoid, .scale = 2.5}) ==
        "route: the weight of a token's only expert is always 2.5" + only);
  CHECK(problem(1, {.k = 1, .normalized = false}) ==
        "route: the score of the only expert is always 1, so the router learns nothing; expected 2 or more");
  CHECK(problem(1, {.k = 1, .scores = ScoreFunction::sigmoid, .normalized = false}).empty());
  CHECK(problem(4, {.k = 1, .normalized = false}).empty());
}

TEST_CASE("the balance loss of evenly used experts") {
  const Mesh<ep> mesh(world(), {any});
  Dense logits({12, 4});  // token t prefers the experts t and t + 1
  for (Index t = 0; t < 12; ++t) logits[t * 4 + t % 4] = 9, logits[t * 4 + (t + 1) % 4] = 8;
  const auto routing = route(place<Tensor<double, 2, Mesh<ep>, Shard<0>>>(mesh, logits), {.k = 2});
  CHECK(item(balance_loss(routing)) == doctest::Approx(1));
  CHECK(item(balance_loss(routing, {.uniform = 2})) == doctest::Approx(2));
  for (Index t = 0; t < 12; ++t) {  // all to the experts 0 and 1, with all of the probability
    for (Index e = 0; e < 4; ++e) logits[t * 4 + e] = e < 2 ? 99 : 0;
  }
  const auto uneven = route(place<Tensor<double, 2, Mesh<ep>, Shard<0>>>(mesh, logits), {.k = 2});
  CHECK(item(balance_loss(uneven)) == doctest::Approx(2));
  CHECK(item(z_loss(uneven)) == doctest::Approx(std::pow(99 + std::log(2.), 2)));
}

/// 120 weights of experts, of which each has the gradient 1.
template <class MeshType>
struct OfDown : Module<OfDown<MeshType>> {
  Parameter<Tensor<double, 3, MeshType, Shard<0>>> down;

  explicit OfDown(const MeshType& mesh) : down(mesh, {4, 5, 6}, Init::constant(0)) {}
  auto forward(const auto& x, const auto& ids, const auto& weights, const auto& gate_up) const {
    return experts(x, ids, weights, gate_up, down);
  }
  void visit(auto&& f) { f("down", down); }
};

TEST_CASE("the norm of 120 gradients of 1 is the root of 120 on every mesh") {
  const Mesh<ep> mesh(world(), {any});
  OfDown<Mesh<ep>> model(mesh);
  initialize(model, 1);
  Tape tape;
  const auto one = [&](auto placement, auto shape, double value) {
    return tape.constant(full<double, decltype(placement)>(mesh, shape, value));
  };
  const auto ids = distribute<Replicate>(mesh, Shape<2>{4, 1}, std::vector<std::int64_t>{2, 0, 3, 1});
  const double gate = std::sqrt(1 + std::exp(-1.));  // the gate is 1
  auto y = model(one(Reduced{}, Shape<2>{4, 1}, 1), ids, one(Reduced{}, Shape<2>{4, 1}, gate * gate),
                 one(Shard<0>{}, Shape<4>{4, 2, 6, 1}, 1));
  backward_and_reduce(detail::whole_on_every_rank(sum(y)), model);
  CHECK(gradient_norm(model) == doctest::Approx(std::sqrt(120.)).epsilon(1e-14));
}

/// Tokens of which token t prefers expert prefers[t], with a router that is the identity.
template <class MeshType, class... Placements>
struct Chosen {
  MixtureOfExperts<MeshType, ExpertParallel<ep>, double> moe;

  Chosen(const MeshType& mesh, bool bias)
      : moe(mesh, 4, {.experts = 4, .hidden = 3, .routing = {.k = 1, .normalized = false}, .bias = bias}) {
    initialize(moe, 1);
    Dense identity({4, 4});
    for (Index e = 0; e < 4; ++e) identity[e * 5] = 1;
    using Router = typename decltype(moe.router)::Stored;
    moe.router.assign(place<Router>(mesh, identity));
  }
  auto tokens(const std::vector<int>& prefers) const {
    Dense x({static_cast<Index>(prefers.size()), 4});
    for (std::size_t t = 0; t < prefers.size(); ++t) x[static_cast<Index>(t) * 4 + prefers[t]] = 3;
    return place<Tensor<double, 2, MeshType, Placements...>>(moe.router.mesh(), x);
  }
  /// A pass that adds the load of these tokens to the gradient of the bias.
  void pass(const std::vector<int>& prefers, bool again = false) {
    Tape tape;
    const auto x = tape.input(tokens(prefers));
    const auto y = again ? recompute(moe, x) : moe(x);
    tape.backward(detail::whole_on_every_rank(sum_of_squares(y)));
  }
  Eigen::Vector4d bias() const { return full_tensor(moe.bias->value()); }
};

TEST_CASE("the bias of busy experts sinks, the same on every rank, and weighs nothing") {
  for (const auto& mesh : all_meshes<dp, ep>()) {
    Chosen<Mesh<dp, ep>, Shard<0>, Shard<0>> chosen(mesh, true);
    SGD sgd({.rate = 0, .weight_decay = 0.5});
    const auto step = [&](double rate, const std::vector<std::vector<int>>& micro_batches) {
      for (const auto& prefers : micro_batches) chosen.pass(prefers);
      reduce_gradients(chosen.moe);
      const Eigen::Vector4d load = full_tensor(chosen.moe.bias->finished_gradient());
      sgd.set_bias_rate(rate);
      sgd.step(chosen.moe);
      return load;
    };
    CHECK(step(0.25, {{1, 2, 1, 1, 2}, {3, 3, 3, 3, 3}}) == Eigen::Vector4d(-10, 2, -2, 10));
    CHECK(chosen.bias() == Eigen::Vector4d(0.25, -0.25, 0.25, -0.25));
    CHECK(step(0.5, {{1, 2, 1, 1, 2}}) == Eigen::Vector4d(-5, 7, 3, -5));
    CHECK(chosen.bias() == Eigen::Vector4d(0.75, -0.75, -0.25, 0.25));
    CHECK(step(0, {{3, 3, 3, 2}}) == Eigen::Vector4d(0, -4, -4, 8));  // no rate
    CHECK(chosen.bias() == Eigen::Vector4d(0.75, -0.75, -0.25, 0.25));
    CHECK(step(1, {{0, 1, 2, 3}}) == Eigen::Vector4d(8, -4, -4, 0));  // expert 0 instead of 1 and 2
    const auto now = chosen.moe.route(chosen.moe.take(chosen.tokens({1, 1, 1, 1})));
    CHECK(full_tensor(chosen.moe.bias->value()) == Eigen::Vector4d(-0.25, 0.25, 0.75, 0.25));
    CHECK(full_tensor(detail::whole_on_every_rank(now.weights))
              .isApproxToConstant(std::exp(3.) / (std::exp(3.) + 3), 1e-14));  // by the scores alone
  }
}

TEST_CASE("a layer that is computed again counts its tokens once") {
  const Mesh<ep> mesh(world(), {any});
  Chosen<Mesh<ep>, Shard<0>> chosen(mesh, true);
  chosen.moe(chosen.tokens({1, 1, 1}));  // an evaluation does not count
  chosen.pass({2, 2, 2, 2, 2, 2}, true);
  reduce_gradients(chosen.moe);
  CHECK(full_tensor(chosen.moe.bias->finished_gradient()) == Eigen::Vector4d(-6, -6, 18, -6));
  const auto gradient = whole(chosen.moe.down.finished_gradient());
  for (Index e = 0; e < 4; ++e) {  // 0, and not absent, for experts without tokens
    double largest = 0;
    for (Index i = 0; i < 12; ++i)
      largest = std::max(largest, std::abs(gradient[static_cast<std::size_t>(e * 12 + i)]));
    CHECK((largest > 0) == (e == 2));
  }
}

/// Norm and clipped gradients of a pass, without those of a bias.
template <class Style>
std::pair<double, Outcome> clipped(bool bias) {
  const Mesh<dp, ep> mesh(world(), {any, world().size() % 2 == 0 ? 2 : 1});
  MixtureOptions options = deepseek;
  options.bias = bias;
  MixtureOfExperts<Mesh<dp, ep>, Style, double> moe(mesh, 7, options);
  initialize(moe, 3);
  Tape tape;
  const auto x =
      tape.input(place<Tensor<double, 3, Mesh<dp, ep>, Shard<0>, Shard<0>>>(mesh, cosines({3, 5, 7}, 0)));
  tape.backward(detail::whole_on_every_rank(sum_of_squares(moe(x))));
  const double norm = clip_gradients(moe, 1e-3);
  Outcome gradients = gradients_of(moe);
  if (bias) {
    const Numbers load = gradients.extract("bias").mapped();
    CHECK(std::accumulate(load.begin(), load.end(), 0.) == 0);
    CHECK(*std::max_element(load.begin(), load.end()) >= 3);  // not clipped
  }
  return {norm, gradients};
}

template <class Style>
void check_clipped() {
  const auto [norm, gradients] = clipped<Style>(true);
  const auto [expected_norm, expected] = clipped<Style>(false);
  CHECK(norm == doctest::Approx(expected_norm).epsilon(1e-14));
  CHECK(gradients.size() == expected.size());
  for (const auto& [name, gradient] : expected)
    CHECK(error(gradients.at(name), gradient) <= 1e-17);  // of 1e-3
}
TEST_CASE("no norm has the load, and clipping leaves it") {
  check_clipped<ExpertParallel<ep>>();
  check_clipped<Styles<ExpertParallel<ep>, Zero<1, dp>>>();
}

/// The spread of the load over 200 steps, of a router that prefers the first experts.
template <class T>
void check_balance() {
  const Mesh<dp, ep> mesh(world(), {1, any});
  using Style = ExpertParallel<ep>;
  MixtureOfExperts<Mesh<dp, ep>, Style, T> moe(
      mesh, 8,
      {.experts = 8, .hidden = 4, .routing = {.k = 2, .scores = ScoreFunction::sigmoid}, .bias = true});
  initialize(moe, 5);
  Dense router({8, 8});
  for (Index i = 0; i < 64; ++i)
    router[i] = std::cos(5. * static_cast<double>(i)) + (i < 16 && i % 8 == 0 ? 3 : 0);
  moe.router.assign(place<typename decltype(moe.router)::Stored>(mesh, router));
  AdamW adamw({.rate = 1e-4});
  adamw.set_bias_rate(0.01);
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    Dense tokens({64, 8});
    for (Index i = 0; i < tokens.size(); ++i)
      tokens[i] = i % 8 == 0 ? 1 : std::sin(static_cast<double>(7 * i + 1000 * step));
    Tape tape;
    const auto x = tape.input(place<Tensor<T, 2, Mesh<dp, ep>, Shard<0>, Shard<0>>>(mesh, tokens));
    backward_and_reduce(detail::whole_on_every_rank(mean(mul(moe(x), x))), moe);
    const auto load = whole(moe.bias->finished_gradient());  // 8 · choices - 128
    last = *std::max_element(load.begin(), load.end()) / 128 + 1;
    if (step == 0) first = last;
    adamw.step(moe);
  }
  CHECK(first > 3);  // of at most 4, and 1 if even
  CHECK(last < 1.6);
}
TEST_CASE("a bias by load evens the load of a skewed router") {
  check_balance<double>();
  check_balance<Eigen::bfloat16>();
}

TEST_CASE("rates of biases, and biases that do not fit") {
  AdamW adamw;
  CHECK(message_of<std::invalid_argument>([&] { adamw.set_bias_rate(-1); }) ==
        "an optimizer: the rate of biases is -1, which must be 0 or more, and a finite number");
  CHECK(message_of<std::invalid_argument>([] {
          routed({}, {1, 2, 3});
        }) == "top_k: the bias is [3], for rows of 4 elements");
}

TEST_CASE("experts that do not suffice") {
  const auto message = [](const MixtureOptions& options) {
    return message_of<std::invalid_argument>(
        [&] { MixtureOfExperts<Mesh<ep>, ExpertParallel<ep>>(Mesh<ep>(world(), {any}), 4, options); });
  };
  CHECK(message({.experts = 2, .hidden = 3, .routing = {.k = 3}}) ==
        "MixtureOfExperts: routing.k is 3, which must be 1 to 2, the experts that a token may use");
  CHECK(message({.experts = 0, .hidden = 3}) ==
        "MixtureOfExperts: 0 experts of 3 hidden features; both numbers must be 1 or more");
  CHECK(message({.experts = 8, .hidden = 3, .routing = {.choice = {.groups = 3}}}) ==
        "MixtureOfExperts: routing.choice has 3 groups and keeps 1 of 8 experts: the groups must divide the "
        "experts, and at least one be kept");
}

}  // namespace
}  // namespace shardwise::testing::mixtures
