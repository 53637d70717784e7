// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Optimizers with groups of parameters against PyTorch, on every level of ZeRO; master weights; what is kept and what
/// is communicated.

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/sgd.hpp>
#include <support/plans.hpp>

#include <mpi/optim_reference.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace shardwise::testing::optim_levels {
namespace sw = shardwise;
using Eigen::bfloat16;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::MemoryUse;
using sw::ParameterInfo;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<dp, tp>;

/// Cut on both axes, in different dimensions; cut on dp alone; and not to be cut on dp.
template <class MeshType, int Level, class T = double>
struct Model {
  template <int Rank, class OnTp, int Dim>
  using Weight = sw::Parameter<sw::Tensor<T, Rank, MeshType, Reduced, OnTp>,
                               sw::packed(Dim < 0 ? sw::Sharding{} : sw::Sharding{Dim, {Level, 0}})>;
  static constexpr sw::Init init = sw::Init::constant(1);

  const MeshType& mesh;
  Weight<2, Shard<0>, 1> weight{mesh, {5, 3}, init};
  Weight<1, Replicate, 0> bias{mesh, {5}, init};
  Weight<1, Shard<0>, -1> late{mesh, {4}, init};

  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
    f("late", late);
  }
};

template <class P>
using tensor_of_parameter = typename std::remove_cvref_t<P>::TensorOf;

/// f(parameter, number) for all parameters.
template <class Module, class F>
constexpr void for_each_numbered(Module& model, F f) {
  int number = 0;
  sw::for_each_parameter(model, [&](auto& parameter) { f(parameter, number++); });
}

/// The same tensor on every rank, of which element i is of(i).
template <class X, class F>
auto whole_tensor(const typename X::MeshOf& mesh, const sw::Shape<X::rank>& shape, F of) {
  std::vector<typename X::Element> values;
  for (Index i = 0; i < sw::elements(shape); ++i) values.push_back(typename X::Element(of(i)));
  return sw::distribute<Replicate, Replicate>(mesh, shape, std::span<const typename X::Element>(values));
}

/// As tests/reference/optimizers.py begins.
template <class Module>
void set_first_values(Module& model) {
  for_each_numbered(model, [](auto& parameter, int number) {
    using Stored = typename std::remove_cvref_t<decltype(parameter)>::Stored;
    auto first = [&](Index i) { return std::cos(static_cast<double>(i + number)); };
    parameter.assign(
        sw::redistribute_to<Stored>(whole_tensor<Stored>(parameter.mesh(), parameter.shape(), first)));
  });
}

/// Its gradients of a step; where the parameter is `Reduced`, ranks hold terms of them.
template <class Module>
void give_gradients(Module& model, int step) {
  for_each_numbered(model, [&](auto& parameter, int number) {
    using X = tensor_of_parameter<decltype(parameter)>;
    if (number == 2 && step != 2 && step != 4 && step != 5) return;
    auto gradient = [&](Index i) {
      return std::sin(static_cast<double>(3 * step + i + number)) *
             std::pow(10., static_cast<double>(i % 5 - 2));
    };
    parameter.slot()->add(sw::redistribute_to<sw::cotangent_of<X>>(
        whole_tensor<X>(parameter.mesh(), parameter.shape(), gradient)));
  });
}

/// All elements of a parameter, on every rank.
template <class P>
std::vector<double> values_of(const P& parameter) {
  const auto whole = sw::redistribute<Replicate, Replicate>(parameter.stored());
  std::vector<double> values;
  for (Index i = 0; i < sw::elements(parameter.shape()); ++i) {
    values.push_back(static_cast<double>(whole.data()[i]));
  }
  return values;
}

double largest_difference(const std::vector<double>& values, const double* expected) {
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - expected[i]));
  return most;
}

struct Constant {
  double rate;
  double operator()(std::int64_t) const { return rate; }
};
constexpr auto falling = [](std::int64_t step) { return 0.1 / static_cast<double>(step + 1); };

