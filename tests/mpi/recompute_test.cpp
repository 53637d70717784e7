// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What is computed again in the backward pass, single results and whole modules: the same gradients, less memory.

#include <doctest/doctest.h>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/shardwise.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

#include "../support/gpt.hpp"
#include "../support/plans.hpp"
#include "llama_support.hpp"

namespace shardwise::testing {
namespace {

/// x · y, whose result is computed again; or kept.
template <bool Again>
struct Times {
  static constexpr Saved saved{.inputs = 0b11};
  static constexpr bool recomputed = Again;

  template <int A, int B>
  static constexpr Signature signature() {
    return Signature::of(Indices::range('a', A), Indices::range('a', B), Indices::range('a', A));
  }
  template <int Rank>
  static constexpr auto shape(const Shape<Rank>& a, const Shape<Rank>&) {
    return a;
  }
  template <class T>
  static void product(Index count, const T* a, const T* b, T* y) {
    for (Index i = 0; i < count; ++i) y[i] = a[i] * b[i];
  }
  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> a, View<const T, Rank> b) {
    product(y.elements(), a.data, b.data, y.data);
  }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> a,
                        Input<T, Rank> b) {
    if (a.gradient) product(dy.elements(), dy.data, b.data, a.gradient);
    if (b.gradient) product(dy.elements(), dy.data, a.data, b.gradient);
  }
};

constexpr Index rows = 64, features = 32;
constexpr int layers = 4;

/// Layers of two products with one value, which is recomputed and relabelled.
template <bool Again>
constexpr auto loss_of(const auto& x, const auto& w) {
  auto y = redistribute<Replicate>(x);
  for (int layer = 0; layer < layers; ++layer) {
    auto shared = redistribute<Reduced>(apply(Times<Again>{}, y, y));
    auto sum = add(linear(shared, w), linear(shared, w));
    y = redistribute<Replicate>(redistribute<Partial<Sum>>(sum));
  }
  return mean(y);
}

template <bool Again>
constexpr auto step = [](const auto& mesh) {
  Tape tape;
  auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
  auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
  auto loss = loss_of<Again>(x, w);
  tape.backward(loss);
};

template <bool Again>
auto gradients(const Mesh<tp>& mesh) {
  Tape tape;
  auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
  auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
  auto loss = loss_of<Again>(x, w);
  tape.backward(loss);
  return std::pair(full_tensor(x.gradient()).eval(),
                   full_tensor(redistribute<Replicate>(w.gradient())).eval());
}

TEST_CASE("what is computed again gives the same gradients") {
  const Mesh<tp> mesh(world(), {any});
  const auto [kept_x, kept_w] = gradients<false>(mesh);
  const auto [again_x, again_w] = gradients<true>(mesh);
  CHECK(kept_x.norm() > 0);
  CHECK(kept_x == again_x);
  CHECK(kept_w == again_w);
}

TEST_CASE("it is computed once for all who need it, and costs less memory") {
  const Mesh<tp> mesh(world(), {any});
  const auto kept = agreed_plan(mesh, step<false>);
  const auto again = agreed_plan(mesh, step<true>);
  const Index block = rows * features * Index{sizeof(double)};
  CHECK(again.flops(Phase::backward) - kept.flops(Phase::backward) == layers * rows * features);
  CHECK(again.flops(Phase::forward) == kept.flops(Phase::forward));
  CHECK(again.peak_activation_bytes() <= kept.peak_activation_bytes() - (layers - 1) * block);
  CHECK(same_communication(kept, again));
}

TEST_CASE("memory comes back when a tape is dropped without a backward pass") {
  const Mesh<tp> mesh(world(), {any});
  auto forward_only = [&] {
    Tape tape;
    auto x = tape.input(randn<double, Replicate>(mesh, {rows, features}, 1));
    auto w = tape.input(randn<double, Reduced>(mesh, {features, features}, 2));
    loss_of<true>(x, w);
  };
  forward_only();
  const Index before = memory_pool().system_bytes();
  for (int i = 0; i < 20; ++i) forward_only();
  CHECK(memory_pool().system_bytes() == before);
}

