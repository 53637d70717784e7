// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Units of a user's own model, without a plan: linked or not, with a tape or without, nested, recomputed, moved, used
/// twice, interrupted; always the numbers of one rank without sharding, and nothing held afterwards.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fragile_node.hpp"
#include "module_check.hpp"

namespace shardwise::testing::units {
namespace {

using Grid = Mesh<dp, tp>;
constexpr Index vocabulary = 13, features = 10, hidden = 14;  // of 2, 3 and 4 ranks some divide none

/// Table; norm and up; down. Each a unit. Level 0 has nothing to gather: the same model unsharded.
template <class MeshType, int Level>
class Net {
  template <class Inner>
  using With = Styles<Inner, Zero<Level, dp>>;

 public:
  explicit Net(const MeshType& mesh, bool linked = true)
      : table(mesh, vocabulary, features),
        norm(mesh, features),
        up(mesh, features, hidden),
        down(mesh, hidden, features),
        first(table),
        second(norm, up),
        third(down) {
    if (!linked) return;
    first.link(second);
    second.link(third);
  }

  template <class Ids>
  auto operator()(const Ids& ids) const {
    auto x = first(ids, [&](const auto& in) { return table(in); });
    auto h = second(x, [&](const auto& in) { return gelu(up(norm(in))); });
    return third(h, [&](const auto& in) {
      if (forward_fails) throw std::runtime_error("forward");
      if constexpr (OperandTraits<std::remove_cvref_t<decltype(in)>>::on_tape) {
        in.tape().template record<Fragile>(backward_fails);
      }
      return down(in);
    });
  }
  void visit(auto&& f) {
    f("table", table);
    f("norm", norm);
    f("up", up);
    f("down", down);
  }

  Embedding<MeshType, Zero<Level, dp>, double> table;
  LayerNorm<MeshType, Zero<Level, dp>, double> norm;
  Linear<MeshType, With<ColwiseParallel<tp>>, double> up;
  Linear<MeshType, With<RowwiseParallel<tp>>, double> down;
  Unit first, second, third;
  bool forward_fails = false, backward_fails = false;
};

using Sharded = Net<Grid, 3>;
using Whole = Net<Grid, 0>;

template <class MeshType>
auto ids_on(const MeshType& mesh, int seed = 0) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 7 * 3; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i + 3 * seed + i) % vocabulary));
  return distribute<Shard<0>, Replicate>(mesh, Shape<2>{7, 3}, std::span<const std::int32_t>(ids));
}
/// mean of y².
template <class Y>
auto loss_of(const Y& y) {
  return redistribute<Replicate, Replicate>(mean(mul(y, y)));
}

/// The result and all finished gradients, whole.
template <class Module>
Outcome outcome(Module& model, const auto& result) {
  Outcome all = gradients_of(model);
  all["result"] = whole(result);
  return all;
}
/// One pass of `call(model, ids)`, in `micro_batches` equal ones.
template <class Module, class Call>
Outcome pass(Module& model, const Grid& mesh, Call call, int micro_batches = 1, ReduceOptions options = {}) {
  Outcome found;
  for (int i = 0; i < micro_batches; ++i) {
    Tape tape;
    auto y = call(model, tape.constant(ids_on(mesh)));
    auto result = y.value();
    auto loss = loss_of(y);
    options.last = i + 1 == micro_batches;
    backward_and_reduce(loss, model, options);
    if (options.last) found = outcome(model, result);
  }
  clear_gradients(model);
  return found;
}
constexpr auto plain = [](const auto& model, const auto& ids) { return model(ids); };

Grid lone_grid() { return Grid(self(), {1, 1}); }

/// What one rank makes of the same, unsharded.
template <class Call>
Outcome expected_of(Call call, int micro_batches = 1, std::uint64_t seed = 4) {
  const Grid mesh = lone_grid();
  Whole model(mesh);
  initialize(model, seed);
  return pass(model, mesh, call, micro_batches);
}
void check_equal(const Outcome& found, const Outcome& expected) {
  REQUIRE(found.size() == expected.size());
  for (const auto& parameter : found) {
    INFO(parameter.first);
    CHECK(error(parameter.second, expected.at(parameter.first)) < 1e-13);
  }
}

Index gathered(const Grid& mesh) {
  return mesh.recorder()->record().memory[static_cast<std::size_t>(MemoryUse::gathered)].live;
}
Index live(const Grid& mesh) { return mesh.recorder()->record().all_memory.live; }