/// Trains on every mesh, and compares.
template <int Level, class MakeOptimizer, class Rates>
void check_against(const TrainedByTorch& expected, MakeOptimizer make, Rates rates) {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    for (Index bucket_bytes : {Index{0}, Index{40}, Index{1} << 20}) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level, " buckets ", bucket_bytes);
      Model<Mesh, Level> model{mesh};
      set_first_values(model);
      auto optimizer = make(sw::ReduceOptions{.bucket_bytes = bucket_bytes});
      for (int step = 0; step < 6; ++step) {
        give_gradients(model, step);
        optimizer.set_rate(rates(optimizer.steps()));
        optimizer.step(model);
        CHECK_FALSE(static_cast<bool>(model.weight.finished_gradient()));
      }
      CHECK(largest_difference(values_of(model.weight), expected.weight) < 1e-13);
      CHECK(largest_difference(values_of(model.bias), expected.bias) < 1e-13);
      CHECK(largest_difference(values_of(model.late), expected.late) < 1e-13);
    }
  }
}

template <class Weight>
struct Tied {
  Weight table, head;
  void visit(auto&& f) {
    f("table", table);
    f("head", head);
  }
};

constexpr auto is_bias = [](const ParameterInfo& p) { return p.rank == 1 && p.elements == 5; };
constexpr auto named_late = [](const ParameterInfo& p) { return p.name == "late"; };

/// f.operator()<Level>() for all levels.
template <class F>
void for_each_level(F f) {
  f.template operator()<0>();
  f.template operator()<1>();
  f.template operator()<2>();
  f.template operator()<3>();
}

}  // namespace

TEST_CASE("SGD is PyTorch's on every level, also with groups") {
  for_each_level([]<int Level>() {
    auto with = [](sw::SgdUpdate settings) {
      return [=](const sw::ReduceOptions& reduction) { return sw::SGD(settings, reduction); };
    };
    check_against<Level>(torch_sgd, with({.rate = 0.05, .may_be_unused = true}), Constant{0.05});
    check_against<Level>(torch_sgd_decay, with({.rate = 0.05, .weight_decay = 0.3, .may_be_unused = true}),
                         Constant{0.05});
    check_against<Level>(torch_sgd_momentum,
                         with({.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1, .may_be_unused = true}),
                         Constant{0.05});
    check_against<Level>(
        torch_sgd_nesterov,
        with({.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true, .may_be_unused = true}),
        Constant{0.05});
    auto groups = [](const sw::ReduceOptions& reduction) {
      sw::SGD sgd({.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1, .may_be_unused = true}, reduction);
      sgd.add_group(
          is_bias, [](sw::SgdUpdate& settings) { settings.momentum = 0; }, 2);
      return sgd;
    };
    check_against<Level>(torch_sgd_groups, groups, falling);
  });
}

TEST_CASE("AdamW is PyTorch's on every level, also with groups") {
  for_each_level([]<int Level>() {
    auto all = [](const sw::ReduceOptions& reduction) {
      return sw::AdamW({.rate = 1,
                        .beta1 = 0.8,
                        .beta2 = 0.95,
                        .epsilon = 1e-3,
                        .weight_decay = 0.3,
                        .may_be_unused = true},
                       reduction);
    };
    check_against<Level>(torch_adamw, all, Constant{0.02});
    auto groups = [](const sw::ReduceOptions& reduction) {
      sw::AdamW adamw({.rate = 0.02, .weight_decay = 0.3, .may_be_unused = true}, reduction);
      adamw.add_group(is_bias, [](sw::AdamWUpdate& settings) { settings.weight_decay = 0; });
      auto faster = [](sw::AdamWUpdate& settings) { settings.beta1 = 0.5, settings.beta2 = 0.9; };
      // What is in the first group already, stays there.
      adamw.add_group([](const ParameterInfo& p) { return is_bias(p) || named_late(p); }, faster, 0.5);
      CHECK(adamw.settings(0).rate == 0.02);
      CHECK(adamw.settings(1).rate == 0.01);
      CHECK(adamw.settings(1).weight_decay == 0.3);
      return adamw;
    };
    check_against<Level>(torch_adamw_groups, groups, falling);
  });
}

