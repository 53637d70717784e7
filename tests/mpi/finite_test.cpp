// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Norms, clipping, and gradients that are not finite, where gradients lie in all ways on a hybrid mesh: on every level
/// of ZeRO, in double and in bfloat16.

#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/reduce_gradients.hpp>
#include <support/elements.hpp>
#include <support/plans.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace shardwise::testing::finite {
namespace sw = shardwise;
using Eigen::bfloat16;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

/// Groups of ranks that have a copy of everything each.
struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};
using Mesh = sw::Mesh<replica, dp, tp>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// `dp` shards with this level; `replica` has copies, as has `tp` of `norm` and of `plain`.
template <class MeshType, int Level, class T>
struct Model {
  template <int Rank, int Dim, class OnTp>
  using Weight = sw::Parameter<sw::Tensor<T, Rank, MeshType, Reduced, Reduced, OnTp>,
                               packed(sw::Sharding{Dim, {0, Level, 0}})>;
  static constexpr sw::Init init = sw::Init::constant(1);

  const MeshType& mesh;
  Weight<2, 1, Shard<0>> column{mesh, {7, 3}, init};
  Weight<2, 0, Shard<1>> row{mesh, {3, 5}, init};
  Weight<1, 0, Reduced> norm{mesh, {11}, init};
  Weight<1, 0, Replicate> plain{mesh, {2}, init};

  constexpr void visit(auto&& f) {
    f("column", column);
    f("row", row);
    f("norm", norm);
    f("plain", plain);
  }
};

std::vector<Mesh> hybrid_meshes() {
  const int ranks = sw::world().size();
  std::vector<Mesh> meshes;
  for (int r = 1; r <= ranks; ++r) {
    for (int d = 1; r * d <= ranks; ++d) {
      if (ranks % (r * d) == 0) meshes.emplace_back(sw::world(), std::array<int, 3>{r, d, ranks / (r * d)});
    }
  }
  return meshes;
}

template <class P>
using tensor_of_parameter = typename std::remove_cvref_t<P>::TensorOf;

template <class Module, class F>
void for_each_numbered(Module& model, F f) {
  int number = 0;
  sw::for_each_parameter(model, [&](auto& parameter) { f(parameter, number++); });
}

/// What a rank adds to an element of a gradient: small integers, other ones where ranks see other samples.
template <class X>
double term(int number, Index place, const sw::MeshSizes& coordinates) {
  auto value = static_cast<double>((place * 7 + number * 5) % 13 - 6);
  for (int axis = 0; axis < 3; ++axis) {
    if (X::layout[axis] == sw::reduced) value += (axis + 1) * coordinates[static_cast<std::size_t>(axis)];
  }
  return value;
}
template <class X>
double sum_of_terms(int number, Index place, const sw::MeshSizes& sizes) {
  double sum = 0;
  const int on_tp = X::layout[2] == sw::reduced ? sizes[2] : 1;
  for (int i = 0; i < sizes[0]; ++i) {
    for (int j = 0; j < sizes[1]; ++j) {
      for (int k = 0; k < on_tp; ++k) sum += term<X>(number, place, {i, j, k});
    }
  }
  return sum;
}

/// As `backward` would. Where element `bad_place` of parameter `bad` is summed, one rank's term of it is `value`.
template <class Module>
void give_gradients(Module& model, int bad = -1, Index bad_place = 0, double value = 0) {
  for_each_numbered(model, [&](auto& parameter, int number) {
    using X = tensor_of_parameter<decltype(parameter)>;
    using T = typename X::Element;
    const auto& mesh = parameter.mesh();
    sw::cotangent_of<X> gradient(mesh, parameter.shape());
    const auto block = gradient.writable();
    bool last = true;  // of those whose terms are added
    for (int axis = 0; axis < 3; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      if (X::layout[axis] == sw::reduced) last = last && mesh.coordinates()[at] == mesh.sizes()[at] - 1;
    }
    for (Index i = 0; i < block.elements(); ++i) {
      const Index place = whole_place(block, i);
      block.data[i] = static_cast<T>(term<X>(number, place, mesh.coordinates()));
      if (number == bad && place == bad_place && last) block.data[i] = static_cast<T>(value);
    }
    parameter.slot()->add(std::move(gradient));
  });
}