TEST_CASE("a user's model in units has one rank's results and gradients") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (bool linked : {false, true}) {
      for (int micro : {1, 3}) {
        for (int background : {0, 1, 2}) {
          INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " linked ", linked, " micro-batches ", micro);
          Recording recording(mesh);
          Sharded model(mesh, linked);
          initialize(model, 4);
          const auto found =
              pass(model, mesh, plain, micro, {.bucket_bytes = 200, .in_background = background});
          check_equal(found, expected_of(plain, micro));
          CHECK(gathered(mesh) == 0);
          if (mesh.size<dp>() == 1) continue;
          const auto plan = recording.plan();
          CHECK(plan.count<dp>(Collective::all_gather) >= 3 * 2 * micro);  // and those of `outcome`
          CHECK(plan.count(Collective::reduce_scatter, Phase::backward) == 3 * micro);
        }
      }
    }
  }
}

TEST_CASE("without a tape: gathered for the call, and freed") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    const auto expected = expected_of(plain).at("result");
    for (bool linked : {false, true}) {
      Sharded model(mesh, linked);
      initialize(model, 4);
      const auto ids = ids_on(mesh);
      Recording recording(mesh);
      const auto y = model(ids);
      CHECK(gathered(mesh) == 0);
      CHECK(recording.plan().count(Collective::all_gather) == (mesh.size<dp>() > 1 ? 3 : 0));
      CHECK(error(whole(y), expected) < 1e-13);
    }
  }
}

TEST_CASE("a parameter of this model is cut where tp does not, or not at all") {
  static_assert(!decltype(Sharded::up.bias)::is_gathered);  // tp has its only dimension
  static_assert(decltype(Sharded::up.weight)::Stored::layout[0] == shard(1));
  static_assert(decltype(Sharded::down.weight)::Stored::layout[0] == shard(0));
  static_assert(decltype(Sharded::down.bias)::Stored::layout[0] == shard(0));
  static_assert(decltype(Sharded::norm.weight)::is_gathered && decltype(Sharded::table.table)::is_gathered);
}

TEST_CASE("a fully sharded parameter outside a unit, and one without a value") {
  const Grid mesh(world(), {any, 1});
  Sharded model(mesh);
  const auto ids = ids_on(mesh);
  CHECK_THROWS_WITH_AS(model(ids), doctest::Contains("is used before it has a value: call initialize"),
                       std::logic_error);
  initialize(model, 4);
  const doctest::Contains outside(
      "] is used, but not gathered: run the modules that use it in a Unit (what this rank keeps of it is "
      "stored())");
  CHECK_THROWS_WITH_AS(model.table(ids), outside, std::logic_error);
  CHECK_THROWS_WITH_AS(model.down.bias.value(), outside, std::logic_error);
  Tape tape;
  CHECK_THROWS_WITH_AS(model.table(tape.constant(ids)), outside, std::logic_error);
  // Neither leaves anything behind.
  Recording recording(mesh);
  check_equal(pass(model, mesh, plain), expected_of(plain));
  CHECK(gathered(mesh) == 0);
}

TEST_CASE("a parameter that has a value only in part: nothing stays gathered of the others") {
  const Grid mesh(world(), {any, 1});
  Sharded model(mesh);
  initialize(model.table, 1);
  initialize(model.norm, 2);  // of the second unit, but not `up`
  const auto ids = ids_on(mesh);
  CHECK_THROWS_AS(model(ids), std::logic_error);
  initialize(model, 4);
  check_equal(pass(model, mesh, plain), expected_of(plain));
}

// ---- Gathered ahead, and changed since ----------------------------------------------------------------------------

/// Calls the first unit only, so that the second one's parameters are on the way.
void prefetch_second(const Sharded& model, const Grid& mesh) {
  model.first(ids_on(mesh), [&](const auto& in) { return model.table(in); });
}