TEST_CASE("what groups there may be") {
  const Mesh mesh(sw::world(), {sw::any, 1});
  auto nothing = [](sw::AdamWUpdate&) {};
  {
    Model<Mesh, 1> model{mesh};
    set_first_values(model);
    give_gradients(model, 0);
    sw::AdamW adamw({.rate = 0.1});
    adamw.add_group(is_bias, nothing);
    adamw.add_group([](const ParameterInfo& p) { return p.name == "biases"; }, nothing);
    const auto before = values_of(model.bias);
    mpi_counter::reset();
    const char* text =
        "group 1 of an optimizer has no parameter: those that it chooses are in earlier groups, or frozen, "
        "or there are none";
    CHECK_THROWS_WITH_AS(adamw.step(model), text, std::invalid_argument);
    CHECK_THROWS_WITH_AS(adamw.step(model), text, std::invalid_argument);
    CHECK(adamw.steps() == 0);
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 0);
    CHECK(values_of(model.bias) == before);
    CHECK(static_cast<bool>(model.bias.gradient()));
  }
  {
    Model<Mesh, 3> model{mesh};
    set_first_values(model);
    sw::AdamW adamw({.rate = 0.1});
    adamw.add_group(is_bias, nothing);
    adamw.add_group(is_bias, nothing);  // nothing is left for it
    CHECK_THROWS_AS(adamw.step(model), std::invalid_argument);
  }
  sw::AdamW adamw({.rate = 0.1, .may_be_unused = true});
  CHECK_THROWS_WITH_AS(adamw.add_group(is_bias, [](sw::AdamWUpdate& s) { s.rate = 0.2; }),
                       "add_group: a group's learning rate is given as rate_factor", std::invalid_argument);
  CHECK_THROWS_WITH_AS(adamw.add_group(nullptr, nothing), "add_group: chosen is an empty function",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(adamw.add_group(is_bias, nothing, -1),
                       "add_group: rate_factor is -1, which must be 0 or more", std::invalid_argument);
  CHECK_THROWS_WITH_AS(adamw.add_group(is_bias, [](sw::AdamWUpdate& s) { s.beta2 = 1; }),
                       "AdamW: beta2 is 1, which must be 0 or more, and below 1", std::invalid_argument);
  CHECK_THROWS_AS(adamw.settings(0), std::out_of_range);  // no group was added
  Model<Mesh, 0> model{mesh};
  set_first_values(model);
  CHECK_THROWS_WITH_AS(adamw.step(model),
                       "a step: none of the 3 parameters that are trained has a gradient: there was no "
                       "backward pass since the last step, or of another model",
                       std::logic_error);
  CHECK(adamw.steps() == 0);
  give_gradients(model, 0);
  adamw.step(model);
  CHECK_THROWS_WITH_AS(
      adamw.add_group(is_bias, nothing),
      "call add_group before the first step, and before the optimizer is added to a checkpoint",
      std::logic_error);
  {
    sw::AdamW saved({.rate = 0.1});
    sw::CheckpointContents contents(mesh);
    contents.add("optimizer", saved, model);
    CHECK_THROWS_AS(saved.add_group(is_bias, nothing), std::logic_error);
  }

  CHECK_THROWS_WITH_AS(sw::AdamW({}, {.last = false}),
                       "ReduceOptions: last is false, but this function needs finished gradients",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::AdamW({}, {.in_background = -1}),
                       "ReduceOptions: in_background is -1, which must be 0 or more", std::invalid_argument);
  CHECK_THROWS_AS(sw::clip_gradients(model, 1, 2, {.last = false}), std::invalid_argument);
}

TEST_CASE("a tied parameter is in the group of its first name") {
  const Mesh mesh(sw::world(), {sw::any, 1});
  using Weight = sw::Parameter<sw::Tensor<double, 1, Mesh, Reduced, Replicate>>;
  Weight weight(mesh, {2}, sw::Init::constant(1));
  weight.initialize(1);
  Tied<Weight> tied{weight.tied(), weight.tied()};
  auto named = [](const char* name) { return [=](const ParameterInfo& p) { return p.name == name; }; };
  auto nothing = [](sw::SgdUpdate&) {};
  sw::SGD second({.rate = 1});
  second.add_group(named("head"), nothing, 0.5);
  CHECK_THROWS_AS(second.step(tied),
                  std::invalid_argument);  // there is no parameter of this name to optimizers
  sw::SGD first({.rate = 1});
  first.add_group(named("table"), nothing, 0.5);
  using Gradient = std::remove_cvref_t<decltype(weight.gradient())>;
  weight.slot()->add(sw::redistribute_to<Gradient>(
      whole_tensor<Weight::TensorOf>(mesh, weight.shape(), [](Index) { return 1; })));
  first.step(tied);
  CHECK(tied.head.value().data()[1] == 0.5);
}

