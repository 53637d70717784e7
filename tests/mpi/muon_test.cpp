// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Muon: its updates are those of one rank, bit by bit, on every mesh, ZeRO level and layout, empty shards included;
/// and of torch.optim.Muon's formulas, in plain loops. By Gram matrices they differ by rounding errors.

#include <shardwise/shardwise.hpp>
#include <shardwise/train/muon.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::muon {
namespace {

using Grid = Mesh<dp, tp>;

/// Weights of several shapes, two of them alike, one of three dimensions and one without a matrix, in given placements
/// on `tp`. One side of each matrix has an extent times `longer`.
template <class T, class P0, class P1, int Level>
struct Weights : Module<Weights<T, P0, P1, Level>> {
  /// ZeRO cuts a dimension that `tp` does not cut; at "level 4", which is level 3, the same.
  static constexpr PackedSharding how(int rank, bool cut_first) {
    return Level == 0
               ? 0
               : packed(Sharding{rank > 1 && cut_first == (Level < 4) ? 1 : 0, {std::min(Level, 3), 0}});
  }
  template <int Rank, class P>
  using Weight = Parameter<Tensor<T, Rank, Grid, Reduced, P>, how(Rank, std::is_same_v<P, Shard<0>>)>;

  explicit Weights(const Grid& mesh, Index longer = 1)
      : first(mesh, {5, 7 * longer}, Init::normal(1)),
        second(mesh, {5, 7 * longer}, Init::normal(1)),
        tall(mesh, {9 * longer, 3}, Init::normal(1)),
        heads(mesh, {2, 3 * longer, 7}, Init::normal(1)),
        bias(mesh, {5}, Init::normal(1)) {}
  auto forward(const auto& x) const { return add(linear(x, first), alongside(bias, x)); }
  void visit(auto&& f) {
    f("first", first), f("second", second), f("tall", tall), f("heads", heads), f("bias", bias);
  }

  Weight<2, P0> first, second;
  Weight<2, P1> tall;
  Weight<3, P0> heads;
  Weight<1, Reduced> bias;
};

Muon muon(MuonUpdate settings) {
  Muon optimizer(settings);
  optimizer.add_group([](const ParameterInfo& p) { return p.name == "heads"; },
                      [](MuonUpdate& update) { update.row_dimensions = 2; });
  optimizer.add_group(is_not_hidden_matrix, with_adamw({.weight_decay = 0.2}), 0.1);
  return optimizer;
}

/// Gradients that depend on the values: each parameter's squares, weighed, whose gradient is known on every layout.
template <class Model>
void add_gradients(Model& model, const Grid& mesh, int step) {
  int number = 0;
  model.visit([&](const char*, auto& p) {
    auto& cell = *p.cell();
    detail::AnyTensor gradient = cell.stored.with(cell.layouts.finished, Buffer());
    gradient = gradient.unwritten(cell.layouts.finished, MemoryUse::gradient);
    place(gradient, random_dense(gradient.extents(), static_cast<std::uint64_t>(step * 10 + ++number)));
    cell.finished.add(std::move(gradient.buffer), *cell.functions.sum, mesh.recorder());
  });
}

template <class T, class P0, class P1, int Level>
std::vector<Dense> trained(const Grid& mesh, const MuonUpdate& settings, int steps, Index longer = 1) {
  Weights<T, P0, P1, Level> model(mesh, longer);
  initialize(model, 3);
  Muon optimizer = muon(settings);
  for (int step = 0; step < steps; ++step) {
    add_gradients(model, mesh, step);
    optimizer.step(model);
  }
  std::vector<Dense> values;
  model.visit([&](const char*, auto& p) { values.push_back(gather(p.stored())); });
  return values;
}

/// The same on this rank alone.
template <class T>
std::vector<Dense> alone(const MuonUpdate& settings, int steps, Index longer = 1) {
  std::vector<Dense> values;
  const Grid one = Mesh<dp, tp>(self(), {1, 1});
  return trained<T, Reduced, Reduced, 0>(one, settings, steps, longer);
}

void check_equal(const std::vector<Dense>& found, const std::vector<Dense>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].values == expected[i].values);
}

