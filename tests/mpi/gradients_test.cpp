// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Finishing, measuring and clipping the gradients of a module whose parameters lie in all ways, against the same
/// numbers computed on every rank by itself; and what it communicates.

#include <shardwise/nn/mlp.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/rate_schedule.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/elements.hpp>
#include <support/plans.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace shardwise::testing::gradients {
namespace sw = shardwise;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<dp, tp>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Of all that a parameter can be, in three element types; few of the extents are multiples of two or three.
template <class MeshType>
struct Model {
  template <class T, int Rank, class OnDp, class OnTp>
  using Weight = sw::Parameter<sw::Tensor<T, Rank, MeshType, OnDp, OnTp>>;
  static constexpr sw::Init init = sw::Init::constant(1);

  const MeshType& mesh;
  Weight<double, 2, Reduced, Shard<0>> column{mesh, {7, 3}, init};
  Weight<float, 1, Reduced, Reduced> norm{mesh, {11}, init};
  Weight<float, 2, Reduced, Shard<1>> row{mesh, {3, 5}, init};
  Weight<double, 2, Shard<0>, Shard<0>> table{mesh, {5, 2}, init};
  Weight<float, 1, Reduced, Replicate> bias{mesh, {6}, init};
  Weight<double, 1, Reduced, Reduced> scale{mesh, {4}, init};
  Weight<float, 1, Replicate, Reduced> shift{mesh, {9}, init};
  Weight<Eigen::bfloat16, 1, Reduced, Reduced> half_norm{mesh, {2}, init};
  Weight<double, 1, Replicate, Replicate> plain{mesh, {4}, init};

  constexpr void visit(auto&& f) {
    f("column", column);
    f("norm", norm);
    f("row", row);
    f("table", table);
    f("bias", bias);
    f("scale", scale);
    f("shift", shift);
    f("half_norm", half_norm);
    f("plain", plain);
  }
};

/// What a rank adds to element `place` of the gradient of parameter `number`: small integers, so that sums are exact
/// in any order. On the axes where the parameter is `Reduced`, ranks differ.
template <class X>
double term(int number, Index place, const sw::MeshSizes& coordinates) {
  auto value = static_cast<double>((place * 7 + number * 5) % 13 - 6);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (X::layout[static_cast<int>(axis)] == sw::reduced)
      value += static_cast<double>(axis + 1) * coordinates[axis];
  }
  return value;
}

/// The sum of the terms of all ranks that are asked to add theirs.
template <class X>
double sum_of_terms(int number, Index place, const sw::MeshSizes& sizes) {
  double sum = 0;
  for (int i = 0; i < (X::layout[0] == sw::reduced ? sizes[0] : 1); ++i) {
    for (int j = 0; j < (X::layout[1] == sw::reduced ? sizes[1] : 1); ++j)
      sum += term<X>(number, place, {i, j});
  }
  return sum;
}

template <class P>
using tensor_of_parameter = typename std::remove_cvref_t<P>::TensorOf;

/// f(parameter, number) for all parameters.
template <class Module, class F>
constexpr void for_each_numbered(Module& model, F f) {
  int number = 0;
  sw::for_each_parameter(model, [&](auto& parameter) { f(parameter, number++); });
}

/// As `backward` would, a contribution for every parameter.
template <class Module>
constexpr void give_gradients(Module& model) {
  for_each_numbered(model, [](auto& parameter, int number) {
    using X = tensor_of_parameter<decltype(parameter)>;
    sw::cotangent_of<X> gradient(parameter.mesh(), parameter.shape());
    if (!parameter.mesh().dry()) {
      auto block = gradient.writable();
      for (Index i = 0; i < block.elements(); ++i) {
        block.data[i] = static_cast<typename X::Element>(
            term<X>(number, whole_place(block, i), parameter.mesh().coordinates()));
      }
    }
    parameter.slot()->add(std::move(gradient));
  });
}