TEST_CASE("what was gathered ahead is not used when it has changed since") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Sharded model(mesh);
    auto changed = [&](auto change) {
      initialize(model, 99);
      prefetch_second(model, mesh);
      change();
      check_equal(pass(model, mesh, plain), expected_of(plain));
      prefetch_second(model, mesh);  // and of two that are gathered ahead
      prefetch_second(model, mesh);
      change();
      check_equal(pass(model, mesh, plain), expected_of(plain));
    };
    changed([&] { initialize(model, 4); });
    Sharded other(mesh);
    initialize(other, 4);
    changed([&] {
      model.table.table.assign(other.table.table.stored());
      model.norm.weight.assign(other.norm.weight.stored());
      model.norm.bias.assign(other.norm.bias.stored());
      model.up.weight.assign(other.up.weight.stored());
      model.up.bias.assign(other.up.bias.stored());
      model.down.weight.assign(other.down.weight.stored());
      model.down.bias.assign(other.down.bias.stored());
    });
    changed([&] {  // in place, as an optimizer does
      const auto from = other.up.weight.stored().view();
      initialize(model.table, derived_seed(0, ""));
      initialize(model, 4);
      std::copy_n(from.data, from.elements(), model.up.weight.writable().data);
    });
  }
}

TEST_CASE("a step of the optimizer between the gathering and the use") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    auto train = [&](auto& model, const Grid& on, bool disturb) {
      initialize(model, 4);
      SGD sgd({.rate = 0.5});
      for (int step = 0; step < 3; ++step) {
        Tape tape;
        auto y = model(tape.constant(ids_on(on, step)));
        auto loss = loss_of(y);
        backward_and_reduce(loss, model);
        if (disturb) {
          model.first(ids_on(on), [&](const auto& in) { return model.table(in); });
          model.second(model.first(ids_on(on), [&](const auto& in) { return model.table(in); }),
                       [&](const auto& in) { return model.norm(in); });
        }
        sgd.step(model);
      }
      return pass(model, on, plain);
    };
    const Grid alone = lone_grid();
    Sharded model(mesh);
    Whole dense(alone);
    check_equal(train(model, mesh, true), train(dense, alone, false));
  }
}

TEST_CASE("a parameter that was changed between the passes") {
  const char* changed =
      "Tape::backward: a parameter was changed after the forward pass that used it: the gradient would be "
      "that of neither value; call backward before the optimizer's step";
  for (const Grid& mesh : data_by_tensor_meshes()) {
    auto check = [&](auto& model) {
      initialize(model, 4);
      {
        Tape tape;
        auto loss = loss_of(model(tape.constant(ids_on(mesh))));
        initialize(model, 5);
        CHECK_THROWS_WITH_AS(backward_and_reduce(loss, model), changed, std::logic_error);
      }
      clear_gradients(model);
      check_equal(pass(model, mesh, plain), expected_of(plain, 1, 5));
    };
    Sharded sharded(mesh);
    Whole whole(mesh);
    check(sharded);
    check(whole);
  }
}

TEST_CASE(
    "fully sharded over an axis that is not for data: right, with samples of each rank's own or the same") {
  const auto gradients = [](const auto& mesh, auto placement) {
    using MeshType = std::remove_cvref_t<decltype(mesh)>;
    Linear<MeshType, FullyShard<tp>, double> layer(mesh, features, hidden);
    initialize(layer, 4);
    const Unit unit(layer);
    Tape tape;
    const auto x = uniform<double, decltype(placement)>(mesh, {7, features}, 3);
    const auto y = unit(tape.constant(x), [&](const auto& in) { return layer(in); });
    const auto loss = redistribute<Replicate>(mean(mul(y, y)));
    backward_and_reduce(loss, layer);
    return outcome(layer, loss.value());
  };
  const Outcome expected = gradients(Mesh<tp>(self(), {1}), Replicate());
  const Mesh<tp> mesh(world(), {any});
  check_equal(gradients(mesh, Shard<0>()), expected);
  check_equal(gradients(mesh, Replicate()), expected);
}