template <class T>
void check_all_layouts(const MuonUpdate& settings) {
  const Grid mesh = grid();
  const std::vector<Dense> expected = alone<T>(settings, 3);
  check_equal(trained<T, Reduced, Reduced, 0>(mesh, settings, 3), expected);
  check_equal(trained<T, Shard<0>, Shard<1>, 0>(mesh, settings, 3), expected);
  check_equal(trained<T, Shard<1>, Shard<0>, 0>(mesh, settings, 3), expected);
  check_equal(trained<T, Shard<0>, Shard<1>, 1>(mesh, settings, 3), expected);
  check_equal(trained<T, Shard<1>, Reduced, 2>(mesh, settings, 3), expected);
  check_equal(trained<T, Shard<0>, Shard<0>, 3>(mesh, settings, 3), expected);
  // Between hosts, stacks travel while others are changed.
  const Grid spread(world().on_hosts(world().rank()), {any, mesh.size<tp>()});
  check_equal(trained<T, Reduced, Reduced, 0>(spread, settings, 3), expected);
  check_equal(trained<T, Shard<0>, Shard<1>, 2>(spread, settings, 3), expected);
}
TEST_CASE("updates are bit-equal to one rank's in every layout and at every ZeRO level: float") {
  check_all_layouts<float>({.rate = 0.02});
}
TEST_CASE("… double, without Nesterov's momentum, with tuned steps, scaled as AdamW") {
  check_all_layouts<double>(
      {.rate = 0.02, .nesterov = false, .steps = kernel::tuned_muon_steps, .scale = MuonScale::as_adamw});
}
TEST_CASE("… bfloat16 with master weights") { check_all_layouts<Eigen::bfloat16>({.rate = 0.02}); }

/// By Gram matrices, with a rate of 1 so that errors count. Long sides are cut on one axis, on two, or not at all. A
/// third rank has no rows of `heads`.
template <class T>
void check_by_gram(MuonUpdate settings, double tolerance) {
  settings.rate = 1;
  settings.weight_decay = 0;
  for (const Index longer : {1, 8}) {
    settings.by_gram = false;
    const std::vector<Dense> expected = alone<T>(settings, 2, longer);
    settings.by_gram = true;
    const auto check = [&](const std::vector<Dense>& found) {
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(difference(found[i], expected[i]) <= tolerance);
    };
    for (const int on_dp : {1, world().size() % 2 == 0 ? 2 : 1, world().size()}) {
      const Grid mesh(world(), {on_dp, any});
      check(trained<T, Reduced, Reduced, 0>(mesh, settings, 2, longer));
      check(trained<T, Shard<1>, Shard<0>, 0>(mesh, settings, 2, longer));
      check(trained<T, Shard<0>, Shard<1>, 1>(mesh, settings, 2, longer));
      check(trained<T, Shard<0>, Reduced, 2>(mesh, settings, 2, longer));
      check(trained<T, Shard<1>, Shard<0>, 3>(mesh, settings, 2, longer));
      check(trained<T, Shard<1>, Shard<0>, 4>(mesh, settings, 2, longer));
      check(trained<T, Shard<0>, Shard<0>, 4>(mesh, settings, 2, longer));
    }
  }
}
TEST_CASE("by Gram matrices, updates are those of the whole to rounding errors: float") {
  check_by_gram<float>({}, 1e-5);
}
TEST_CASE("… double, with tuned steps, scaled as AdamW") {
  check_by_gram<double>({.steps = kernel::tuned_muon_steps, .scale = MuonScale::as_adamw}, 1e-12);
}
TEST_CASE("… bfloat16 with master weights") { check_by_gram<Eigen::bfloat16>({}, 0.02); }

/// torch.optim.Muon, by its documentation, for one matrix.
struct Torch {
  Index m, n;
  std::vector<double> value, velocity;

