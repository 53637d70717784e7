// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// DiLoCo against plain loops over all replicas, on every mesh and ZeRO level, with several numbers of inner steps; its
/// plan; what resumes; and master copies.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/diloco.hpp>
#include <support/plans.hpp>

#include <cmath>
#include <span>
#include <vector>

#include "scratch_folder.hpp"

namespace shardwise::testing::diloco {
namespace {

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};
using Job = Mesh<replica, dp, tp>;
using Own = Mesh<dp, tp>;

/// Cut on both axes, in different dimensions; cut on dp alone; not to be cut on dp; and frozen.
template <int Level, class T = double>
struct Model {
  template <int Rank, class OnTp, int Dim>
  using Weight = Parameter<Tensor<T, Rank, Own, Reduced, OnTp>,
                           packed(Dim < 0 ? Sharding{} : Sharding{Dim, {Level, 0}})>;
  static constexpr Init init = Init::normal(1);

  constexpr explicit Model(const Own& mesh)
      : frozen(mesh, {2}, init), weight(mesh, {5, 3}, init), bias(mesh, {5}, init), late(mesh, {4}, init) {}

  Parameter<Tensor<T, 1, Own, Replicate, Replicate>, packed(Sharding{-1, {}, true})> frozen;
  Weight<2, Shard<0>, 1> weight;
  Weight<1, Replicate, 0> bias;
  Weight<1, Shard<0>, -1> late;

  constexpr void visit(auto&& f) {
    f("frozen", frozen), f("weight", weight), f("bias", bias), f("late", late);
  }
  /// f(parameter, number) for those that are trained.
  constexpr void each_trained(auto&& f) { f(weight, 0), f(bias, 1), f(late, 2); }
};

/// The gradient of element `i` of a parameter with this value: it pulls each replica, at each step, to another place.
double gradient_of(double value, int replica, int step, int number, Index i) {
  return value - std::sin(static_cast<double>(5 * replica + 3 * step + 2 * number + i));
}

/// All elements of a parameter, on every rank of its replica.
std::vector<double> values_of(const auto& parameter) {
  const auto whole = redistribute<Replicate, Replicate>(parameter.stored());
  std::vector<double> values;
  for (Index i = 0; i < elements(parameter.shape()); ++i)
    values.push_back(static_cast<double>(whole.data()[i]));
  return values;
}

void give_gradients(auto& model, int replica, int step) {
  model.each_trained([&](auto& parameter, int number) {
    using X = typename std::remove_cvref_t<decltype(parameter)>::TensorOf;
    const std::vector<double> values = values_of(parameter);
    std::vector<typename X::Element> gradient;
    for (std::size_t i = 0; i < values.size(); ++i)
      gradient.emplace_back(gradient_of(values[i], replica, step, number, static_cast<Index>(i)));
    parameter.slot()->add(redistribute_to<cotangent_of<X>>(distribute<Replicate, Replicate>(
        parameter.mesh(), parameter.shape(), std::span<const typename X::Element>(gradient))));
  });
}
/// Terms of gradients that are equal on all ranks, without communication.
constexpr void give_equal_gradients(auto& model, double term) {
  model.each_trained([&](auto& parameter, int) {
    cotangent_of<typename std::remove_cvref_t<decltype(parameter)>::TensorOf> gradient(parameter.mesh(),
                                                                                       parameter.shape());
    if (!parameter.mesh().dry()) {
      const auto own = gradient.writable();
      std::fill_n(own.data, own.elements(), static_cast<std::remove_cvref_t<decltype(*own.data)>>(term));
    }
    parameter.slot()->add(gradient);
  });
}

constexpr AdamWUpdate adamw_settings{.rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1};

/// A parameter on all replicas, in plain loops.
struct Reference {
  struct Inner {
    std::vector<double> value, mean, square;
  };
  Reference(const std::vector<double>& first, int replicas, int of_number)
      : number(of_number),
        outer(first),
        momentum(first.size()),
        inner(static_cast<std::size_t>(replicas), {first, momentum, momentum}) {}

  void step(int step, const DiLoCoSettings& settings) {
    const AdamWUpdate& adamw = adamw_settings;
    for (std::size_t r = 0; r < inner.size(); ++r) {
      for (std::size_t i = 0; i < outer.size(); ++i) {
        auto& [value, mean, square] = inner[r];
        const double g = gradient_of(value[i], static_cast<int>(r), step, number, static_cast<Index>(i));
        mean[i] = adamw.beta1 * mean[i] + (1 - adamw.beta1) * g;
        square[i] = adamw.beta2 * square[i] + (1 - adamw.beta2) * g * g;
        value[i] *= 1 - adamw.rate * adamw.weight_decay;
        value[i] -= adamw.rate * mean[i] / (1 - std::pow(adamw.beta1, step + 1)) /
                    (std::sqrt(square[i] / (1 - std::pow(adamw.beta2, step + 1))) + adamw.epsilon);
      }
    }
    if ((step + 1) % settings.inner_steps != 0) return;
    for (std::size_t i = 0; i < outer.size(); ++i) {
      double mean = 0;
      for (const Inner& each : inner) mean += each.value[i] / static_cast<double>(inner.size());
      const double g = outer[i] - mean;
      momentum[i] = settings.outer.momentum * momentum[i] + g;
      outer[i] -= settings.outer.rate * (g + settings.outer.momentum * momentum[i]);
      for (Inner& each : inner) each.value[i] = outer[i];
    }
  }