/// Every block holds `factor` times the sums, and nothing is pending.
template <class Module>
void check_finished(Module& model, double factor) {
  for_each_numbered(model, [&](auto& parameter, int number) {
    using X = tensor_of_parameter<decltype(parameter)>;
    REQUIRE_FALSE(static_cast<bool>(parameter.gradient()));
    REQUIRE(static_cast<bool>(parameter.finished_gradient()));
    const auto block = parameter.finished_gradient().view();
    for (Index i = 0; i < block.elements(); ++i) {
      const double sum = sum_of_terms<X>(number, whole_place(block, i), parameter.mesh().sizes());
      using C = sw::kernel::compute_t<typename X::Element>;
      CHECK(block.data[i] == static_cast<typename X::Element>(static_cast<C>(factor) * static_cast<C>(sum)));
    }
  });
}

/// √Σ g² or max |g| of the whole model.
template <class Module>
double dense_norm(Module& model, bool maximum = false) {
  double squares = 0, largest = 0;
  for_each_numbered(model, [&](auto& parameter, int number) {
    using X = tensor_of_parameter<decltype(parameter)>;
    for (Index place = 0; place < sw::elements(parameter.shape()); ++place) {
      const double sum = sum_of_terms<X>(number, place, parameter.mesh().sizes());
      squares += sum * sum;
      largest = std::max(largest, std::abs(sum));
    }
  });
  return maximum ? largest : std::sqrt(squares);
}

template <class Module>
struct Pair {
  Module first, second;
  void visit(auto&& f) {
    f("first", first);
    f("second", second);
  }
};

bool close(double a, double b) { return std::abs(a - b) <= 1e-14 * b; }

}  // namespace

TEST_CASE("gradients are summed over exactly the axes where they are pending, whatever the buckets") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    for (Index bucket_bytes : {0, 16, 48, 100, 1 << 20}) {
      Model<Mesh> model{mesh};
      give_gradients(model);
      sw::reduce_gradients(model, {.bucket_bytes = bucket_bytes});
      check_finished(model, 1);
      give_gradients(model);  // a second micro-batch adds to what was finished
      sw::reduce_gradients(model, {.bucket_bytes = bucket_bytes});
      check_finished(model, 2);
    }
  }
}

TEST_CASE("the three accounts agree on every bucket") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    const bool on_dp = mesh.size<dp>() > 1, on_tp = mesh.size<tp>() > 1;
    auto step = [](Index bucket_bytes, bool clips) {
      return [=](const auto& m) {
        Model<std::remove_cvref_t<decltype(m)>> model{m};
        sw::initialize(model, 1);
        sw::AdamW adamw({}, {.bucket_bytes = bucket_bytes});
        for (int i = 0; i < 2; ++i) {
          give_gradients(model);
          if (clips) sw::clip_gradients(model, 1, 2, {.bucket_bytes = bucket_bytes});
          adamw.step(model);
        }
      };
    };
    // On one axis, one for each element type. On two: over both for each; over dp for float and double; over tp for
    // float.
    const int sets = on_dp && on_tp ? 6 : on_dp || on_tp ? 3 : 0;
    CHECK(calls(agreed_plan(mesh, step(1 << 20, false)), Collective::all_reduce) ==
          "0 / 0 / " + std::to_string(2 * sets));
    const auto clipped = agreed_plan(mesh, step(1 << 20, true));
    CHECK(clipped.count(Collective::all_reduce) == 2 * (sets + (on_dp || on_tp ? 1 : 0)));
    CHECK(clipped.collectives() == clipped.count(Collective::all_reduce));
    for (Index bucket_bytes : {0, 16, 48, 100}) agreed_plan(mesh, step(bucket_bytes, true));
  }
}