template <class Module>
double dense_norm(Module& model, bool maximum) {
  double squares = 0, largest = 0;
  for_each_numbered(model, [&](auto& parameter, int number) {
    for (Index place = 0; place < sw::elements(parameter.shape()); ++place) {
      const double sum =
          sum_of_terms<tensor_of_parameter<decltype(parameter)>>(number, place, parameter.mesh().sizes());
      squares += sum * sum;
      largest = std::max(largest, std::abs(sum));
    }
  });
  return maximum ? largest : std::sqrt(squares);
}

/// f.operator()<Level, T>(mesh) for all.
template <class F>
void on_every_level(F f) {
  for (const Mesh& mesh : hybrid_meshes()) {
    INFO("replica ", mesh.size<replica>(), " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    f.template operator()<0, double>(mesh);
    f.template operator()<1, double>(mesh);
    f.template operator()<2, double>(mesh);
    f.template operator()<3, double>(mesh);
    f.template operator()<0, bfloat16>(mesh);
    f.template operator()<1, bfloat16>(mesh);
    f.template operator()<3, bfloat16>(mesh);
  }
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-14 * b; }

}  // namespace

TEST_CASE("the norm on a hybrid mesh counts every element once, by one all-reduce of one number") {
  on_every_level([]<int Level, class T>(const Mesh& mesh) {
    INFO("level ", Level, ", elements of ", sizeof(T), " bytes");
    Model<Mesh, Level, T> model{mesh};
    give_gradients(model);
    const double norm = dense_norm(model, false);
    CHECK(close(sw::gradient_norm(model), norm));  // sums are exact, in bfloat16 too
    CHECK(sw::gradient_norm(model, infinity) == dense_norm(model, true));
    mpi_counter::reset();
    CHECK(close(sw::clip_gradients(model, 0.25 * norm), norm));
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().all_reduce.calls == (mesh.size() > 1 ? 1 : 0));
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_bytes() == (mesh.size() > 1 ? 8 : 0));
    CHECK(sw::gradient_norm(model) == doctest::Approx(0.25 * norm).epsilon(sizeof(T) == 8 ? 1e-6 : 1e-2));
    give_gradients(model);  // of a second micro-batch
    CHECK(sw::gradient_norm(model) == doctest::Approx(1.25 * norm).epsilon(sizeof(T) == 8 ? 1e-6 : 1e-2));
  });
}

TEST_CASE("one rank's bad gradient is every rank's error, with the name of the parameter") {
  on_every_level([]<int Level, class T>(const Mesh& mesh) {
    INFO("level ", Level, ", elements of ", sizeof(T), " bytes");
    auto text_with = [&](int parameter, Index place, double value, double loss) {
      Model<Mesh, Level, T> model{mesh};
      give_gradients(model, parameter, place, value);
      const double norm = sw::clip_gradients(model, 1);
      CHECK_FALSE(std::isfinite(norm));
      sw::Recording recording(mesh);
      mpi_counter::reset();
      std::string text = "nothing was thrown";
      try {
        sw::check_finite(model, 17, loss, norm);
      } catch (const sw::NonFiniteError& error) {
        text = error.what();
        CHECK(error.step() == 17);
      }
      if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == (mesh.size() > 1 ? 1 : 0));
      CHECK(recording.plan().count(Collective::all_reduce, sw::Phase::optimizer) ==
            (mesh.size() > 1 ? 1 : 0));
      if (mpi_counter::counting()) CHECK(recording.plan().bytes() == mpi_counter::counts().data_bytes());
      return text;
    };
    CHECK(text_with(0, 20, not_a_number, 1) ==
          "step 17: NaN or infinite gradients in 1 of 4 parameters: column (1 NaN)");
    CHECK(text_with(1, 0, -infinity, 1) ==
          "step 17: NaN or infinite gradients in 1 of 4 parameters: row (1 infinite)");
    CHECK(text_with(2, 5, infinity, 1) ==
          "step 17: NaN or infinite gradients in 1 of 4 parameters: norm (1 infinite)");
    CHECK(text_with(3, 1, not_a_number, not_a_number) ==
          "step 17: the loss is NaN; NaN or infinite gradients in 1 of 4 parameters: plain (1 NaN)");
  });
}

