// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Messages that carry other types than tensors have: values and their rounding, the same bits on all ranks, the plan, the
/// record and what MPI saw; of redistributions, styles, data-parallel gradients and fully sharded parameters; on one host,
/// and as if there were several.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>
#include <support/plans.hpp>
#include <support/typed_redistribution.hpp>

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

namespace shardwise::testing {
namespace {

using bf16 = Eigen::bfloat16;
using Line = Mesh<tp>;

/// All ranks: as MPI sees their hosts, and as if two shared one, or each had one for itself.
template <class MeshType, std::size_t Axes>
std::vector<MeshType> arranged(const std::array<int, Axes>& sizes) {
  std::vector<MeshType> all{MeshType(world(), sizes)};
  for (const int host : {world().rank() / 2, world().rank()}) {
    all.emplace_back(world().on_hosts(host), sizes);
  }
  return all;
}

template <class MeshType>
int hosts(const MeshType& mesh) {
  return mesh.communicator().hosts().count();
}

bool same_on_all_ranks(const detail::AnyTensor& x) {
  const Index count = x.buffer->bytes;
  std::vector<unsigned char> least(static_cast<std::size_t>(count)), most(least);
  world().all_reduce(x.buffer->data, least.data(), count, DataType::u8, ReduceOp::min);
  world().all_reduce(x.buffer->data, most.data(), count, DataType::u8, ReduceOp::max);
  return least == most;
}

/// Not held by any narrower type: the term of a rank, or the value on all ranks where `rank` is 0.
double number(int rank, Index i) { return std::sin(static_cast<double>(rank * 1000003 + i * 17 + 1)) * 3; }
template <class X>
X numbers(const typename X::MeshOf& mesh, const Shape<X::rank>& shape) {
  X x(mesh, shape);
  const auto block = x.writable();
  for_each_element(shape, x.box(), [&](std::size_t local, Index global) {
    block.data[local] =
        static_cast<typename X::Element>(number(has_partial(X::layout) ? mesh.rank() : 0, global));
  });
  return x;
}

/// Whole numbers that every type holds travel unchanged, from each placement to each, at once and later; and half the bytes
/// are recorded and sent.
template <class T, class Carried, class From, class To>
void check_exact(const Line& mesh) {
  using X = Tensor<T, 2, Line, From>;
  using Y = Tensor<T, 2, Line, To>;
  if constexpr (testing::convertible(X::layout, Y::layout)) {
    const X x = typed_source<X>(mesh, {7, 5}, 5);
    const Route expected = route(X::layout, Y::layout, 2, mesh.sizes());
    Index stored_bytes = 0;
    {
      Recording recording(mesh);
      redistribute<To>(x);
      stored_bytes = recording.plan().bytes();
    }
    for (bool asynchronous : {false, true}) {
      Recording recording(mesh);
      mpi_counter::reset();
      const auto as = communicate_as<Carried>();
      const Y y = asynchronous ? redistribute_async<To>(x, as).wait() : redistribute<To>(x, as);
      std::string wrong;
      if (hosts(mesh) == 1) {
        wrong = disagreement(expected, {data_type_of<Carried>(), X::layout, mesh.sizes()}, recording.plan(),
                             mpi_counter::counts());
      }
      if (recording.plan().bytes() * static_cast<Index>(sizeof(T)) !=
          stored_bytes * static_cast<Index>(sizeof(Carried))) {
        wrong += " wrong bytes;";
      }
      if (!holds(y, X::layout, 5)) wrong += " wrong;";
      if (!filled(detail::AnyTensor(x), 5)) wrong += " the source has changed;";
      report(asynchronous ? "asynchronously, " : "", wrong, detail::AnyTensor(x), Y::layout);
    }
  }
}
template <class T, class Carried, class... P>
void check_pairs() {
  for (const Line& mesh : arranged<Line, 1>({any})) {
    auto from = [&]<class From>(From) { (check_exact<T, Carried, From, P>(mesh), ...); };
    (from(P{}), ...);
  }
}

TEST_CASE("what both types hold travels unchanged") {
  check_pairs<float, bf16, Shard<0>, Shard<1>, Replicate, Reduced, Partial<>>();
  check_pairs<float, bf16, Shard<1>, Replicate, Partial<Max>>();
  check_pairs<double, float, Shard<0>, Shard<1>, Partial<>>();
  check_pairs<double, bf16, Shard<0>, Replicate, Partial<>>();
  check_pairs<bf16, float, Shard<0>, Shard<1>, Replicate, Partial<>>();
}

TEST_CASE("a block that travels is rounded once, also where it stays") {
  for (const Line& mesh : arranged<Line, 1>({any})) {
    if (mesh.size() == 1) continue;  // nothing travels
    const auto x = numbers<Tensor<float, 2, Line, Shard<1>>>(mesh, {6, 7});
    auto rounded = [&](const auto& y) {
      bool right = true;
      for_each_element(y.shape(), y.box(), [&](std::size_t local, Index global) {
        const bf16 expected(static_cast<float>(number(0, global)));
        right = right && y.data()[local] == static_cast<float>(expected);
      });
      return right;
    };
    const auto whole = redistribute<tp, Replicate>(x, communicate_as<bf16>());
    CHECK(rounded(whole));
    CHECK(same_on_all_ranks(detail::AnyTensor(whole)));
    CHECK(rounded(redistribute<tp, Shard<0>>(x, communicate_as<bf16>())));
    const auto own = redistribute<tp, Shard<1>>(x, communicate_as<bf16>());  // does not travel
    CHECK(std::memcmp(own.data(), x.data(), static_cast<std::size_t>(x.buffer()->bytes)) == 0);
  }
}

/// Sums of terms that `Carried` does not hold: how far from the exact ones, in units of the sum of the terms' magnitudes?
template <class T, class Carried>
double error_of_sums(const Line& mesh) {
  const Shape<2> shape{37, 53};
  const auto terms = numbers<Tensor<T, 2, Line, Partial<>>>(mesh, shape);
  const auto sum = redistribute<tp, Replicate>(terms, communicate_as<Carried>());
  const auto part = redistribute<tp, Shard<0>>(terms, communicate_as<Carried>());
  CHECK(same_on_all_ranks(detail::AnyTensor(sum)));
  double worst = 0;
  const auto compare = [&](const auto& y) {
    for_each_element(shape, y.box(), [&](std::size_t local, Index global) {
      double exact = 0, magnitude = 0;
      for (int r = 0; r < mesh.size(); ++r) {
        const auto term = static_cast<double>(static_cast<T>(number(r, global)));
        exact += term;
        magnitude += std::abs(term);
      }
      worst = std::max(worst, std::abs(static_cast<double>(y.data()[local]) - exact) / magnitude);
    });
  };
  compare(sum);
  compare(part);
  return worst;
}

TEST_CASE("sums are as exact as the type that travels") {
  for (const Line& mesh : arranged<Line, 1>({any})) {
    if (mesh.size() == 1) continue;
    // Half a unit in the last place each: the term, the sum; across hosts the host's sum.
    const int roundings = hosts(mesh) == 1 ? 2 : 3;
    const double bf16_error = error_of_sums<float, bf16>(mesh), unit = std::ldexp(1, -8);
    CHECK(bf16_error < roundings * unit);
    CHECK(bf16_error > unit / 16);  // it was rounded at all
    CHECK(error_of_sums<double, bf16>(mesh) < (roundings + 0.01) * unit);
    const double float_error = error_of_sums<double, float>(mesh);
    CHECK(float_error < (mesh.size() + 1) * std::ldexp(1, -24));
    CHECK(float_error > std::ldexp(1, -30));
    CHECK(error_of_sums<bf16, float>(mesh) < 1.01 * unit);  // the result, in bfloat16
  }
}

TEST_CASE("on a tape the gradient travels as the second type") {
  for (const Line& mesh : arranged<Line, 1>({any})) {
    if (mesh.size() == 1) continue;
    using X = Tensor<float, 2, Line, Shard<0>>;
    Recording recording(mesh);
    Tape tape;
    auto x = tape.input(numbers<X>(mesh, {8, 6}));
    auto y = redistribute<tp, Reduced>(x, communicate_as<bf16, float>());
    using Terms = cotangent_of<tensor_of<decltype(y)>>;
    const auto dy = numbers<Terms>(mesh, {8, 6});
    arrive(tape, y, dy);
    go_back(tape, mesh);
    const auto plan = recording.plan();
    CHECK(plan.bytes(Phase::forward) == 48 * 2);
    CHECK(plan.bytes(Phase::backward) == 48 * 4);
    const auto expected = redistribute<tp, Shard<0>>(dy);
    const auto found = x.gradient();
    CHECK(std::memcmp(found.data(), expected.data(), static_cast<std::size_t>(expected.buffer()->bytes)) ==
          0);
  }
}

// ---- Styles ------------------------------------------------------------------------------------------------------
template <class MeshType, class... As>
using SplitMlp = Mlp<MeshType, float, ColwiseParallel<tp, As...>, RowwiseParallel<tp, As...>>;

/// The result and the gradient of x.
template <class... As>
struct MlpRun {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    SplitMlp<MeshType, As...> mlp(mesh, 12, 20);
    initialize(mlp, 3);
    Tape tape;
    Tensor<float, 2, MeshType, Replicate> in(mesh, {9, 12});
    if (!mesh.dry()) in = randn<float, Replicate>(mesh, {9, 12}, 4);
    auto x = tape.input(in);
    auto y = mlp(x);
    auto loss = mean(mul(y, y));
    tape.backward(loss);
    return std::pair(detail::AnyTensor(y.value()), detail::AnyTensor(x.gradient()));
  }
};
double distance(const detail::AnyTensor& a, const detail::AnyTensor& b) {
  const auto *p = static_cast<const float*>(a.buffer->data), *q = static_cast<const float*>(b.buffer->data);
  double difference = 0, most = 0;
  for (Index i = 0; i < a.local_elements(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(p[i]) - static_cast<double>(q[i])));
    most = std::max(most, std::abs(static_cast<double>(q[i])));
  }
  return difference / most;
}