// ---- Modules ----------------------------------------------------------------------------------------------

/// The bits of some tensors on this rank, one after the other.
class Bits {
 public:
  void add(const detail::AnyTensor& x) {
    REQUIRE(x);
    const auto* first = static_cast<const std::byte*>(x.buffer->data);
    bytes_.insert(bytes_.end(), first, first + x.local_elements() * x.element_bytes());
    ends_.push_back(bytes_.size());
  }
  template <TensorType X>
  void add(const X& x) {
    add(detail::AnyTensor(x));
  }
  std::size_t tensors() const { return ends_.size(); }
  bool any() const {
    for (std::byte byte : bytes_) {
      if (byte != std::byte{}) return true;
    }
    return false;
  }
  friend bool operator==(const Bits&, const Bits&) = default;

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::size_t> ends_;
};

template <class Module>
void add_gradients(Bits& bits, Module& module) {
  for (const detail::ParameterState* cell : detail::parameters_of(module)) {
    bits.add(cell->stored.with(cell->layouts.pending, cell->pending->sum()));
  }
}

/// Some numbers as an X, the same on every mesh; where it is pending, the first rank has them.
template <class X>
constexpr X normal(const typename X::MeshOf& mesh, const Shape<X::rank>& shape, std::uint64_t seed) {
  whole_of<X> whole(mesh, shape);
  fill_normal(whole, seed);
  return redistribute_to<X>(std::move(whole));
}

/// Gives `y` a gradient, and goes back.
template <class Y>
constexpr void go_back_from(Tape& tape, const Var<Y>& y) {
  tape.backward(y, normal<cotangent_of<Y>>(y.mesh(), y.shape(), 9));
}

template <class Module, class... X>
constexpr auto call(bool again, const Module& module, const X&... x) {
  return again ? recompute(module, x...) : module(x...);
}

/// x, as it is on a tape.
template <bool Tracked, class X>
constexpr auto put(Tape& tape, X x) {
  if constexpr (Tracked) {
    return tape.input(std::move(x));
  } else {
    return tape.constant(std::move(x));
  }
}

/// A block of a transformer with dropout, whose mask is another one each step.
template <class MeshType, class T>
struct DroppingBlock {
  GptBlock<MeshType, T> block;
  Dropout<> dropout;

  constexpr DroppingBlock(const MeshType& mesh, std::uint64_t seed)
      : block(mesh, 20, 5, 24), dropout(0.3, seed) {}
  template <Operand X>
  constexpr auto operator()(const X& x, std::uint64_t at) const {
    return dropout(block(dropout(x, at)), at + 1);
  }
  constexpr void visit(auto&& f) { f("block", block); }
};

/// Two blocks, called one after the other; x is used after them as well.
template <class T, bool Tracked>
struct BlocksStep {
  bool again;
  Bits* found;

  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    using X = Tensor<T, 3, MeshType, Shard<0>, Replicate>;
    std::vector<DroppingBlock<MeshType, T>> blocks;
    for (std::uint64_t i = 0; i < 2; ++i) {
      blocks.emplace_back(mesh, i);
      initialize(blocks.back(), i);
    }
    Tape tape;
    auto x = put<Tracked>(tape, normal<X>(mesh, {3, 7, 20}, 1));
    auto h = call(again, blocks[0], x, std::uint64_t{5});
    auto y = add(call(again, blocks[1], h, std::uint64_t{6}), add(h, x));
    go_back_from(tape, y);
    if (!mesh.dry()) {
      found->add(y.value());
      if constexpr (Tracked) found->add(x.gradient());
      for (auto& block : blocks) add_gradients(*found, block);
    }
  }
};