  int number;
  std::vector<double> outer, momentum;
  std::vector<Inner> inner;
};

/// Every job that these ranks can make.
std::vector<Job> jobs() {
  std::vector<Job> all;
  const int ranks = world().size();
  for (int replicas = 1; replicas <= ranks; ++replicas) {
    for (int data = 1; replicas * data <= ranks; ++data) {
      if (ranks % (replicas * data) == 0 && ranks / (replicas * data) <= 4)
        all.emplace_back(world(), std::array<int, 3>{replicas, data, ranks / (replicas * data)});
    }
  }
  return all;
}

template <class F>
void for_each_level(F f) {
  f.template operator()<0>(), f.template operator()<1>(), f.template operator()<2>(),
      f.template operator()<3>();
}

TEST_CASE("replicas train alone, and an outer step joins them: as plain loops do, on every mesh and level") {
  for (const Job& job : jobs()) {
    for_each_level([&]<int Level>() {
      for (const DiLoCoSettings& settings :
           {DiLoCoSettings{1}, DiLoCoSettings{3}, DiLoCoSettings{4, {.rate = 1}},
            DiLoCoSettings{9, {.rate = 0.5, .momentum = 0.3, .nesterov = true}}}) {
        INFO("replicas ", job.size<replica>(), " dp ", job.size<dp>(), " level ", Level, " inner steps ",
             settings.inner_steps);
        Model<Level> model{job.submesh<dp, tp>()};
        initialize(model, 7);
        std::vector<Reference> expected;
        model.each_trained([&](const auto& parameter, int number) {
          expected.emplace_back(values_of(parameter), job.size<replica>(), number);
        });
        AdamW adamw(adamw_settings);
        DiLoCo diloco(job.submesh<replica>(), settings,
                      {.bucket_bytes = settings.inner_steps == 1 ? 40 : 1 << 20});
        for (int step = 0; step < 10; ++step) {
          give_gradients(model, job.rank<replica>(), step);
          diloco.step(model, adamw);
          for (Reference& each : expected) each.step(step, settings);
        }
        model.each_trained([&](const auto& parameter, int number) {
          const std::vector<double> found = values_of(parameter);
          const Reference& right = expected[static_cast<std::size_t>(number)];
          const auto& value = right.inner[static_cast<std::size_t>(job.rank<replica>())].value;
          double most = 0;
          for (std::size_t i = 0; i < found.size(); ++i) most = std::max(most, std::abs(found[i] - value[i]));
          CHECK(most < 1e-13);
        });
      }
    });
  }
}

TEST_CASE("the plan of an outer step: an all-reduce of what a rank updates; and its memory") {
  for (const Job& job : jobs()) {
    for_each_level([&]<int Level>() {
      for (const int inner_steps : {1, 4}) {
        INFO("replicas ", job.size<replica>(), " dp ", job.size<dp>(), " level ", Level);
        const auto plan = agreed_plan(job, [&](const Job& mesh) {
          Model<Level, float> model{mesh.template submesh<dp, tp>()};
          if (!mesh.dry()) initialize(model, 7);
          AdamW adamw(adamw_settings);
          DiLoCo diloco(mesh.template submesh<replica>(), {.inner_steps = inner_steps});
          for (int step = 0; step < 4; ++step) {
            give_equal_gradients(model, 1);
            diloco.step(model, adamw);
          }
        });
        const bool many = job.size<replica>() > 1;
        CHECK(plan.template count<replica>(Collective::all_reduce) == (many ? 4 / inner_steps : 0));
        CHECK(plan.template collectives<replica>() == (many ? 4 / inner_steps : 0));
        const Index state = plan.peak_bytes(MemoryUse::optimizer_state);
        CHECK(state % 4 == 0);  // two of AdamW, outer parameters and momentum
        if (many && job.size<dp>() * job.size<tp>() == 1) {
          CHECK(state == 4 * 4 * (15 + 5 + 4));
          CHECK(plan.template bytes<replica>() == 4 / inner_steps * 4 * (15 + 5 + 4));
        }
      }
    });
  }
}

/// The same as a constant expression.
template <int Level>
constexpr auto constant_plan = trace<Job>({3, 2, 1}, [](const Job& mesh) {
  Model<Level, float> model{mesh.submesh<dp, tp>()};
  AdamW adamw;
  DiLoCo diloco(mesh.submesh<replica>(), {.inner_steps = 2});
  for (int step = 0; step < 4; ++step) {
    give_equal_gradients(model, 1);
    diloco.step(model, adamw);
  }
});
static_assert(constant_plan<0>.count<replica>(Collective::all_reduce) == 2);
static_assert(constant_plan<0>.bytes<replica>() == 2 * 4 * (15 + 5 + 4));
static_assert(constant_plan<1>.bytes<replica>() == 2 * 4 * (10 + 3 + 4));  // the first half of each
static_assert(constant_plan<1>.count<dp>(Collective::all_gather) ==
              4 + 2);  // one after each inner and each outer step
static_assert(constant_plan<3>.count<dp>(Collective::all_gather) == 0);
static_assert(constant_plan<0>.peak_bytes(MemoryUse::optimizer_state) == 4 * 4 * (15 + 5 + 4));
static_assert(constant_plan<3>.peak_bytes(MemoryUse::optimizer_state) == 4 * 4 * (10 + 3 + 4));

/// All that a run consists of.
template <class T>
struct Run {
  explicit Run(const Job& on, int inner_steps = 3)
      : job(on), diloco(job.submesh<replica>(), {.inner_steps = inner_steps}) {}