TEST_CASE("a step uses what is finished, and then there is no gradient") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    Model<Mesh> model{mesh};
    sw::initialize(model, 1);
    give_gradients(model);
    sw::reduce_gradients(model);
    mpi_counter::reset();
    sw::SGD sgd({.rate = 0.25});
    sgd.step(model);
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 0);
    for_each_numbered(model, [&](auto& parameter, int number) {
      using X = tensor_of_parameter<decltype(parameter)>;
      CHECK_FALSE(static_cast<bool>(parameter.finished_gradient()));
      const auto block = parameter.value().view();
      for (Index i = 0; i < block.elements(); ++i) {
        const double sum = sum_of_terms<X>(number, whole_place(block, i), mesh.sizes());
        CHECK(block.data[i] == static_cast<typename X::Element>(1 - 0.25 * sum));
      }
    });
  }
}

TEST_CASE("the norm counts every element once, and clipping divides by it") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    Model<Mesh> model{mesh};
    give_gradients(model);
    const double norm = dense_norm(model);
    CHECK(close(sw::gradient_norm(model), norm));
    CHECK(sw::gradient_norm(model, infinity) == dense_norm(model, true));
    CHECK(sw::clip_gradients(model, 1.5 * norm) == sw::gradient_norm(model));
    check_finished(model, 1);  // bit by bit
    CHECK(sw::clip_gradients(model, infinity) == sw::gradient_norm(model));
    check_finished(model, 1);
    const double found = sw::clip_gradients(model, 0.5);
    CHECK(close(found, norm));
    check_finished(model, 0.5 / (found + 1e-6));
    CHECK(sw::gradient_norm(model) == doctest::Approx(0.5).epsilon(1e-3));
    CHECK(sw::clip_gradients(model, 0.03, infinity) > 0.03);
    CHECK(sw::gradient_norm(model, infinity) == doctest::Approx(0.03).epsilon(1e-2));
    sw::clip_gradients(model, 0);
    CHECK(sw::gradient_norm(model) == 0);
  }
}

TEST_CASE("only the wanted elements count: a module without gradients, one gradient of many") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    Model<Mesh> model{mesh};
    CHECK(sw::clip_gradients(model, 1) == 0);
    using Gradient = std::remove_cvref_t<decltype(model.norm.gradient())>;
    Gradient ones(mesh, {11});
    std::fill_n(ones.writable().data, 11, 1.0f);
    model.norm.slot()->add(ones);
    CHECK(close(sw::gradient_norm(model), mesh.size() * std::sqrt(11.)));
    CHECK_FALSE(static_cast<bool>(model.bias.finished_gradient()));
    CHECK(ones.view().data[3] == 1);  // a tensor that somebody else holds does not change, neither here
    const auto sums = model.norm.finished_gradient();
    sw::clip_gradients(model, 1e-3);
    CHECK(sums.data()[3] == mesh.size());  // nor here
    CHECK(model.norm.finished_gradient().data()[3] < 1);
  }
}

TEST_CASE("norms that are not finite, and squares that leave the range of float") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    const bool last = mesh.rank() == mesh.size() - 1;
    for (double p : {2., infinity}) {
      for (double value : {not_a_number, infinity, 3e30, 3e-30}) {
        sw::Parameter<sw::Tensor<float, 1, Mesh, Shard<0>, Shard<0>>> weight(mesh, {32},
                                                                             sw::Init::constant(0));
        auto gradient = sw::zeros<float, Shard<0>, Shard<0>>(mesh, {32});
        auto block = gradient.writable();
        if (last) block.data[block.elements() - 1] = static_cast<float>(value);
        weight.slot()->add(std::move(gradient));
        const double norm = sw::clip_gradients(weight, 0.5, p);
        const double left = static_cast<double>(block.data[block.elements() - 1]);
        if (std::isnan(value)) {
          CHECK(std::isnan(norm));
          CHECK(std::isnan(left) == last);  // others are as they were
        } else if (std::isinf(value)) {
          CHECK(norm == infinity);
          CHECK(left == (last ? infinity : 0));
        } else {
          CHECK(norm == static_cast<double>(static_cast<float>(value)));
          if (last) CHECK(left == doctest::Approx(std::min(value, 0.5)));
        }
      }
    }
  }
}