TEST_CASE("a column-wise and a row-wise layer communicate as their styles say, forward and backward apart") {
  const Line mesh(world(), {any});
  const auto [y, dx] = MlpRun<>{}(mesh);
  const auto check = [&, y = y, dx = dx]<class As>(As, Index forward, Index backward) {
    const auto plan = agreed_plan(mesh, [](const auto& any_mesh) { MlpRun<As>{}(any_mesh); });
    const bool travels = mesh.size() > 1;
    CHECK(plan.count(Collective::all_reduce) == (travels ? 2 : 0));
    CHECK(plan.bytes(Phase::forward) == (travels ? 9 * 12 * forward : 0));
    CHECK(plan.bytes(Phase::backward) == (travels ? 9 * 12 * backward : 0));
    const auto [found, gradient] = MlpRun<As>{}(mesh);
    CHECK(distance(found, y) < (forward == 2 ? 0.02 : 1e-6));
    CHECK((distance(found, y) > 1e-4) == (travels && forward == 2));
    CHECK(distance(gradient, dx) < 0.03);
    CHECK(same_on_all_ranks(found));
    CHECK(same_on_all_ranks(gradient));
  };
  check(communicate_as<bf16>(), 2, 2);
  check(communicate_as<bf16, float>(), 2, 4);
  check(communicate_as<float, bf16>(), 4, 2);
  check(communicate_as<float>(), 4, 4);
}