  void train(int from, int to) {
    for (int step = from; step < to; ++step) {
      give_gradients(model, job.rank<replica>(), step);
      diloco.step(model, adamw);
    }
  }
  CheckpointContents contents() {
    CheckpointContents all(job);
    const std::string own = "replica" + std::to_string(job.rank<replica>());
    all.add(own + ".model", model);
    all.add(own + ".optimizer", adamw, model);
    all.add("outer", diloco, model);
    return all;
  }
  std::vector<std::vector<double>> values() {
    std::vector<std::vector<double>> all;
    model.each_trained([&](const auto& parameter, int) { all.push_back(values_of(parameter)); });
    return all;
  }

  Job job;
  Model<1, T> model{job.submesh<dp, tp>()};
  AdamW adamw{adamw_settings};
  DiLoCo diloco;
};

TEST_CASE("a run resumes with the same bits: between outer steps, and right after one") {
  for (const Job& job : jobs()) {
    const ScratchFolder folder;
    const auto check = [&]<class T>(T) {
      for (const int stop : {3, 4}) {
        Run<T> straight(job), first(job), second(job);
        for (Run<T>* run : {&straight, &first}) initialize(run->model, 7);
        initialize(second.model, 8);
        straight.train(0, 8);
        first.train(0, stop);
        const std::string name = std::to_string(stop) + (sizeof(T) == 2 ? " in bfloat16" : "");
        save_checkpoint(folder / name, first.contents());
        load_checkpoint(folder / name, second.contents());
        second.train(stop, 8);
        CHECK(second.values() == straight.values());
      }
    };
    check(double());
    check(Eigen::bfloat16());
  }
}

TEST_CASE("replicas in bfloat16 exchange master copies, of changes that are too small for it") {
  for (const Job& job : jobs()) {
    Run<Eigen::bfloat16> run(job, 2);
    Run<double> wide(job, 2);
    const auto train = [](auto& it) {
      it.adamw.settings() = {.rate = 1e-5, .weight_decay = 0};
      initialize(it.model, 7);
      const auto first = it.values();
      for (int step = 0; step < 200; ++step) {
        give_equal_gradients(it.model, 1);
        it.diloco.step(it.model, it.adamw);
      }
      return first;
    };
    const auto first = train(run), exact = train(wide);
    for (std::size_t p = 0; p < first.size(); ++p) {
      const auto narrow = run.values()[p], right = wide.values()[p];
      for (std::size_t i = 0; i < narrow.size(); ++i) {
        INFO(i, " of parameter ", p, " of replicas ", job.size<replica>());
        CHECK(std::abs(right[i] - exact[p][i]) > 0.01);
        CHECK(std::abs((narrow[i] - first[p][i]) - (right[i] - exact[p][i])) <
              std::abs(right[i]) / 256 + 1e-4);
      }
    }
  }
}

TEST_CASE("settings and meshes that make no sense") {
  const Job job(world(), {any, 1, 1});
  const auto replicas = job.submesh<replica>();
  CHECK_THROWS_WITH_AS(DiLoCo(replicas, {.inner_steps = 0}),
                       "DiLoCo: inner_steps is 0, which must be 1 or more", std::invalid_argument);
  CHECK_THROWS_AS(DiLoCo(replicas, {.outer = {.rate = -1}}), std::invalid_argument);
  CHECK_THROWS_AS(DiLoCo(replicas, {.outer = {.momentum = std::nan("")}}), std::invalid_argument);
  if (world().size() == 1) return;
  Model<0> shared{Own(world(), {any, 1})};
  initialize(shared, 7);
  AdamW adamw;
  DiLoCo diloco(replicas);
  give_gradients(shared, 0, 0);
  CHECK_THROWS_AS(diloco.step(shared, adamw), std::invalid_argument);  // of another job
  Model<0> whole{Own(job.part(MeshRanks<dp, tp>(0, {world().size(), 1})))};
  initialize(whole, 7);
  give_gradients(whole, 0, 0);
  CHECK_THROWS_WITH_AS(
      diloco.step(whole, adamw),
      "DiLoCo: the model's mesh must be of the same job and have one of the replicas: make it "
      "without their axis, by job.submesh",
      std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::diloco
