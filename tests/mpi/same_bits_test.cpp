// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Bits that the test flips, in copies and within steps, and who is named.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/same_bits.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/shardwise.hpp>

#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;

namespace {

using Grid = sw::Mesh<dp, tp>;
using Plan = sw::Plan<sw::Use<"up", sw::ColwiseParallel<tp>>, sw::Use<"down", sw::RowwiseParallel<tp>>>;
using Cut = sw::PlanWith<Plan, sw::Zero<1, dp>>;

template <class P>
struct Mlp : sw::Module<Mlp<P>> {
  explicit Mlp(const Grid& mesh) : up(mesh, 12, 20), down(mesh, 20, 12) {}
  auto forward(const auto& x) const { return down(sw::gelu(up(x))); }
  void visit(auto&& f) { f("up", up), f("down", down); }
  sw::Linear<Grid, sw::style_of<P, "up">> up;
  sw::Linear<Grid, sw::style_of<P, "down">> down;
};

Grid grid(const sw::Communicator& ranks = sw::world()) {
  const int size = ranks.size();
  return size == 4 ? Grid(ranks, {2, 2}) : Grid(ranks, {size, 1});
}
void flip(void* number) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, number, 4);
  bits ^= 1u << 12;
  std::memcpy(number, &bits, 4);
}

enum class Where { nowhere, activation, gradient, parameter, state };

/// Flips a bit of one message on its way to or from this rank: of the number `at` that it is part of. What arrives is wrong
/// here; or its term of a sum, and so what all who get that sum have.
struct Damage {
  int at = -1, calls = 0;
  bool of_term = false;
  sw::Collective damaged = sw::Collective::none;
  bool is_next(const sw::detail::Call& call, bool term) {
    if (calls != at || term != of_term || (term && !call.reduces())) return false;
    if (call.count == 1) return false;  // the loss, from which nothing is computed
    damaged = call.kind;
    return true;
  }
} damage;

class DamagingTransport final : public sw::detail::Transport {
 public:
  explicit DamagingTransport(std::shared_ptr<sw::detail::Transport> whole)
      : Transport(whole->rank(), whole->hosts()), whole_(std::move(whole)) {}
  const char* name() const noexcept override { return whole_->name(); }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks, sw::Hosts on) override {
    return std::make_shared<DamagingTransport>(whole_->subgroup(ranks, std::move(on)));
  }
  void run(const sw::detail::Call& call) override {
    sw::detail::Call made = call;
    std::vector<char> term;
    if (damage.is_next(call, true)) {
      term.assign(call.source(), call.source() + call.bytes());
      flip(term.data());
      made.in = term.data();
    }
    whole_->run(made);
    if (damage.is_next(call, false)) flip(call.out);
    ++damage.calls;
  }
  sw::detail::RequestState* begin(const sw::detail::Call& call) override {
    run(call);  // as on one host
    return nullptr;
  }
  sw::detail::RequestState* begin(std::shared_ptr<sw::detail::MessageList> messages,
                                  sw::DataType type) override {
    return whole_->begin(std::move(messages), type);
  }

 private:
  std::shared_ptr<sw::detail::Transport> whole_;
};

template <class P>
struct Run {
  explicit Run(const Grid& on) : mesh(on), model(on), contents(on) {
    sw::initialize(model, 3);
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
    contents.add("steps", steps);
  }
  /// A step, in which one rank flips a bit.
  void step(Where where = Where::nowhere, int who = 0) {
    const bool flips = sw::world().rank() == who;
    auto x = sw::randn<float, sw::Shard<0>, sw::Replicate>(mesh, {8, 12}, static_cast<std::uint64_t>(steps));
    if (flips && where == Where::activation) flip(x.writable().data);
    sw::Tape tape;
    const auto in = tape.constant(x);
    auto loss = sw::mse_loss(model(in), in);
    tape.backward(loss);
    if (flips && where == Where::gradient) flip(model.up.weight.cell()->pending->sum()->data);
    sw::reduce_gradients(model);
    adamw.step(model);
    if (flips && where == Where::parameter) flip(model.down.weight.writable().data);
    if (flips && where == Where::state) {
      const auto& block = contents.blocks().at(5);
      CHECK(block.name.starts_with("optimizer"));
      flip(block.now().buffer->data);
    }
    ++steps;
  }