TEST_CASE("two units share a parameter: one has an old copy, or one on its way") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Sharded model(mesh);
    Unit other(model.norm, model.up);
    const auto call = [&](const auto& net, const auto& ids) {
      auto x = net.first(ids, [&](const auto& in) { return net.table(in); });
      auto h = other(x, [&](const auto& in) { return gelu(net.up(net.norm(in))); });
      return net.third(h, [&](const auto& in) { return net.down(in); });
    };
    initialize(model, 99);
    prefetch_second(model, mesh);
    initialize(model, 4);
    check_equal(pass(model, mesh, call), expected_of(plain));  // not the copy that `second` has
    check_equal(pass(model, mesh, plain), expected_of(plain));
    prefetch_second(model, mesh);  // `second` has it on its way; `other` uses it
    check_equal(pass(model, mesh, call), expected_of(plain));
    check_equal(pass(model, mesh, plain), expected_of(plain));
    {
      Unit passing(model.norm, model.up);
      model.first.link(passing);
      prefetch_second(model, mesh);  // to `passing`
      model.first.link(model.second);
      prefetch_second(model, mesh);  // which `second` wants to share; but it never arrives
    }
    check_equal(pass(model, mesh, plain), expected_of(plain));
    Recording recording(mesh);
    check_equal(pass(model, mesh, call), expected_of(plain));  // which leaves `second` ahead of a call
    check_equal(pass(model, mesh, plain), expected_of(plain));
    CHECK(gathered(mesh) == 0);
  }
}

// ---- Passes that do not end ---------------------------------------------------------------------------------------

TEST_CASE("a forward pass that throws, and then a whole one") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Recording recording(mesh);
    Sharded model(mesh);
    initialize(model, 4);
    for (bool on_tape : {false, true}) {
      model.forward_fails = true;
      Tape tape;
      if (on_tape) {
        CHECK_THROWS_WITH(model(tape.constant(ids_on(mesh))), "forward");
      } else {
        CHECK_THROWS_WITH(model(ids_on(mesh)), "forward");
      }
      model.forward_fails = false;
      CHECK(gathered(mesh) == 0);
      check_equal(pass(model, mesh, plain), expected_of(plain));
      CHECK(gathered(mesh) == 0);
    }
  }
}

TEST_CASE("a backward pass that throws half-way: nothing is held, and the next one is right") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (int background : {0, 2}) {
      for (bool again_on_this_tape : {false, true}) {
        Recording recording(mesh);
        Sharded model(mesh);
        initialize(model, 4);
        const Index before = live(mesh);
        {
          Tape tape;
          auto y = model(tape.constant(ids_on(mesh)));
          auto loss = loss_of(y);
          model.backward_fails = true;
          const ReduceOptions options{.in_background = background};
          CHECK_THROWS_WITH(backward_and_reduce(loss, model, options), "fragile");
          model.backward_fails = false;
          clear_gradients(model);
          if (again_on_this_tape) {
            if (background > 0) tape.clear();  // else the old pass is gone through too
            auto other = loss_of(model(tape.constant(ids_on(mesh))));
            tape.backward(other);
            clear_gradients(model);
          }
        }
        prefetch_second(model, mesh);  // what is ahead is one unit at most
        check_equal(pass(model, mesh, plain), expected_of(plain));
        CHECK(gathered(mesh) == 0);
        CHECK(live(mesh) == before);
      }
    }
  }
}

TEST_CASE("a tape that is dropped, or cleared, without a backward pass") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Recording recording(mesh);
    Sharded model(mesh);
    initialize(model, 4);
    const Index before = live(mesh);
    {
      Tape tape;
      model(tape.constant(ids_on(mesh)));
      tape.clear();
      CHECK(live(mesh) == before);
      model(tape.constant(ids_on(mesh)));
    }
    CHECK(live(mesh) == before);
    check_equal(pass(model, mesh, plain), expected_of(plain));
    CHECK(live(mesh) == before);
  }
}

// ---- Units in units, and beside recomputation ---------------------------------------------------------------------

/// Parts of a net as modules, for `recompute`.
template <class NetType>
struct Middle {
  const NetType& net;
  auto operator()(const auto& x) const { return gelu(net.up(net.norm(x))); }
  void visit(auto&&) const {}  // the net names them
};
template <class NetType>
struct MiddleUnit {
  const NetType& net;
  auto operator()(const auto& x) const { return net.second(x, Middle<NetType>{net}); }
  void visit(auto&&) const {}
};

TEST_CASE("a unit in a unit: of other parameters, or of the same") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Sharded model(mesh);
    initialize(model, 4);
    Unit all(model.table, model.norm, model.up, model.down), rest(model.table, model.down);
    Recording recording(mesh);
    for (const Unit& outer : {all, rest}) {
      for (int micro : {1, 2}) {
        const auto nested = [&](const auto& net, const auto& ids) {
          return outer(ids, [&](const auto& in) { return net(in); });
        };
        check_equal(pass(model, mesh, nested, micro), expected_of(plain, micro));
        CHECK(gathered(mesh) == 0);
      }
    }
  }
}