template <class T, bool Tracked>
void check_blocks() {
  for (const auto& mesh : data_by_tensor_meshes()) {
    Bits kept_bits, again_bits;
    const auto kept = agreed_plan(mesh, BlocksStep<T, Tracked>{false, &kept_bits});
    const auto again = agreed_plan(mesh, BlocksStep<T, Tracked>{true, &again_bits});
    const bool has_samples = mesh.rank<dp>() < 3;  // of 3 samples
    CHECK(kept_bits.any() == has_samples);
    CHECK(kept_bits.tensors() == (Tracked ? 2 : 1) + 2 * 16);
    CHECK(kept_bits == again_bits);

    const int two = mesh.size<tp>() > 1 ? 2 : 0;  // of a block, each way
    CHECK(calls(kept, Collective::all_reduce) ==
          std::to_string(2 * two) + " / " + std::to_string(2 * two) + " / 0");
    CHECK(calls(again, Collective::all_reduce) ==
          std::to_string(2 * two) + " / " + std::to_string(2 * two + 2 * two) + " / 0");
    CHECK(again.collectives() == again.count(Collective::all_reduce));
    CHECK(again.flops(Phase::forward) == kept.flops(Phase::forward));
    if (has_samples) CHECK(again.peak_activation_bytes() < kept.peak_activation_bytes());
  }
}

TEST_CASE("blocks with dropout: every bit as without, and the all-reduces of one more forward pass") {
  check_blocks<float, true>();
}
TEST_CASE("an x without a gradient") { check_blocks<float, false>(); }

/// Two MLPs, each recomputed or not.
template <class MeshType>
struct Pair {
  Mlp<MeshType, double> first, second;
  bool each;

  constexpr Pair(const MeshType& mesh, bool each_again)
      : first(mesh, 8, 20), second(mesh, 8, 20), each(each_again) {}
  template <Operand X>
  constexpr auto operator()(const X& x) const {
    return call(each, second, call(each, first, x));
  }
  constexpr void visit(auto&& f) {
    f("first", first);
    f("second", second);
  }
};

/// Recomputed one by one, together, or one within the other.
struct PairStep {
  bool each, together;
  Bits* found;

  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    Pair<MeshType> pair(mesh, each);
    initialize(pair, 4);
    Tape tape;
    auto x = tape.input(normal<Tensor<double, 2, MeshType, Shard<0>, Replicate>>(mesh, {6, 8}, 1));
    auto y = call(together, pair, x);
    go_back_from(tape, y);
    if (!mesh.dry()) {
      found->add(y.value());
      found->add(x.gradient());
      add_gradients(*found, pair);
    }
  }
};

TEST_CASE("MLPs: recomputed one by one, together, and one within the other") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    Bits kept, each, whole, nested;
    const auto kept_plan = agreed_plan(mesh, PairStep{false, false, &kept});
    const auto each_plan = agreed_plan(mesh, PairStep{true, false, &each});
    const auto whole_plan = agreed_plan(mesh, PairStep{false, true, &whole});
    const auto nested_plan = agreed_plan(mesh, PairStep{true, true, &nested});
    CHECK(kept.any());
    CHECK(kept.tensors() == 2 + 8);
    CHECK(kept == each);
    CHECK(kept == whole);
    CHECK(kept == nested);
    const bool split = mesh.size<tp>() > 1;
    CHECK(calls(kept_plan, Collective::all_reduce) == (split ? "2 / 2 / 0" : "0 / 0 / 0"));
    CHECK(calls(each_plan, Collective::all_reduce) == (split ? "2 / 4 / 0" : "0 / 0 / 0"));
    CHECK(calls(whole_plan, Collective::all_reduce) == (split ? "2 / 4 / 0" : "0 / 0 / 0"));
    CHECK(calls(nested_plan, Collective::all_reduce) == (split ? "2 / 6 / 0" : "0 / 0 / 0"));
    const auto forward = kept_plan.flops(Phase::forward), backward = kept_plan.flops(Phase::backward);
    for (const auto* plan : {&kept_plan, &each_plan, &whole_plan, &nested_plan}) {
      CHECK(plan->flops(Phase::forward) == forward);
    }
    CHECK(each_plan.flops(Phase::backward) == backward + forward);
    CHECK(whole_plan.flops(Phase::backward) == backward + forward);
    CHECK(nested_plan.flops(Phase::backward) == backward + 2 * forward);
  }
}