  Grid mesh;
  Mlp<P> model;
  sw::AdamW adamw{{.rate = 1e-2}};
  std::int64_t steps = 0;
  sw::CheckpointContents contents;
};

template <class P>
std::uint64_t bits(const Run<P>& run) {
  sw::Fingerprint all;
  for (const auto& block : run.contents.blocks()) {
    const auto x = sw::detail::finished(block);
    all.add(
        {static_cast<const char*>(x.buffer->data), static_cast<std::size_t>(sw::detail::bytes_of_block(x))});
  }
  return all.value();
}

}  // namespace

TEST_CASE_TEMPLATE("a step that is made twice ends as one that is made once", P, Plan, Cut) {
  Run<P> once(grid()), twice(grid());
  for (int i = 0; i < 3; ++i) {
    once.step();
    int tries = 0;
    CHECK(!sw::repeat_step(twice.contents, [&] { twice.step(), ++tries; }));
    CHECK(tries == 2);
    CHECK(bits(once) == bits(twice));
    CHECK(once.steps == twice.steps);
  }
}

TEST_CASE_TEMPLATE("a flipped bit is found, its rank is named, and the step is right", P, Plan, Cut) {
  const int all = sw::world().size();
  for (const Where where : {Where::activation, Where::gradient, Where::parameter, Where::state}) {
    for (int who = 0; who < all; ++who) {
      for (const int bad : {0, 1}) {
        Run<P> once(grid()), twice(grid());
        once.step(), twice.step();
        once.step();
        int tries = 0;
        const auto found = sw::repeat_step(twice.contents,
                                           [&] { twice.step(tries++ == bad ? where : Where::nowhere, who); });
        CAPTURE(static_cast<int>(where));
        CAPTURE(who);
        REQUIRE(found);
        CHECK(tries == 3);
        CHECK(found->ranks == std::vector<int>{who});
        CHECK(found->repaired);
        CHECK(found->text.starts_with(all == 1 ? "rank 0: " : "rank " + std::to_string(who) + ": "));
        CHECK(bits(once) == bits(twice));
      }
    }
  }
}

TEST_CASE_TEMPLATE("a bit that is flipped in a message is found", P, Plan, Cut) {
  const sw::Communicator ranks(
      std::make_shared<DamagingTransport>(sw::detail::transport_over(MPI_COMM_WORLD)));
  const Grid mesh = grid(ranks);
  Run<P> counted(mesh);
  counted.step();
  damage.calls = 0;
  counted.step();
  const int messages = damage.calls;
  CHECK((messages > 0) == (ranks.size() > 1));
  for (const bool of_term : {false, true}) {
    for (int at = 0; at < messages; ++at) {
      for (int who = 0; who < ranks.size(); ++who) {
        Run<P> once(mesh), twice(mesh);
        once.step(), twice.step();
        once.step();
        int tries = 0;
        damage.damaged = sw::Collective::none;
        const auto found = sw::repeat_step(twice.contents, [&] {
          const bool bad = tries++ == at % 2 && ranks.rank() == who;
          damage = {bad ? at : -1, 0, of_term, damage.damaged};
          twice.step();
          damage.at = -1;
        });
        const auto kind = static_cast<sw::Collective>(
            ranks.all_gather(std::vector{static_cast<Index>(damage.damaged)})[static_cast<std::size_t>(who)]);
        CAPTURE(of_term);
        CAPTURE(at);
        CAPTURE(who);
        CAPTURE(static_cast<int>(kind));
        if (kind == sw::Collective::none) {  // the loss, or the term of what is no sum
          CHECK(!found);
          continue;
        }
        REQUIRE(found);
        CAPTURE(found->text);
        if (!of_term) {
          CHECK(found->ranks == std::vector<int>{who});
        } else if (kind == sw::Collective::all_reduce) {
          CHECK(found->ranks.size() == 2 + (ranks.size() == 3 ? 1u : 0u));
        } else {
          CHECK(found->ranks.size() == 1);
        }
        CHECK(found->repaired);
        CHECK(bits(once) == bits(twice));
      }
    }
  }
}