TEST_CASE("a loss that is not finite, though gradients are") {
  for (const Mesh& mesh : hybrid_meshes()) {
    Model<Mesh, 3, double> model{mesh};
    give_gradients(model);
    const double norm = sw::clip_gradients(model, 1);
    mpi_counter::reset();
    CHECK_NOTHROW(sw::check_finite(model, 0, -1e300, norm));
    CHECK(sw::find_non_finite(model, 0, norm).empty());
    CHECK_THROWS_WITH_AS(sw::check_finite(model, 3, -not_a_number, norm),
                         "step 3: the loss is NaN, though all gradients are finite", sw::NonFiniteError);
    CHECK(sw::find_non_finite(model, -infinity, norm) == "the loss is -inf, though all gradients are finite");
    if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 0);
  }
}

TEST_CASE("a norm that is not finite, though gradients are") {
  for (const Mesh& mesh : hybrid_meshes()) {
    Model<Mesh, 1, double> model{mesh};
    give_gradients(model, 0, 0, 1e200);
    const double norm = sw::clip_gradients(model, 1);
    CHECK(norm == infinity);
    CHECK(sw::find_non_finite(model, 2, norm) ==
          "the norm of the gradients is inf, though those that are there now are finite");
  }
}

TEST_CASE("the first names, in the order of a backward pass, and how many more") {
  for (const Mesh& mesh : hybrid_meshes()) {
    std::vector<Model<Mesh, 2, double>> models;
    models.reserve(3);
    for (int i = 0; i < 3; ++i) {
      models.push_back({mesh});
      give_gradients(models.back(), 1, 2, i == 1 ? infinity : not_a_number);
    }
    const double norm = sw::gradient_norm(models);
    CHECK(
        sw::find_non_finite(models, 1, norm) ==
        "NaN or infinite gradients in 3 of 12 parameters: 2.row (1 NaN), 1.row (1 infinite), 0.row (1 NaN)");
    for (auto& model : models) {
      for (int number = 0; number < 4; ++number) give_gradients(model, number, 1, not_a_number);
    }
    const std::string text = sw::find_non_finite(models, 1, sw::gradient_norm(models));
    CHECK(text.starts_with(
        "NaN or infinite gradients in 12 of 12 parameters: 2.plain (1 NaN), 2.norm (1 NaN)"));
    CHECK(text.ends_with("1.column (1 NaN), and 4 more"));
  }
}

TEST_CASE("a bad weight is named before the gradients that it spoils") {
  for (const Mesh& mesh : hybrid_meshes()) {
    Model<Mesh, 2, double> model{mesh};
    sw::initialize(model, 1);
    const auto norm = model.norm.writable();
    if (norm.elements() > 0) norm.data[0] = not_a_number;  // whole on every rank
    for (int number = 0; number < 4; ++number) give_gradients(model, number, 1, not_a_number);
    const auto text = sw::find_non_finite(model, 1, sw::gradient_norm(model));
    CHECK_MESSAGE(
        text.starts_with(
            "NaN or infinite values in 1 of 4 parameters: norm (1 NaN); NaN or infinite gradients in 4 of"),
        text);
  }
}

TEST_CASE("a step that is left out leaves no trace") {
  on_every_level([]<int Level, class T>(const Mesh& mesh) {
    auto train = [&](bool with_bad_step) {
      Model<Mesh, Level, T> model{mesh};
      sw::initialize(model, 1);
      sw::AdamW adamw({.rate = 0.1});
      for (int step = 0; step < 3; ++step) {
        if (step == 1 && with_bad_step) {
          give_gradients(model, 1, 3, not_a_number);
          const double norm = sw::clip_gradients(model, 1);
          CHECK_FALSE(sw::find_non_finite(model, 1, norm).empty());
          sw::clear_gradients(model);
          CHECK(sw::gradient_norm(model) == 0);
          give_gradients(model, 0, 3, not_a_number);  // not reduced yet
          sw::clear_gradients(model);
          sw::reduce_gradients(model);
          sw::for_each_parameter(model, [](auto& p) { CHECK_FALSE(bool(p.finished_gradient())); });
        }
        give_gradients(model);
        sw::clip_gradients(model, 1);
        adamw.step(model);
      }
      CHECK(adamw.steps() == 3);
      std::vector<double> values;
      sw::for_each_parameter(model, [&](auto& parameter) {
        const auto block = parameter.stored().view();
        for (Index i = 0; i < block.elements(); ++i) values.push_back(static_cast<double>(block.data[i]));
      });
      return values;
    };
    CHECK(train(true) == train(false));
  });
}

}  // namespace shardwise::testing::finite