/// A module of many arguments: x and w are tracked or not, the others are a tensor, a constant, a parameter, and
/// plain values.
struct Many {
  template <class X, class W, class B, class C, class P>
  constexpr auto operator()(const X& x, const W& w, const B& b, const C& c, const P& p, bool twice,
                            double factor) const {
    auto y = mul(add(linear(x, w), alongside(b, x)), c);
    if (twice) y = add(linear(y, w), x);
    return scale(linear(y, p), factor);
  }
};

template <bool TrackedX, bool TrackedW>
Bits of_many(const Mesh<tp>& mesh, bool again) {
  using X = Tensor<float, 2, Mesh<tp>, Replicate>;
  Parameter<X> p(mesh, {8, 8}, Init::normal(1));
  p.initialize(5);
  Tape tape;
  auto x = put<TrackedX>(tape, normal<X>(mesh, {6, 8}, 1));
  auto w = put<TrackedW>(tape, normal<X>(mesh, {8, 8}, 2));
  const auto b = normal<X>(mesh, {6, 8}, 3);
  auto c = tape.constant(normal<X>(mesh, {6, 8}, 4));
  const Many many;
  auto y = call(again, many, x, w, b, c, p, true, 0.7);
  auto z = add(add(linear(y, w), linear(x, w)), x);  // x and w get gradients from elsewhere, before
  go_back_from(tape, z);
  Bits bits;
  bits.add(z.value());
  bits.add(p.gradient());
  if constexpr (TrackedX) bits.add(x.gradient());
  if constexpr (TrackedW) bits.add(w.gradient());
  return bits;
}

TEST_CASE("arguments of all kinds") {
  const Mesh<tp> mesh(world(), {any});
  CHECK(of_many<true, true>(mesh, false).any());
  CHECK(of_many<true, true>(mesh, false) == of_many<true, true>(mesh, true));
  CHECK(of_many<false, true>(mesh, false) == of_many<false, true>(mesh, true));
  CHECK(of_many<true, false>(mesh, false) == of_many<true, false>(mesh, true));
  CHECK(of_many<false, false>(mesh, false) == of_many<false, false>(mesh, true));
}

TEST_CASE("a function in the place of a module, which takes the module as an argument") {
  const Mesh<tp> mesh(world(), {any});
  const auto bits_of = [&](bool again) {
    Mlp<Mesh<tp>, double> mlp(mesh, 8, 20);
    initialize(mlp, 7);
    Tape tape;
    auto x = tape.input(normal<Tensor<double, 2, Mesh<tp>, Replicate>>(mesh, {6, 8}, 1));
    const auto called = [&] {
      const auto block = [](const auto& model, const auto& in, double factor) {
        return scale(model(in), factor);
      };
      const double factor = 2;
      return call(again, block, mlp, x, factor);  // and the block and the factor are gone
    };
    auto y = called();
    go_back_from(tape, y);
    Bits bits;
    bits.add(y.value());
    bits.add(x.gradient());
    add_gradients(bits, mlp);
    return bits;
  };
  CHECK(bits_of(true) == bits_of(false));
}

/// A norm, whose result is a recipe, before a module, in it, and as its result.
Bits of_norms(const Mesh<tp>& mesh, bool again) {
  using X = Tensor<double, 2, Mesh<tp>, Reduced>;
  RMSNorm<Mesh<tp>, NoParallel, double> norm(mesh, 8);
  Mlp<Mesh<tp>, double> mlp(mesh, 8, 20);
  initialize(norm, 6);
  initialize(mlp, 7);
  Tape tape;
  auto x = tape.input(normal<Tensor<double, 2, Mesh<tp>, Replicate>>(mesh, {6, 8}, 1));
  auto w = tape.input(normal<X>(mesh, {8, 8}, 2));
  auto normed = norm(x);
  REQUIRE(normed.recipe());
  auto h = call(again, mlp, normed);
  auto of_result = call(again, norm, add(h, normed));
  auto y = linear(redistribute<tp, Reduced>(of_result), w);  // keeps what the module gave
  go_back_from(tape, y);
  Bits bits;
  bits.add(y.value());
  bits.add(x.gradient());
  bits.add(w.gradient());
  add_gradients(bits, norm);
  add_gradients(bits, mlp);
  return bits;
}