TEST_CASE("recomputation inside a unit, and a unit inside recomputation") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Sharded model(mesh);
    initialize(model, 4);
    const Middle<Sharded> middle{model};
    const MiddleUnit<Sharded> middle_unit{model};
    const auto through = [](const auto& net, const auto& ids, auto part) {
      auto x = net.first(ids, [&](const auto& in) { return net.table(in); });
      return net.third(part(x), [&](const auto& in) { return net.down(in); });
    };
    const auto inside = [&](const auto& net, const auto& ids) {
      return through(net, ids, [&](const auto& x) {
        return net.second(x, [&](const auto& in) { return recompute(middle, in); });
      });
    };
    const auto outside = [&](const auto& net, const auto& ids) {
      return through(net, ids, [&](const auto& x) { return recompute(middle_unit, x); });
    };
    Recording recording(mesh);
    for (int micro : {1, 2}) {
      check_equal(pass(model, mesh, inside, micro), expected_of(plain, micro));
      CHECK(gathered(mesh) == 0);
      check_equal(pass(model, mesh, outside, micro), expected_of(plain, micro));
      CHECK(gathered(mesh) == 0);
    }
  }
}

// ---- Uses ---------------------------------------------------------------------------------------------------------

TEST_CASE("a unit that is called twice in a pass") {
  const auto twice = [](const auto& net, const auto& ids) {
    auto x = net.first(ids, [&](const auto& in) { return net.table(in); });
    for (int i = 0; i < 2; ++i) {
      auto h = net.second(x, [&](const auto& in) { return gelu(net.up(net.norm(in))); });
      x = net.third(h, [&](const auto& in) { return net.down(in); });
    }
    return x;
  };
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (bool linked : {false, true}) {
      Sharded model(mesh, linked);
      initialize(model, 4);
      Recording recording(mesh);
      for (int micro : {1, 2}) {
        check_equal(pass(model, mesh, twice, micro, {.bucket_bytes = 100}), expected_of(twice, micro));
        CHECK(gathered(mesh) == 0);
      }
    }
  }
}

TEST_CASE("a model that was moved after its construction") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    std::vector<Sharded> models;
    for (int i = 0; i < 3; ++i) models.emplace_back(mesh);  // moved when the vector grows
    Sharded first = std::move(models.front());
    models.erase(models.begin());
    initialize(first, 4);
    initialize(models.back(), 4);
    std::optional<Sharded> last = std::move(models.back());
    models.clear();
    check_equal(pass(first, mesh, plain), expected_of(plain));
    check_equal(pass(*last, mesh, plain), expected_of(plain));
  }
}

TEST_CASE(
    "evaluation between the training steps, and between a forward and its backward pass, changes nothing") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    auto train = [&](auto& model, const Grid& on, bool evaluate) {
      initialize(model, 4);
      AdamW adamw({.rate = 0.05});
      for (int step = 0; step < 4; ++step) {
        if (evaluate) model(ids_on(on, step + 20));
        Tape tape;
        auto y = model(tape.constant(ids_on(on, step)));
        auto loss = loss_of(y);
        if (evaluate) model(ids_on(on, step + 10));
        backward_and_reduce(loss, model);
        if (evaluate) model(ids_on(on, step + 30));
        adamw.step(model);
      }
      return whole(model(ids_on(on)));
    };
    const Grid alone = lone_grid();
    Sharded model(mesh), evaluated(mesh);
    Whole dense(alone);
    const auto found = train(evaluated, mesh, true);
    CHECK(found == train(model, mesh, false));  // bit by bit
    CHECK(error(found, train(dense, alone, false)) < 1e-11);
  }
}

TEST_CASE("two tapes at a time") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    Sharded model(mesh);
    initialize(model, 4);
    Recording recording(mesh);
    Tape one, two;
    auto first = loss_of(model(one.constant(ids_on(mesh))));
    auto second = loss_of(model(two.constant(ids_on(mesh))));
    backward_and_reduce(first, model, {.last = false});
    backward_and_reduce(second, model);
    auto found = outcome(model, model(ids_on(mesh)));
    check_equal(found, expected_of(plain, 2));
    clear_gradients(model);
    CHECK(gathered(mesh) == 0);
  }
}

}  // namespace
}  // namespace shardwise::testing::units