/// Sequence parallel, with a gathered and a scattered sequence; and a module of one's own behind a style.
template <class MeshType, class As>
struct Block : Module<Block<MeshType, As>> {
  explicit constexpr Block(const MeshType& mesh) : norm(mesh, 6), up(mesh, 6, 8), down(mesh, 8, 6) {}
  constexpr auto forward(const auto& x) const { return down(gelu(up(norm(x)))); }
  constexpr void visit(auto&& f) {
    f("norm", norm);
    f("up", up);
    f("down", down);
  }
  LayerNorm<MeshType, SequenceParallel<tp, 1, As>> norm;
  Linear<MeshType, ColwiseParallel<tp, As>> up;
  Linear<MeshType, RowwiseParallel<tp, output<Shard<1>>, As>> down;
};

TEST_CASE("sequence parallel, and a module behind a style") {
  const Line mesh(world(), {any});
  const Index travels = mesh.size() > 1 ? 2 * 8 * 6 : 0;
  const auto plan = agreed_plan(mesh, []<class MeshType>(const MeshType& some) {
    using Given = PrepareModuleOutput<tp, communicate_as<float, bf16>, Replicate>;
    Prepared<Block<MeshType, communicate_as<bf16>>, Given> block(some);
    initialize(block, 3);
    Tensor<float, 3, MeshType, Shard<1>> x(some, {2, 8, 6});
    if (!some.dry()) x = randn<float, Shard<1>>(some, {2, 8, 6}, 4);
    block(x);
  });
  CHECK(plan.bytes(Phase::forward) == (2 + 2 + 4) * travels);  // gathered, scattered, gathered
}