TEST_CASE("values that are recipes, as arguments and as results") {
  const Mesh<tp> mesh(world(), {any});
  CHECK(of_norms(mesh, false).any());
  CHECK(of_norms(mesh, false) == of_norms(mesh, true));
}

TEST_CASE("without a tape it is the call, and on two tapes an error") {
  const Mesh<tp> mesh(world(), {any});
  using X = Tensor<float, 2, Mesh<tp>, Replicate>;
  Mlp<Mesh<tp>> mlp(mesh, 8, 20);
  initialize(mlp, 7);
  const auto x = normal<X>(mesh, {6, 8}, 1);
  Bits plain, again;
  plain.add(mlp(x));
  again.add(recompute(mlp, x));
  CHECK(plain.any());
  CHECK(plain == again);

  Tape one, other;
  const auto sum = [](const auto& a, const auto& b) { return add(a, b); };
  CHECK_THROWS_WITH_AS(recompute(sum, one.input(x), other.input(x)), "the operands are on different tapes",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(recompute(sum, one.input(x), one.constant(normal<X>(mesh, {6, 9}, 1))),
                       doctest::Contains("add: "), std::invalid_argument);
}

TEST_CASE("a result that no gradient reaches is not computed again") {
  const Mesh<tp> mesh(world(), {any});
  int runs = 0;
  const auto counted = [](const auto& x, int* times) {
    ++*times;
    return gelu(x);
  };
  Tape tape;
  auto x = tape.input(normal<Tensor<float, 1, Mesh<tp>, Replicate>>(mesh, {8}, 1));
  auto used = recompute(counted, x, &runs);
  recompute(counted, x, &runs);
  CHECK(runs == 2);
  tape.backward(sum<0>(used));
  CHECK(runs == 3);
}

TEST_CASE(
    "memory of recomputed modules comes back, also without a backward pass, and after an exception in it") {
  const Mesh<tp> mesh(world(), {any});
  Mlp<Mesh<tp>> mlp(mesh, 64, 128);
  initialize(mlp, 7);
  const auto x = normal<Tensor<float, 2, Mesh<tp>, Replicate>>(mesh, {32, 64}, 1);
  bool fails = false;
  const auto fragile = [](const auto& model, const auto& h, const bool* throws) {
    auto y = model(h);
    if (*throws) throw std::runtime_error("fragile");
    return y;
  };
  auto rounds = [&] {
    {
      Tape tape;
      recompute(mlp, tape.input(x));
    }
    {
      Tape tape;
      go_back_from(tape, recompute(mlp, tape.input(x)));
    }
    Tape tape;
    fails = false;
    auto y = recompute(fragile, mlp, tape.input(x), &fails);
    fails = true;
    CHECK_THROWS_AS(go_back_from(tape, y), std::runtime_error);
  };
  Recording recording(mesh);
  auto live = [&] { return mesh.recorder()->record().memory[0].live; };
  for (int i = 0; i < 3; ++i) rounds();  // small blocks lie differently the second time
  const auto in_use = live();
  const Index before = memory_pool().system_bytes();
  for (int i = 0; i < 20; ++i) rounds();
  CHECK(live() == in_use);
  CHECK(memory_pool().system_bytes() == before);
}

// ---- Llama ------------------------------------------------------------------------------------------------

constexpr llm::LlamaConfig llama_config{
    .vocabulary = 13, .features = 12, .layers = 2, .heads = 6, .kv_heads = 2, .head_dim = 4, .hidden = 10};
constexpr Index batch = 5, length = 7;  // neither is divided by the ranks

template <class MeshType>
using Ids = Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate, Replicate>;

template <class MeshType>
Ids<MeshType> llama_ids(const MeshType& mesh) {
  std::vector<std::int32_t> all;
  for (Index i = 0; i < batch * length; ++i) all.push_back(static_cast<std::int32_t>(i * 5 % 13));
  return distribute<Shard<0>, Replicate, Replicate>(mesh, Shape<2>{batch, length},
                                                    std::span<const std::int32_t>(all));
}

template <class PlanType>
struct LlamaStep {
  Index depth;
  bool again;
  Bits* found;
  std::optional<Index> first = {};

  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    llm::LlamaConfig config = llama_config;
    config.layers = depth;
    llm::Llama<MeshType, PlanType> model(mesh, config);
    CHECK_FALSE(model.recompute_layers);
    model.recompute_layers = again;
    if (first) model.recompute_first = *first;
    initialize(model, 3);
    const auto ids = llama_ids(mesh);
    Tape tape;
    auto loss = CrossEntropyLoss()(model(tape.constant(ids)), ids);
    tape.backward(loss);
    if (!mesh.dry()) {
      found->add(loss.value());
      add_gradients(*found, model);
    }
  }
};