  void step(const Dense& gradient, const MuonUpdate& s) {
    const auto size = value.size();
    std::vector<double> x(size);
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) {
      velocity[i] = s.momentum * velocity[i] + (1 - s.momentum) * gradient.values[i];
      x[i] = s.nesterov ? (1 - s.momentum) * gradient.values[i] + s.momentum * velocity[i] : velocity[i];
      squares += x[i] * x[i];
    }
    for (double& each : x) each /= std::max(std::sqrt(squares), s.epsilon);
    const auto at = [](const std::vector<double>& a, Index columns, Index i, Index j) {
      return a[static_cast<std::size_t>(i * columns + j)];
    };
    const auto product = [&](const std::vector<double>& a, const std::vector<double>& b, Index rows,
                             Index inner, Index columns) {
      std::vector<double> c(static_cast<std::size_t>(rows * columns));
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j) {
          for (Index l = 0; l < inner; ++l)
            c[static_cast<std::size_t>(i * columns + j)] += at(a, inner, i, l) * at(b, columns, l, j);
        }
      }
      return c;
    };
    const auto transposed = [&](const std::vector<double>& a, Index rows, Index columns) {
      std::vector<double> b(a.size());
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j) b[static_cast<std::size_t>(j * rows + i)] = at(a, columns, i, j);
      }
      return b;
    };
    const bool turned = m > n;
    const Index rows = turned ? n : m, columns = turned ? m : n;
    if (turned) x = transposed(x, m, n);
    for (int k = 0; k < 5; ++k) {
      const std::vector<double> gram = product(x, transposed(x, rows, columns), rows, columns, rows);
      std::vector<double> update = product(gram, gram, rows, rows, rows);
      for (std::size_t i = 0; i < update.size(); ++i) update[i] = -4.7750 * gram[i] + 2.0315 * update[i];
      const std::vector<double> more = product(update, x, rows, rows, columns);
      for (std::size_t i = 0; i < size; ++i) x[i] = 3.4445 * x[i] + more[i];
    }
    if (turned) x = transposed(x, n, m);
    const double rate = s.rate * std::sqrt(std::max(1., static_cast<double>(m) / static_cast<double>(n)));
    for (std::size_t i = 0; i < size; ++i) value[i] = value[i] * (1 - s.rate * s.weight_decay) - rate * x[i];
  }
};
TEST_CASE("updates are those of torch.optim.Muon's formulas") {
  const Grid mesh = grid();
  const MuonUpdate settings{.rate = 0.02};
  const std::vector<Dense> before = trained<double, Shard<0>, Shard<1>, 1>(mesh, settings, 0),
                           after = trained<double, Shard<0>, Shard<1>, 1>(mesh, settings, 4);
  const Index shapes[][2]{{5, 7}, {5, 7}, {9, 3}, {6, 7}};
  for (std::size_t i = 0; i < 4; ++i) {
    Torch torch{shapes[i][0], shapes[i][1], before[i].values, std::vector<double>(before[i].values.size())};
    for (int step = 0; step < 4; ++step)
      torch.step(
          random_dense(before[i].shape, static_cast<std::uint64_t>(step * 10 + static_cast<int>(i) + 1)),
          settings);
    Dense expected(before[i].shape);
    expected.values = torch.value;
    CHECK(difference(after[i], expected) <= 1e-12);
  }
}

TEST_CASE("a parameter that is no matrix, and settings that make no sense, are errors") {
  const Grid mesh = grid();
  Weights<float, Shard<0>, Shard<1>, 0> model(mesh);
  initialize(model, 3);
  add_gradients(model, mesh, 0);
  Muon optimizer;
  CHECK(message_of<std::invalid_argument>([&] { optimizer.step(model); }) ==
        "Muon: 'bias', a parameter [5] with 1 dimensions of rows, is not a matrix: give it other "
        "row_dimensions, or a group with AdamW");
  std::vector<double> compared[2];  // by the ranks
  for (const bool by_gram : {false, true}) {
    MuonUpdate{.by_gram = by_gram}.each_setting(
        [&](const char*, double value) { compared[by_gram].push_back(value); });
  }
  CHECK(compared[0] != compared[1]);
  CHECK(message_of<std::invalid_argument>([] { Muon({.momentum = 1}); }) ==
        "Muon: momentum is 1, which must be 0 or more, and below 1");
}

}  // namespace
}  // namespace shardwise::testing::muon