TEST_CASE_TEMPLATE("fingerprints of a step", P, Plan, Cut) {
  Run<P> one(grid()), other(grid()), wrong(grid());
  for (Run<P>* each : {&one, &other, &wrong}) each->step();
  const auto of = [&](Run<P>& run, Where where) {
    return sw::fingerprints_of(run.contents, [&] { run.step(where, sw::world().size() - 1); });
  };
  const sw::StepFingerprints found = of(one, Where::nowhere);
  CHECK(found.contents.size() == one.contents.blocks().size() + one.contents.numbers().size());
  CHECK(!sw::difference_of(sw::world(), found, of(other, Where::nowhere)));
  const auto difference = sw::difference_of(sw::world(), found, of(wrong, Where::gradient));
  REQUIRE(difference);
  CHECK(difference->ranks == std::vector<int>{sw::world().size() - 1});
  // Those of a gradient: none before, all before the update.
  auto x = sw::randn<float, sw::Shard<0>, sw::Replicate>(one.mesh, {8, 12}, 1);
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, std::uint64_t) { names.push_back(name); };
  sw::Tape tape;
  const auto in = tape.constant(x);
  auto loss = sw::mse_loss(one.model(in), in);
  tape.backward(loss);
  sw::fingerprint_gradients(one.model, add);
  CHECK(names.empty());
  sw::reduce_gradients(one.model);
  sw::fingerprint_gradients(one.model, add);
  CHECK(names == std::vector<std::string>{"up.weight", "up.bias", "down.weight", "down.bias"});
}

TEST_CASE("a step whose bits never repeat") {
  Run<Plan> run(grid());
  run.step();
  int tries = 0;
  const auto found = sw::repeat_step(run.contents, [&] {
    run.step();
    for (int i = 0; i < tries; ++i)
      flip(static_cast<float*>(run.contents.blocks()[0].now().buffer->data) + i);
    ++tries;
  });
  REQUIRE(found);
  CHECK(!found->repaired);
  CHECK(found->text.find(" at the end differs between two runs") != std::string::npos);
  CHECK(found->text.find("a third run has other bits again") != std::string::npos);
}

TEST_CASE("copies that differ") {
  const int all = sw::world().size();
  const Grid mesh = grid();
  Run<Plan> run(mesh);
  run.step();
  CHECK_NOTHROW(sw::compare_copies(run.contents));
  for (int who = 0; who < all; ++who) {
    Run<Plan> other(mesh);
    other.step();
    if (sw::world().rank() == who) flip(other.model.down.weight.writable().data);
    const std::string error = error_of([&] { sw::compare_copies(other.contents); });
    if (all == 1) {
      CHECK(error == "no error");
    } else {
      CHECK(error.find("\"model.down.weight\": the copies of rank") != std::string::npos);
      if (all == 3) {
        std::string rest;
        for (int r = 0; r < all; ++r)
          if (r != who) rest += (rest.empty() ? " " : ", ") + std::to_string(r);
        CHECK(error.find("the copies of rank " + std::to_string(who) + " and ranks" + rest +
                         " have different bits") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a first step that sets something up") {
  Run<Plan> once(grid()), twice(grid());
  once.step(), once.step();
  twice.step();
  bool first = true;
  CHECK(!sw::repeat_step(twice.contents, [&] {
    if (std::exchange(first, false)) sw::world().barrier();
    twice.step();
  }));
  CHECK(bits(once) == bits(twice));
}
