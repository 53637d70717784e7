// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A model's parameters go to the same model on another mesh: the values are those that it would have drawn there.

#include <doctest/doctest.h>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/module/copy_parameters.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/zero.hpp>

#include <support/gpt.hpp>
#include <support/mpi_counter.hpp>

#include <cstring>

namespace shardwise::testing::copy_parameters {
namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;
using Plane = sw::Mesh<dp, tp>;

Plane plane() {
  const int n = sw::world().size();
  return {sw::world(), {n % 2 == 0 ? 2 : 1, n % 2 == 0 ? n / 2 : n}};
}

/// Two layers of different element types, and a table that both share.
template <class Mesh, class Style>
struct Mixed : sw::Module<Mixed<Mesh, Style>> {
  Mixed(const Mesh& mesh, Index features) : first(mesh, 5, features), second(mesh, 5, 7) {}
  constexpr auto forward(const auto& x) const { return first(x); }
  constexpr void visit(auto&& f) {
    f("first", first);
    f("second", second);
    f("again", first);  // the same parameters
  }
  sw::Linear<Mesh, Style> first;
  sw::Linear<Mesh, Style, double> second;
};

template <class Model>
std::vector<std::vector<char>> blocks_of(Model& model) {
  std::vector<std::vector<char>> blocks;
  for (const auto& parameter : sw::detail::named_parameters_of(model)) {
    const sw::Buffer& block = parameter.cell->stored.buffer;
    const auto* data = static_cast<const char*>(block->data);
    blocks.emplace_back(data, data + block->bytes);
  }
  return blocks;
}

/// Checks that `to` gets what it would have if it had drawn it.
template <class From, class To>
void check_copy(From from, To to) {
  sw::initialize(to, 7);
  const auto expected = blocks_of(to);
  sw::initialize(to, 8);
  CHECK(blocks_of(to) != expected);
  sw::initialize(from, 7);
  const auto before = blocks_of(from);
  mpi_counter::reset();
  sw::copy_parameters(from, to);
  if (mpi_counter::counting())
    CHECK(mpi_counter::counts().send.calls < sw::world().size());  // one message a pair at most
  if (mpi_counter::counting()) {
    CHECK(mpi_counter::counts().data_calls() ==
          mpi_counter::counts().send.calls + mpi_counter::counts().receive.calls);
  }
  CHECK(blocks_of(to) == expected);
  CHECK(blocks_of(from) == before);
}

template <class From, class To>
std::string refusal(From from, To to) {
  sw::initialize(from, 1);
  try {
    sw::copy_parameters(from, to);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a GPT goes to other meshes and back") {
  if (sw::world().size() > 4) return;  // which are its heads
  const Line line(sw::world(), {sw::any});
  const GptConfig config{
      .vocabulary = 13, .context = 6, .features = 20, .heads = 4, .hidden = 11, .layers = 2};
  const Line reversed = line.part(sw::MeshRanks<tp>(line.size() - 1, {line.size()}, {-1}));
  check_copy(Gpt<Line>(line, config), Gpt<Plane>(plane(), config));
  check_copy(Gpt<Plane>(plane(), config), Gpt<Line>(line, config));
  check_copy(Gpt<Line>(line, config), Gpt<Line>(reversed, config));
}

TEST_CASE("other styles, ZeRO levels and element types; parameters of two names") {
  const Line line(sw::world(), {sw::any});
  const sw::Mesh<dp> data(sw::world(), {sw::any});
  using Cut = Mixed<Line, sw::ColwiseParallel<tp>>;
  using Sharded = Mixed<sw::Mesh<dp>, sw::FullyShard<dp>>;
  check_copy(Cut(line, 9), Sharded(data, 9));
  check_copy(Sharded(data, 9), Cut(line, 9));
  check_copy(Sharded(data, 9), Mixed<Plane, sw::RowwiseParallel<tp>>(plane(), 9));
}

TEST_CASE("models that differ are refused, on every rank, by name") {
  const Line line(sw::world(), {sw::any});
  using Style = sw::ColwiseParallel<tp>;
  using Model = Mixed<Line, Style>;
  const std::string rank = "copy_parameters: rank " + std::to_string(line.rank()) + ": ";
  CHECK(refusal(Model(line, 9), Model(line, 8)) ==
        rank + "'first.weight' is [9 x 5] of f32 in the first model, and [8 x 5] of f32 in the second");
  CHECK(refusal(sw::Linear<Line, Style>(line, 3, 4), sw::Linear<Line, Style, double>(line, 3, 4)) ==
        rank + "'weight' is [4 x 3] of f32 in the first model, and [4 x 3] of f64 in the second");
  CHECK(refusal(Model(line, 9), sw::Linear<Line, Style>(line, 3, 4)) ==
        rank + "only one of the two models has 'weight', [4 x 3] of f32");
  CHECK(refusal(Model(line, 9).first, Model(line, 9)) ==
        rank + "only one of the two models has 'first.weight', [9 x 5] of f32");
}

}  // namespace shardwise::testing::copy_parameters