std::string each_way(Index forward, Index backward) {
  return std::to_string(forward) + " / " + std::to_string(backward) + " / 0";
}

template <class PlanType>
void check_llama(const LlamaMesh& mesh, bool sequence_parallel) {
  Bits kept_bits, again_bits, deeper_bits, deeper_again_bits;
  const Index depth = llama_config.layers;
  const auto kept = agreed_plan(mesh, LlamaStep<PlanType>{depth, false, &kept_bits});
  const auto again = agreed_plan(mesh, LlamaStep<PlanType>{depth, true, &again_bits});
  CHECK(kept_bits.any());
  CHECK(kept_bits.tensors() == static_cast<std::size_t>(1 + 9 * depth + 3));
  CHECK(kept_bits == again_bits);

  const bool split = mesh.size<tp>() * mesh.size<kvr>() > 1;
  const Index data = mesh.size<dp>() > 1 ? 1 : 0, sums = split ? 2 * depth + 1 : 0, loss = split ? 1 : 0;
  const Index once_more = split ? 2 * depth : 0;
  if (sequence_parallel) {
    for (Collective kind : {Collective::all_gather, Collective::reduce_scatter}) {
      CHECK(calls(kept, kind) == each_way(sums, sums));
      CHECK(calls(again, kind) == each_way(sums, sums + once_more));
    }
    CHECK(calls(again, Collective::all_reduce) == each_way(loss + data, 0));
  } else {
    CHECK(calls(kept, Collective::all_reduce) == each_way(sums + loss + data, sums));
    CHECK(calls(again, Collective::all_reduce) == each_way(sums + loss + data, sums + once_more));
    CHECK(again.collectives() == again.count(Collective::all_reduce));
  }
  CHECK(again.bytes(Phase::forward) == kept.bytes(Phase::forward));

  // One layer more: one x more, and in the backward pass its forward pass.
  const auto deeper_kept = agreed_plan(mesh, LlamaStep<PlanType>{depth + 1, false, &deeper_bits});
  const auto deeper = agreed_plan(mesh, LlamaStep<PlanType>{depth + 1, true, &deeper_again_bits});
  using Tokens = typename llm::Llama<LlamaMesh, PlanType>::Tokens;
  using X = decltype(reduced_on_data_axes(std::declval<const Tokens&>()(std::declval<Ids<LlamaMesh>>())));
  const X x(mesh, {batch, length, llama_config.features});
  CHECK(deeper.peak_activation_bytes() - again.peak_activation_bytes() == x.buffer()->bytes);
  CHECK(deeper_kept.peak_activation_bytes() - kept.peak_activation_bytes() > 3 * x.buffer()->bytes);
  const auto layer_flops = deeper_kept.flops(Phase::forward) - kept.flops(Phase::forward);
  CHECK(again.flops(Phase::forward) == kept.flops(Phase::forward));
  CHECK(again.flops(Phase::backward) == kept.flops(Phase::backward) + depth * layer_flops);

  // Of the first layers only: each one more computes its forward pass again, and needs no more memory. The last one may:
  // its activations are in use when the backward pass begins.

  auto before = deeper_kept;
  for (Index first = 0; first <= depth + 1; ++first) {
    Bits bits;
    const auto some = agreed_plan(mesh, LlamaStep<PlanType>{depth + 1, true, &bits, first});
    CHECK(bits == deeper_bits);
    CHECK(some.flops(Phase::backward) == deeper_kept.flops(Phase::backward) + first * layer_flops);
    if (first <= depth) CHECK(some.peak_activation_bytes() <= before.peak_activation_bytes());
    before = some;
  }
  CHECK(before.peak_activation_bytes() == deeper.peak_activation_bytes());
}