// ---- Gradients, and parameters that are gathered -----------------------------------------------------------------
template <class MeshType, int Level>
struct Net : Module<Net<MeshType, Level>> {
  template <class Style>
  using With = Styles<Style, Zero<Level, dp>>;

  explicit constexpr Net(const MeshType& mesh)
      : up(mesh, 10, 24), down(mesh, 24, 6), first(up), second(down) {
    first.link(second);
  }
  constexpr auto forward(const auto& x) const {
    auto h = first(x, [&](const auto& in) { return gelu(up(in)); });
    return second(h, [&](const auto& in) { return down(in); });
  }
  constexpr void visit(auto&& f) {
    f("up", up);
    f("down", down);
  }
  Linear<MeshType, With<ColwiseParallel<tp>>> up;
  Linear<MeshType, With<RowwiseParallel<tp>>> down;
  Unit first, second;
};

/// What the messages of a model's parameters and gradients carry, if it is not what is stored.
using Carried = std::optional<detail::Communication>;
constexpr Carried stored = std::nullopt;
template <class... As>
constexpr Carried carried = communicate_as<As...>::types();

template <class Module>
constexpr void set(Module& module, const Carried& types) {
  if (types) set_communication(module, types->forward, types->backward);
}

/// Some steps; the losses of them.
template <int Level>
struct Training {
  Carried types;
  int steps = 1;
  ReduceOptions reduction{};

  template <class MeshType>
  std::vector<double> operator()(const MeshType& mesh) const {
    Net<MeshType, Level> net(mesh);
    initialize(net, 3);
    set(net, types);
    AdamW adamw({.rate = 1e-2}, reduction);
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      Tape tape;
      Tensor<float, 2, MeshType, Shard<0>, Replicate> in(mesh, {24, 10});
      if (!mesh.dry()) in = randn<float, Shard<0>, Replicate>(mesh, {24, 10}, 40);
      auto y = net(tape.constant(in));
      auto error = add(y, tape.constant(target(mesh)));
      auto loss = redistribute<Replicate, Replicate>(mean(mul(error, error)));
      backward_and_reduce(loss, net, reduction);
      adamw.step(net);
      if (!mesh.dry()) losses.push_back(static_cast<double>(item(loss.value())));
    }
    return losses;
  }
  template <class MeshType>
  static auto target(const MeshType& mesh) {
    return randn<float, Shard<0>, Replicate>(mesh, {24, 6}, 41);
  }
};

template <int Level>
void check_training(const Mesh<dp, tp>& mesh, const Carried& types) {
  INFO("level ", Level, " dp ", mesh.size<dp>(), " hosts ", hosts(mesh));
  const auto expected = Training<Level>{stored, 30}(mesh);
  const auto losses = Training<Level>{types, 30}(mesh);
  CHECK(expected.back() < expected.front() / 2);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(0.02));
  }
  CHECK((losses == expected) == (mesh.size<dp>() == 1));
}

TEST_CASE("training with narrow gradients and parameters is close to training in float") {
  using Grid = Mesh<dp, tp>;
  for (const Grid& mesh : arranged<Grid, 2>({any, 1})) {
    check_training<0>(mesh, carried<bf16>);
    check_training<2>(mesh, carried<bf16>);
    check_training<3>(mesh, carried<bf16>);
    check_training<3>(mesh, carried<float, bf16>);
  }
}