TEST_CASE("tied parameters share what they gather, and it counts once") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    using Weight = sw::Parameter<sw::Tensor<double, 1, Mesh, Reduced, Replicate>>;
    Weight weight(mesh, {3}, sw::Init::constant(1));
    Pair<Weight> tied{weight.tied(), weight.tied()};
    sw::initialize(tied, 1);
    for (Index bucket_bytes : {0, 24, 1000}) {
      for (Weight* use : {&tied.first, &tied.second}) {
        std::remove_cvref_t<decltype(weight.gradient())> ones(mesh, {3});
        std::fill_n(ones.writable().data, 3, 1.0);
        use->slot()->add(std::move(ones));
      }
      const double each = 2 * mesh.size<dp>();
      CHECK(close(sw::gradient_norm(tied, 2, {.bucket_bytes = bucket_bytes}), each * std::sqrt(3.)));
      const double before = tied.first.value().data()[0];
      sw::SGD sgd({.rate = 1});
      sgd.step(tied);
      CHECK(tied.first.value().data()[0] == before - each);
      CHECK(tied.second.value().data()[0] == before - each);
    }
  }
}

TEST_CASE("clipped training is the same on every mesh") {
  auto train = [](const Mesh& mesh) {
    Index pool = 0;
    sw::Mlp<Mesh, double> mlp(mesh, 6, 10);
    sw::initialize(mlp, 3);
    const sw::RateSchedule schedule(
        {.decay = sw::Decay::cosine, .peak = 0.2, .floor = 0.01, .warmup = 3, .steps = 8});
    sw::AdamW adamw;
    std::vector<double> norms;
    for (std::uint64_t step = 0; step < 8; ++step) {
      sw::Tape tape;
      const auto x = sw::randn<double, Shard<0>, Replicate>(mesh, {5, 6}, 10 + step);
      auto y = mlp(tape.constant(x));
      tape.backward(sw::redistribute<Replicate, Replicate>(sw::mean(sw::mul(y, y))));
      norms.push_back(sw::clip_gradients(mlp, 0.1));
      adamw.settings().rate = schedule(adamw.steps());
      adamw.step(mlp);
      if (step == 2) pool = sw::memory_pool().system_bytes();
    }
    // A steady step reuses what the first ones took; in a simulation others use the pool as well.
    if (sw::detail::mpi_initialized()) CHECK(sw::memory_pool().system_bytes() == pool);
    return norms;
  };
  const auto expected = train(Mesh(sw::self(), {1, 1}));
  CHECK(*std::max_element(expected.begin(), expected.end()) > 0.2);
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const auto norms = train(mesh);
    for (std::size_t i = 0; i < norms.size(); ++i)
      CHECK(norms[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
}

TEST_CASE("what makes no sense is refused on every rank, and leaves gradients where they are") {
  const Mesh mesh(sw::world(), {1, sw::any});
  Model<Mesh> model{mesh};
  give_gradients(model);
  mpi_counter::reset();
  CHECK_THROWS_WITH_AS(sw::reduce_gradients(model, {.bucket_bytes = -1}),
                       "ReduceOptions: bucket_bytes is -1, which must be 0 or more", std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::gradient_norm(model, 1), "gradient_norm: p is 1, which must be 2 or infinity",
                       std::invalid_argument);
  for (double bad : {-1., not_a_number})
    CHECK_THROWS_AS(sw::clip_gradients(model, bad), std::invalid_argument);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 0);
  CHECK(static_cast<bool>(model.norm.gradient()));

  const Mesh other(sw::world(), {sw::any, 1});
  Pair<Model<Mesh>> two{{mesh}, {other}};
  give_gradients(two.first);
  give_gradients(two.second);
  sw::reduce_gradients(two);  // each mesh by itself
  check_finished(two.first, 1);
  if (sw::world().size() > 1) CHECK_THROWS_AS(sw::gradient_norm(two), std::invalid_argument);
}

TEST_CASE("schedules") {
  // By PyTorch's LambdaLR (1.13), with the formulas of transformers' get_…_schedule_with_warmup after the warm-up.
  const std::map<sw::Decay, std::vector<double>> rates{
      {sw::Decay::constant,
       {7.5e-05, 0.00015, 0.000225, 0.0003, 0.0003, 0.0003, 0.0003, 0.0003, 0.0003, 0.0003, 0.0003, 0.0003,
        0.0003, 0.0003}},
      {sw::Decay::linear,
       {7.5e-05, 0.00015, 0.000225, 0.0003, 0.0003, 0.00026625, 0.0002325, 0.00019875, 0.000165, 0.00013125,
        9.75e-05, 6.375e-05, 3e-05, 3e-05}},
      {sw::Decay::cosine,
       {7.5e-05, 0.00015, 0.000225, 0.0003, 0.0003, 0.000289723736889, 0.00026045941546, 0.000216662263369,
        0.000165, 0.000113337736631, 6.95405845398e-05, 4.0276263111e-05, 3e-05, 3e-05}}};
  for (const auto& entry : rates) {
    const sw::Decay decay = entry.first;
    const std::vector<double>& expected = entry.second;
    INFO(sw::name_of(decay));
    const sw::RateSchedule schedule({.decay = decay, .peak = 3e-4, .floor = 3e-5, .warmup = 4, .steps = 12});
    for (std::size_t step = 0; step < expected.size(); ++step) {
      INFO("step ", step);
      CHECK(std::abs(schedule(static_cast<std::int64_t>(step)) / expected[step] - 1) < 1e-11);
    }
    CHECK(schedule(1'000'000) == (decay == sw::Decay::constant ? 3e-4 : 3e-5));
    CHECK(sw::RateSchedule({.decay = decay, .peak = 3, .steps = 2})(0) == 3);  // no warm-up
    CHECK_THROWS_WITH_AS(schedule(-1), "RateSchedule: step is -1, which must be 0 or more",
                         std::invalid_argument);
  }
  CHECK(sw::RateSchedule({.peak = 0.5, .warmup = 2})(0) == 0.25);  // a constant rate needs no steps
}

TEST_CASE("schedules that make no sense") {
  for (double bad : {-1., infinity, not_a_number}) {
    CHECK_THROWS_AS(sw::RateSchedule({.peak = bad}), std::invalid_argument);
    CHECK_THROWS_AS(sw::RateSchedule({.floor = bad}), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(sw::RateSchedule({.peak = 1, .floor = 2}),
                       "RateSchedule: floor is 2, which must not be above the peak, 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::RateSchedule({.warmup = -1}),
                       "RateSchedule: warmup is -1, which must be 0 or more", std::invalid_argument);
  for (sw::Decay decay : {sw::Decay::linear, sw::Decay::cosine}) {
    CHECK_THROWS_WITH_AS(sw::RateSchedule({.decay = decay, .warmup = 5, .steps = 5}),
                         "RateSchedule: warmup is 5, which must be below the steps, 5",
                         std::invalid_argument);
    CHECK_THROWS_AS(sw::RateSchedule({.decay = decay}), std::invalid_argument);  // no steps
  }
}

TEST_CASE("a decay is parsed by its name") {
  for (sw::Decay decay : {sw::Decay::constant, sw::Decay::linear, sw::Decay::cosine}) {
    CHECK(sw::parse_decay(sw::name_of(decay)) == decay);
  }
  for (const char* bad : {"", "Cosine", "cosine ", "cos"}) {
    CHECK_THROWS_AS(sw::parse_decay(bad), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(sw::parse_decay("step"),
                       "\"step\" is not a learning-rate decay: choose constant, linear or cosine",
                       std::invalid_argument);
}

}  // namespace shardwise::testing::gradients
