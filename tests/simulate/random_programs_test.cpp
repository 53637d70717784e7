// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Random programs, simulated on random meshes, against the same on one rank: matrices of few rows, so that blocks are uneven
/// (3 and 2 of 5) or empty, of whole numbers of both signs, so that every result is exact. What fails is made smaller until
/// nothing can be left out. SHARDWISE_PROGRAMS=N runs N of each kind.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/simulate/simulate.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/redistribute.hpp>

#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Layout;
using sw::pp;
using sw::tp;
using sw::detail::AnyTensor;

namespace {

using Random = std::mt19937_64;
int below(Random& random, std::size_t end) { return static_cast<int>(random() % end); }
int programs(int usual) {
  const char* text = std::getenv("SHARDWISE_PROGRAMS");
  return text ? std::atoi(text) : usual;
}

/// A program that fails, made smaller as long as it fails; `smaller` gives all that are one step smaller.
template <class Program, class Fails, class Smaller>
Program shrunk(Program program, Fails fails, Smaller smaller) {
  for (bool shrinks = true; shrinks;) {
    shrinks = false;
    for (const Program& next : smaller(program)) {
      if (fails(next).empty()) continue;
      program = next;
      shrinks = true;
      break;
    }
  }
  return program;
}

/// What a simulation of `f()` says, which returns what is wrong on a rank; nothing if nothing is.
template <class F>
std::string wrong(int ranks, std::uint64_t seed, F f) {
  std::string found;
  try {
    sw::simulate(ranks,
                 [&] {
                   const std::string mine = f();
                   if (found.empty() && !mine.empty())
                     found = mine + " on rank " + std::to_string(sw::world().rank());
                 },
                 {.seed = seed});
  } catch (const sw::SimulationError& error) {
    return error.what();
  }
  return found;
}

// ---- Routes: a tensor goes from layout to layout, on three axes -----------------------------------------------------

struct Route {
  std::vector<int> sizes;      // of the mesh
  std::vector<Index> extents;  // of the tensor
  std::vector<Layout> layouts;
};

std::string text(const Route& route) {
  std::string words = "mesh";
  for (const int size : route.sizes) words += " " + std::to_string(size);
  words += ", tensor";
  for (const Index extent : route.extents) words += " " + std::to_string(extent);
  for (const Layout& layout : route.layouts) {
    words += words.back() == ' ' ? "" : " ->";
    for (int axis = 0; axis < layout.axes; ++axis) words += " " + std::to_string(layout[axis].code);
  }
  return words;
}

Layout random_layout(Random& random, int dims, bool first) {
  for (;;) {
    Layout layout{};
    layout.axes = 3;
    for (int axis = 0; axis < 3; ++axis) {
      const int choice = below(random, static_cast<std::size_t>(dims) + (first ? 2 : 1));
      layout[axis] = choice < dims ? sw::shard(choice) : choice == dims ? sw::replicate : sw::partial_sum;
    }
    if (sw::well_formed(layout, dims)) return layout;
  }
}
Route random_route(Random& random) {
  Route route;
  for (int axis = 0; axis < 3; ++axis) route.sizes.push_back(1 + below(random, 3));
  for (int dims = 1 + below(random, 3); dims > 0; --dims) route.extents.push_back(1 + below(random, 7));
  for (int steps = 2 + below(random, 4); steps > 0; --steps) {
    route.layouts.push_back(
        random_layout(random, static_cast<int>(route.extents.size()), route.layouts.empty()));
  }
  return route;
}
std::vector<Route> smaller(const Route& route) {
  std::vector<Route> all;
  for (std::size_t i = 1; i < route.layouts.size() && route.layouts.size() > 2; ++i) {
    all.push_back(route);
    all.back().layouts.erase(all.back().layouts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < route.sizes.size(); ++i) {
    if (route.sizes[i] == 1) continue;
    all.push_back(route);
    --all.back().sizes[i];
  }
  for (std::size_t i = 0; i < route.extents.size(); ++i) {
    if (route.extents[i] == 1) continue;
    all.push_back(route);
    --all.back().extents[i];
  }
  return all;
}

/// The term of the rank at a place along the pending axes, of which there are so many ranks; and their sum.
double term(Index element, int place) {
  return static_cast<double>((element * 5 + place * 3) % 13) * (place % 2 == 0 ? 1 : -1);
}
double sum_of_terms(Index element, int places) {
  double sum = 0;
  for (int place = 0; place < places; ++place) sum += term(element, place);
  return sum;
}

/// f(element of this rank's block, its place in the whole tensor).
template <class F>
void for_elements(const AnyTensor& x, F f) {
  const auto box = x.box();
  auto* values = static_cast<double*>(x.buffer->data);
  for (Index i = 0; i < box.elements(); ++i) {
    Index rest = i, global = 0, stride = 1;
    for (int dim = x.rank - 1; dim >= 0; --dim) {
      global += (box.begin[dim] + rest % box.size[dim]) * stride;
      rest /= box.size[dim];
      stride *= x.shape[dim];
    }
    f(values[i], global);
  }
}

/// `loses_rows`: a mistake, to see that it is found.
std::string run_route(const Route& route, std::uint64_t seed, bool loses_rows = false) {
  return wrong(route.sizes[0] * route.sizes[1] * route.sizes[2], seed, [&]() -> std::string {
    using Grid = sw::Mesh<pp, dp, tp>;
    const Grid mesh(sw::world(), {route.sizes[0], route.sizes[1], route.sizes[2]});
    AnyTensor x(sw::MeshView(mesh), sw::DataType::f64, route.layouts[0], route.extents, {});
    x = x.unwritten(route.layouts[0], sw::MemoryUse::activation);
    int place = 0, places = 1;
    for (int axis = 0; axis < 3; ++axis) {
      if (!route.layouts[0][axis].is_partial()) continue;
      place = place * route.sizes[static_cast<std::size_t>(axis)] + mesh.coordinates()[axis];
      places *= route.sizes[static_cast<std::size_t>(axis)];
    }
    for_elements(x, [&](double& value, Index global) { value = term(global, place); });
    Layout whole{};
    whole.axes = 3;
    for (int axis = 0; axis < 3; ++axis) whole[axis] = sw::replicate;
    for (std::size_t i = 1; i <= route.layouts.size(); ++i) {
      const Layout& to = i < route.layouts.size() ? route.layouts[i] : whole;
      const bool loses = loses_rows && x.layout[1] == sw::shard(0) && x.layout[2] == sw::shard(0) &&
                         mesh.size<dp>() > 1 && mesh.size<tp>() > 1 && x.shape[0] % 4 == 1 && x.shape[0] > 1;
      x = sw::detail::redistributed_to(x, to, sw::DataType::f64);
      if (loses)
        for_elements(x, [&](double& value, Index global) { value = global == 0 ? value + 1 : value; });
    }
    bool right = true;
    for_elements(
        x, [&](double& value, Index global) { right = right && value == sum_of_terms(global, places); });
    return right ? "" : "another tensor";
  });
}

// ---- Operations on matrices -------------------------------------------------------------------------------------------

using Grid = sw::Mesh<dp, tp>;
using R = sw::Replicate;
using Rows = sw::Shard<0>;
using Columns = sw::Shard<1>;
template <class A, class B>
using Matrix = sw::Tensor<double, 2, Grid, A, B>;
using D = sw::Reduced;
using Matrices = std::tuple<Matrix<R, R>, Matrix<Rows, R>, Matrix<R, Columns>, Matrix<Rows, Columns>,
                            Matrix<Columns, Rows>, Matrix<R, Rows>, Matrix<Rows, Rows>, Matrix<D, D>,
                            Matrix<D, Columns>, Matrix<Rows, D>, Matrix<R, sw::Partial<>>>;
constexpr int layouts = static_cast<int>(std::tuple_size_v<Matrices>);
constexpr int full_layouts = layouts - 1;  // and pending sums, which only products give

enum class Op { redistribute, relu, scale, transpose, add, sub, mul, linear };
constexpr int ops = 8;

struct Instruction {
  Op op;
  int a, b;  // values: 0 and 1 are there at the beginning, each instruction makes one more
  int to;    // a layout
};
struct Program {
  int rows = 2, columns = 2;  // of the mesh
  int size = 4;               // of the matrices
  std::vector<Instruction> instructions;
};

std::string text(const Program& program) {
  constexpr const char* names[] = {"redistribute", "relu", "scale", "transpose",
                                   "add",          "sub",  "mul",   "linear"};
  std::string words = std::to_string(program.rows) + " x " + std::to_string(program.columns) +
                      " ranks, size " + std::to_string(program.size) + ":";
  int value = 2;
  for (const Instruction& i : program.instructions) {
    words +=
        " v" + std::to_string(value++) + " = " + names[static_cast<int>(i.op)] + "(v" + std::to_string(i.a);
    if (i.op >= Op::add) words += ", v" + std::to_string(i.b);
    if (i.op == Op::redistribute) words += " to layout " + std::to_string(i.to);
    words += ");";
  }
  return words;
}

Program random_program(Random& random) {
  Program program{1 + below(random, 4), 1 + below(random, 3), 1 + below(random, 7), {}};
  int products = 0;
  for (int count = 2 + below(random, 8); count > 0; --count) {
    const auto values = program.instructions.size() + 2;
    Instruction next{static_cast<Op>(below(random, ops)), below(random, values), below(random, values),
                     below(random, full_layouts)};
    if (next.op >= Op::mul && ++products > 3) next.op = Op::redistribute;  // numbers stay whole
    program.instructions.push_back(next);
  }
  return program;
}
std::vector<Program> smaller(const Program& program) {
  std::vector<Program> all;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    all.push_back(program);
    auto& left = all.back().instructions;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    const int gone = static_cast<int>(i) + 2;
    for (Instruction& later : left) {
      for (int* operand : {&later.a, &later.b})
        *operand = *operand == gone ? program.instructions[i].a : *operand - (*operand > gone ? 1 : 0);
    }
  }
  for (int Program::*number : {&Program::rows, &Program::columns, &Program::size}) {
    if (program.*number == 1) continue;
    all.push_back(program);
    --(all.back().*number);
  }
  return all;
}

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
Dense dense(const Instruction& i, const std::vector<Dense>& values) {
  const Dense &a = values[static_cast<std::size_t>(i.a)], &b = values[static_cast<std::size_t>(i.b)];
  switch (i.op) {
    case Op::redistribute:
      return a;
    case Op::relu:
      return a.cwiseMax(0);
    case Op::scale:
      return a * -2;
    case Op::transpose:
      return a.transpose();
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a.cwiseProduct(b);
    default:
      return a * b.transpose();  // weights are stored [out, in]
  }
}

/// f(x as the type that has this layout).
template <std::size_t I = 0, class F>
std::optional<AnyTensor> typed(const Grid& mesh, const AnyTensor& x, F f) {
  if constexpr (I == std::tuple_size_v<Matrices>) {
    return std::nullopt;
  } else {
    using X = std::tuple_element_t<I, Matrices>;
    return x.layout == X::layout ? f(x.as<X>(mesh)) : typed<I + 1>(mesh, x, f);
  }
}
/// Nothing where the compiler refuses it.
template <Op op, class X, class Y>
std::optional<AnyTensor> applied(const X& x, const Y& y) {
  static_cast<void>(y);
#define SHARDWISE_IF_ALLOWED(name, call)                                  \
  if constexpr (op == Op::name) {                                         \
    if constexpr (!sw::IllFormed<decltype(call)>) return AnyTensor(call); \
  }
  SHARDWISE_IF_ALLOWED(relu, sw::relu(x))
  SHARDWISE_IF_ALLOWED(scale, sw::scale(x, -2.0))
  SHARDWISE_IF_ALLOWED(transpose, sw::transpose(x))
  SHARDWISE_IF_ALLOWED(linear, sw::linear(x, y))
  if constexpr (std::is_same_v<X, Y>) {
    SHARDWISE_IF_ALLOWED(add, sw::add(x, y))
    SHARDWISE_IF_ALLOWED(sub, sw::sub(x, y))
    SHARDWISE_IF_ALLOWED(mul, sw::mul(x, y))
  }
#undef SHARDWISE_IF_ALLOWED
  return std::nullopt;
}

template <std::size_t... I>
Layout layout_number(int number, std::index_sequence<I...>) {
  const Layout all[] = {std::tuple_element_t<I, Matrices>::layout...};
  return all[number];
}

std::optional<AnyTensor> result(const Grid& mesh, const Instruction& i, const AnyTensor& a,
                                const AnyTensor& b) {
  if (i.op == Op::redistribute) {
    const Layout to = layout_number(i.to, std::make_index_sequence<std::tuple_size_v<Matrices>>());
    return sw::detail::redistributed_to(a, to, sw::DataType::f64);
  }
  return typed(mesh, a, [&]<class X>(const X& x) -> std::optional<AnyTensor> {
    if (i.op == Op::relu) return applied<Op::relu>(x, x);
    if (i.op == Op::scale) return applied<Op::scale>(x, x);
    if (i.op == Op::transpose) return applied<Op::transpose>(x, x);
    if (i.op == Op::linear) return typed(mesh, b, [&](const auto& y) { return applied<Op::linear>(x, y); });
    if (b.layout != a.layout) return std::nullopt;
    const X y = b.as<X>(mesh);
    if (i.op == Op::add) return applied<Op::add>(x, y);
    return i.op == Op::sub ? applied<Op::sub>(x, y) : applied<Op::mul>(x, y);
  });
}

std::string run_program(const Program& program, std::uint64_t seed, int* done = nullptr) {
  return wrong(program.rows * program.columns, seed, [&]() -> std::string {
    const Grid mesh(sw::world(), {program.rows, program.columns});
    std::vector<Dense> expected;
    std::vector<AnyTensor> values;
    const Layout whole = Matrix<R, R>::layout;
    for (int value = 0; value < 2; ++value) {
      expected.push_back(Dense::NullaryExpr(program.size, program.size, [&](Index row, Index column) {
        return term(row * program.size + column, value + 1);
      }));
      AnyTensor x(sw::MeshView(mesh), sw::DataType::f64, whole,
                  std::vector<Index>{program.size, program.size}, {});
      values.push_back(x.unwritten(whole, sw::MemoryUse::activation));
      for_elements(values.back(),
                   [&](double& element, Index global) { element = expected.back().data()[global]; });
    }
    for (const Instruction& i : program.instructions) {
      const AnyTensor &a = values[static_cast<std::size_t>(i.a)], &b = values[static_cast<std::size_t>(i.b)];
      std::optional<AnyTensor> made = result(mesh, i, a, b);
      if (done && made && i.op != Op::redistribute && mesh.rank() == 0) ++*done;
      expected.push_back(made ? dense(i, expected) : expected[static_cast<std::size_t>(i.a)]);
      values.push_back(made ? *made : a);
      const AnyTensor all = sw::detail::redistributed_to(values.back(), whole, sw::DataType::f64);
      bool right = true;
      for_elements(all, [&](double& element, Index global) {
        right = right && element == expected.back().data()[global];
      });
      if (!right) return "v" + std::to_string(values.size() - 1) + " is wrong";
    }
    return "";
  });
}

template <class Program, class Make, class Run>
void check_many(int count, std::uint64_t first, Make make, Run run) {
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    Random random(seed);
    const Program program = make(random);
    const std::string says = run(program, seed);
    if (says.empty()) continue;
    const Program least = shrunk(
        program, [&](const Program& p) { return run(p, seed); }, [](const Program& p) { return smaller(p); });
    FAIL_CHECK("program of seed " << seed << ": " << text(least) << ": " << run(least, seed));
    return;
  }
}

}  // namespace

TEST_CASE("random routes bring every element to its place") {
  check_many<Route>(programs(600), 1, random_route,
                    [](const Route& route, std::uint64_t seed) { return run_route(route, seed); });
}

TEST_CASE("random programs compute what one rank computes") {
  int done = 0;
  check_many<Program>(programs(600), 1, random_program, [&](const Program& program, std::uint64_t seed) {
    return run_program(program, seed, &done);
  });
  CHECK(done > programs(600));  // more than one operation a program is one that layouts allow
}

TEST_CASE("a mistake that is planted is found, and made small") {
  std::uint64_t seed = 1;
  Route found;
  for (; found.layouts.empty() && seed < 2000; ++seed) {
    Random random(seed);
    const Route route = random_route(random);
    if (!run_route(route, seed, true).empty()) found = route;
  }
  REQUIRE(!found.layouts.empty());
  const Route least = shrunk(
      found, [](const Route& route) { return run_route(route, 1, true); },
      [](const Route& route) { return smaller(route); });
  CAPTURE(text(least));
  CHECK(least.layouts.size() <= 2);
  CHECK(least.sizes == std::vector<int>{1, 2, 2});
  CHECK(least.extents[0] == 5);
}