/// Bytes of a step along dp, whatever the phase: of gathers of parameters and of all else but the loss, in units of what
/// floats take.
template <int Level>
void check_bytes(const Mesh<dp, tp>& mesh, const Carried& types, double gathers, double reductions) {
  for (Index bucket_bytes : {0, 600, 1 << 20}) {
    const ReduceOptions reduction{.bucket_bytes = bucket_bytes};
    const auto step_of = [&](const Carried& carries) {
      return agreed_plan(mesh, [&](const auto& some) { Training<Level>{carries, 1, reduction}(some); });
    };
    const auto plan = step_of(types), whole = step_of(stored);
    const auto bytes = [](const auto& of, Collective kind) {
      double sum = 0;
      for (const auto& phase : of.record().traffic)
        sum += static_cast<double>(phase[static_cast<int>(kind)][1].bytes);
      return sum;
    };
    CHECK(bytes(plan, Collective::all_gather) == gathers * bytes(whole, Collective::all_gather));
    CHECK(bytes(plan, Collective::reduce_scatter) == reductions * bytes(whole, Collective::reduce_scatter));
    if (Level == 0 && mesh.size<dp>() > 1) {
      CHECK(bytes(plan, Collective::all_reduce) - 4 ==
            reductions * (bytes(whole, Collective::all_reduce) - 4));  // but the loss
    }
  }
}

TEST_CASE("the plan counts the bytes that travel, as the record and MPI do") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    check_bytes<0>(mesh, carried<bf16>, 1, 0.5);
    check_bytes<1>(mesh, carried<bf16>, 1, 0.5);  // gathered is what was updated
    check_bytes<3>(mesh, carried<bf16>, 0.5, 0.5);
    check_bytes<3>(mesh, carried<bf16, float>, 0.5, 1);
    check_bytes<3>(mesh, carried<float, bf16>, 1, 0.5);
  }
}

// ---- A table, of which a batch has few tokens: their rows travel -------------------------------------------------
constexpr Index tokens = 24, width = 10;
template <int Level>
struct TableTraining {
  Carried types;

  template <class MeshType>
  std::vector<double> operator()(const MeshType& mesh) const {
    Embedding<MeshType, Zero<Level, dp>> table(mesh, 40, width);
    Unit unit(table);
    initialize(table, 3);
    set(table, types);
    AdamW adamw({.rate = 3e-2});
    std::vector<double> losses;
    for (int step = 0; step < 20; ++step) {
      Tape tape;
      Tensor<std::int32_t, 1, MeshType, Shard<0>, Replicate> ids(mesh, {tokens});
      if (!mesh.dry()) {
        const auto block = ids.writable();
        for (Index i = 0; i < block.elements(); ++i)
          block.data[i] = static_cast<std::int32_t>((i + block.begin[0]) * 7 % 11);
      }
      auto y = unit(tape.constant(ids), [&](const auto& in) { return table(in); });
      auto loss = redistribute<Replicate, Replicate>(mean(mul(y, y)));
      backward_and_reduce(loss, table);
      adamw.step(table);
      if (!mesh.dry()) losses.push_back(static_cast<double>(item(loss.value())));
    }
    return losses;
  }
};
template <int Level>
void check_table(const Mesh<dp, tp>& mesh) {
  const Carried narrow = carried<bf16>;
  INFO("level ", Level, " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
  const auto expected = TableTraining<Level>{stored}(mesh), losses = TableTraining<Level>{narrow}(mesh);
  CHECK(expected.back() < expected.front() / 2);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(0.02));
  }
  const auto bytes = [&](const Carried& types) {
    return agreed_plan(mesh, [&](const auto& some) { TableTraining<Level>{types}(some); }).bytes();
  };
  const std::int64_t passes = Level == 0 ? 1 : 2;  // of the gradient alone, or of what was looked up too
  const std::int64_t saved = mesh.size<dp>() > 1 ? 20 * passes * tokens * width * 2 : 0;
  CHECK(bytes(stored) - bytes(narrow) == saved);
}
TEST_CASE("the rows of few tokens") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    check_table<0>(mesh);
    check_table<3>(mesh);
  }
}

}  // namespace
}  // namespace shardwise::testing