TEST_CASE("settings that make no sense") {
  const double nan = std::nan("");
  CHECK_THROWS_WITH_AS(sw::SGD({.rate = -1}), "SGD: rate is -1, which must be 0 or more, and a finite number",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(sw::SGD({.rate = 1, .nesterov = true, .may_be_unused = true}),
                       "SGD: nesterov needs a momentum above 0", std::invalid_argument);
  CHECK_THROWS_AS(sw::SGD({.momentum = -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(sw::SGD({.weight_decay = nan}), std::invalid_argument);
  CHECK_THROWS_AS(sw::AdamW({.rate = nan}), std::invalid_argument);
  CHECK_THROWS_AS(sw::AdamW({.beta1 = 1}), std::invalid_argument);
  CHECK_THROWS_AS(sw::AdamW({.beta2 = -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(sw::AdamW({.epsilon = -1}), std::invalid_argument);
  CHECK_THROWS_AS(sw::AdamW({.weight_decay = -1}), std::invalid_argument);
}

TEST_CASE("a parameter in bfloat16 has a master copy, whose steps are too small for it") {
  for_each_level([]<int Level>() {
    for (const Mesh& mesh : data_by_tensor_meshes()) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level);
      for (bool masters : {true, false}) {
        Model<Mesh, Level, bfloat16> model{mesh};
        sw::initialize(model, 1);  // ones
        sw::SGD sgd({.rate = std::ldexp(1., -12), .master_weights = masters});
        auto step = [&] {
          for_each_numbered(model, [&](auto& parameter, int) {
            using X = tensor_of_parameter<decltype(parameter)>;
            parameter.slot()->add(sw::redistribute_to<sw::cotangent_of<X>>(
                whole_tensor<X>(mesh, parameter.shape(), [](Index) { return 1; })));
          });
          sgd.step(model);
        };
        auto all_are = [&](double value) {
          bool are = true;
          for_each_numbered(model, [&](auto& parameter, int) {
            for (double x : values_of(parameter)) are = are && x == value;
          });
          return are;
        };
        // A step is 2^-12, and of 64 of them 2^-6 comes. Numbers below 1 are 2^-8 apart.
        for (int i = 0; i < 64; ++i) step();
        CHECK(all_are(masters ? 1 - std::ldexp(1., -6) : 1));
        // What somebody else writes counts: the copy is made anew.
        for_each_numbered(model, [](auto& parameter, int) { parameter.initialize(1); });
        for (int i = 0; i < 32; ++i) step();
        CHECK(all_are(masters ? 1 - std::ldexp(1., -7) : 1));
      }
    }
  });
}

TEST_CASE("bfloat16 with master weights is rounded float training") {
  for_each_level([]<int Level>() {
    for (const Mesh& mesh : data_by_tensor_meshes()) {
      Model<Mesh, Level, bfloat16> model{mesh};
      Model<Mesh, Level, float> wide{mesh};
      set_first_values(model);
      const auto first = values_of(model.bias);
      using Stored = typename decltype(wide.bias)::Stored;
      wide.bias.assign(sw::redistribute_to<Stored>(
          whole_tensor<Stored>(mesh, {5}, [&](Index i) { return first[static_cast<std::size_t>(i)]; })));
      sw::AdamW narrow_adamw({.rate = 1e-3, .may_be_unused = true}),
          wide_adamw({.rate = 1e-3, .may_be_unused = true});
      for (int step = 0; step < 30; ++step) {
        auto gradient = [&](Index i) {
          return static_cast<float>(bfloat16(std::sin(static_cast<float>(step / 7 + i))));
        };
        auto give = [&](auto& parameter) {
          using X = tensor_of_parameter<decltype(parameter)>;
          parameter.slot()->add(
              sw::redistribute_to<sw::cotangent_of<X>>(whole_tensor<X>(mesh, parameter.shape(), gradient)));
        };
        give(model.bias);
        give(wide.bias);
        narrow_adamw.step(model);
        wide_adamw.step(wide);
      }
      const auto narrow = values_of(model.bias), exact = values_of(wide.bias);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double rounded = static_cast<double>(bfloat16(static_cast<float>(exact[i])));
        CHECK(std::abs(narrow[i] - rounded) <= std::ldexp(std::abs(rounded), -14));  // the same number
      }
    }
  });
}

TEST_CASE("gradients in bfloat16 are added up in float, over micro-batches") {
  for_each_level([]<int Level>() {
    for (const Mesh& mesh : data_by_tensor_meshes()) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level);
      Model<Mesh, Level, bfloat16> model{mesh};
      sw::initialize(model, 1);  // ones
      sw::SGD sgd({.rate = 1});
      for (int micro_batch = 0; micro_batch < 256; ++micro_batch) {
        for_each_numbered(model, [&](auto& parameter, int) {
          using X = tensor_of_parameter<decltype(parameter)>;
          parameter.slot()->add(sw::redistribute_to<sw::cotangent_of<X>>(whole_tensor<X>(
              mesh, parameter.shape(), [&](Index) { return micro_batch == 0 ? 1 : std::ldexp(1., -9); })));
          CHECK(!parameter.slot()->writable());  // or kernels would add to it in bfloat16
        });
        sw::reduce_gradients(model, {.last = micro_batch == 255});
      }
      sgd.step(model);
      // 1 + 255/512 is 1.5 in bfloat16, in which 1 + 1/512 is 1.
      for_each_numbered(model, [&](auto& parameter, int) {
        for (double x : values_of(parameter)) CHECK(x == -0.5);
      });
    }
  });
}

TEST_CASE("state and master weights lie as finished gradients do, and are counted") {
  for (const Mesh& mesh : data_by_tensor_meshes()) {
    auto train = []<int Level, class T>(const Mesh& on) {
      return agreed_plan(on, [](const auto& m) {
        Model<std::remove_cvref_t<decltype(m)>, Level, T> model{m};
        sw::initialize(model, 1);
        sw::AdamW adamw({}, {.bucket_bytes = 1 << 20});
        adamw.add_group(is_bias, [](sw::AdamWUpdate& settings) { settings.weight_decay = 0; });
        for (int step = 0; step < 3; ++step) {
          sw::for_each_parameter(model, [](auto& parameter) {  // and nothing besides
            using Gradient = sw::cotangent_of<tensor_of_parameter<decltype(parameter)>>;
            Gradient zero(parameter.mesh(), parameter.shape());
            if (!parameter.mesh().dry()) {
              const auto block = zero.writable();
              std::fill_n(block.data, block.elements(), typename Gradient::Element(0));
            }
            parameter.slot()->add(std::move(zero));
          });
          adamw.step(model);
        }
      });
    };
    for_each_level([&]<int Level>() {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level);
      auto part = [](Index n, int ranks, int rank) { return n / ranks + (rank < n % ranks ? 1 : 0); };
      const int d = mesh.size<dp>(), at_d = mesh.rank<dp>(), t = mesh.size<tp>(), at_t = mesh.rank<tp>();
      const Index columns = Level == 0 ? 3 : part(3, d, at_d), bias = Level == 0 ? 5 : part(5, d, at_d);
      const Index own = part(5, t, at_t) * columns + bias + part(4, t, at_t);
      const auto exact = train.template operator()<Level, double>(mesh);
      CHECK(exact.peak_bytes(MemoryUse::optimizer_state) == 2 * 8 * own);
      const auto narrow = train.template operator()<Level, bfloat16>(mesh);
      CHECK(narrow.peak_bytes(MemoryUse::optimizer_state) == (2 + 1) * 4 * own);
      // In buckets: all that is reduced goes at once, and all that is gathered.
      const bool sharded = Level > 0, gathers = Level == 1 || Level == 2;
      CHECK(exact.count(Collective::all_gather) == (d > 1 && gathers ? 3 : 0));
      CHECK(exact.count(Collective::reduce_scatter) == (d > 1 && sharded ? 3 : 0));
      CHECK(exact.count(Collective::all_reduce) == (d > 1 ? 3 : 0));  // for `late` at least
    });
  }
}

}  // namespace shardwise::testing::optim_levels