TEST_CASE("Llama: every bit as without, the collectives of one more forward pass, one x kept a layer") {
  for (const LlamaMesh& mesh : llama_meshes(llama_config)) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    check_llama<TensorPlan>(mesh, false);
    check_llama<SequencePlan>(mesh, true);
  }
}

// ---- Tape::backward from any result -----------------------------------------------------------------------

TEST_CASE("a vector-Jacobian product is the gradient of the product with the vector") {
  const Mesh<tp> mesh(world(), {any});
  using Rows = Tensor<double, 2, Mesh<tp>, Shard<0>>;
  const auto dy = normal<Rows>(mesh, {7, 8}, 2);
  Bits product, loss;
  {
    Tape tape;
    auto x = tape.input(normal<Rows>(mesh, {7, 8}, 1));
    tape.backward(gelu(x), dy);
    product.add(x.gradient());
  }
  {
    Tape tape;
    auto x = tape.input(normal<Rows>(mesh, {7, 8}, 1));
    tape.backward(redistribute<Replicate>(sum<0>(sum<0>(mul(gelu(x), tape.constant(dy))))));
    loss.add(x.gradient());
  }
  CHECK(product.any());
  CHECK(product == loss);
}

TEST_CASE("gradients of pending sums and of Reduced values") {
  const Mesh<tp> mesh(world(), {any});
  const double ranks = mesh.size();
  Tape tape;
  auto x = tape.input(full<double, Reduced>(mesh, {3}, 2.0));
  auto pending = redistribute<Partial<Sum>>(x);
  static_assert(
      std::is_same_v<cotangent_of<tensor_of<decltype(pending)>>, Tensor<double, 1, Mesh<tp>, Reduced>>);
  tape.backward(pending, full<double, Reduced>(mesh, {3}, 5.0));
  CHECK(full_tensor(x.gradient()).sum() == doctest::Approx(3 * 5.0));

  auto z = tape.input(full<double, Replicate>(mesh, {3}, 2.0));
  auto used = redistribute<Reduced>(z);
  Tensor<double, 1, Mesh<tp>, Partial<Sum>> terms(mesh, {3});
  for (Index i = 0; i < 3; ++i) terms.writable().data[i] = 4.0;  // on each rank
  tape.backward(used, terms);
  CHECK(full_tensor(z.gradient()).sum() == doctest::Approx(3 * 4.0 * ranks));
}

TEST_CASE("gradients that do not belong to the result") {
  const Mesh<tp> mesh(world(), {any}), twin(world(), {any});
  using X = Tensor<float, 2, Mesh<tp>, Replicate>;
  Tape tape, other;
  auto y = relu(tape.input(normal<X>(mesh, {6, 8}, 1)));
  CHECK_THROWS_WITH_AS(tape.backward(y, normal<X>(mesh, {6, 9}, 1)),
                       "Tape::backward: dimension 1 of the gradient is 9, of the result 8",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tape.backward(y, X()), "Tape::backward: the gradient is an empty tensor",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(tape.backward(y, normal<X>(twin, {6, 8}, 1)),
                       "Tape::backward: the gradient lives on another mesh than the result",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(other.backward(y, normal<X>(mesh, {6, 8}, 1)),
                       "Tape::backward: the result is on another tape", std::invalid_argument);
  CHECK_NOTHROW(tape.backward(y, normal<X>(mesh, {6, 8}, 1)));
}

}  // namespace
}  // namespace shardwise::testing
