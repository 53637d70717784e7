// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Holds a parallel module against the dense one, which a rank runs alone: results, the gradients of the input
/// and of every parameter; and what it communicates, as planned, as recorded and as MPI saw it.

#include <shardwise/module/parameters.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <support/arrival.hpp>
#include <support/plans.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "outcome.hpp"

namespace shardwise::testing {

inline Mesh<tp> alone() { return Mesh<tp>(self(), {1}); }

/// Every mesh of the two axes that this job can make.
template <class First, class Second>
std::vector<Mesh<First, Second>> all_meshes() {
  const int ranks = world().size();
  std::vector<Mesh<First, Second>> meshes;
  for (int first = 1; first <= ranks; ++first) {
    if (ranks % first == 0) meshes.emplace_back(world(), std::array<int, 2>{first, ranks / first});
  }
  return meshes;
}

/// The input of a round trip: the same normal numbers on every mesh, in this layout.
template <class... Placements>
struct Normal {
  Shape<3> shape;

  template <class MeshType>
  auto operator()(Tape& tape, const MeshType& mesh) const {
    return tape.input(randn<double, Placements...>(mesh, shape, 1));
  }
};
/// The same, as a constant of the tape.
template <class... Placements>
struct Constant {
  Shape<3> shape;

  template <class MeshType>
  auto operator()(Tape& tape, const MeshType& mesh) const {
    return tape.constant(randn<double, Placements...>(mesh, shape, 1));
  }
};
/// Token ids that meet all of the vocabulary.
template <class... Placements>
struct Tokens {
  Shape<2> shape;
  Index vocabulary;

  template <class MeshType>
  auto operator()(Tape& tape, const MeshType& mesh) const {
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < elements(shape); ++i) ids.push_back(static_cast<std::int32_t>(i * 5 % vocabulary));
    return tape.constant(distribute<Placements...>(mesh, shape, std::span<const std::int32_t>(ids)));
  }
};

/// Calls a module, and brings its result a gradient that is the same on every mesh. Fit for `agreed_plan`.
template <class Make, class Input>
class RoundTrip {
 public:
  RoundTrip(Make make, Input input) : make_(make), input_(input) {}

  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    auto module = make_(mesh);
    initialize(module, 2);
    Tape tape;
    auto x = input_(tape, mesh);
    auto y = module(x);
    using Y = tensor_of<decltype(y)>;
    arrive(tape, y, gradient_of<Y>(mesh, y.shape()));
    go_back(tape, mesh);
    if (!mesh.dry()) {
      *found_ = {{"result", detail::AnyTensor(y.value())}};
      if constexpr (OperandTraits<decltype(x)>::tracked) found_->emplace("input", x.gradient());
      for (const auto& [path, cell] : detail::named_parameters_of(module)) {
        if (cell->layouts.frozen) continue;
        found_->insert_or_assign(path, cell->stored.with(cell->layouts.pending, cell->pending->sum()));
      }
    }
  }

  /// What the last call on a real mesh computed. Collective over that mesh, which must still be there.
  Outcome outcome() const { return whole(*found_); }

 private:
  template <class Y, class MeshType>
  static cotangent_of<Y> gradient_of(const MeshType& mesh, const Shape<Y::rank>& shape) {
    whole_of<Y> gradient(mesh, shape);
    fill_normal(gradient, 3);
    return redistribute_to<cotangent_of<Y>>(std::move(gradient));  // local, whatever it is
  }

  Make make_;
  Input input_;
  std::shared_ptr<NamedTensors> found_ = std::make_shared<NamedTensors>();
};

/// Checks a module on `mesh` against the dense one; `input` and `whole_input` are the same numbers, the latter
/// for a mesh of one axis and one rank. Returns the plan on which all three accounts agree.
template <MeshAxis... Axes, class Make, class Input, class MakeDense, class WholeInput>
CommunicationPlan<Axes...> check_module(const Mesh<Axes...>& mesh, Make make, Input input,
                                        MakeDense make_dense, WholeInput whole_input) {
  const RoundTrip parallel(make, input);
  const RoundTrip dense(make_dense, whole_input);
  const auto plan = agreed_plan(mesh, parallel);
  const Mesh<tp> own = alone();
  dense(own);
  check_outcome(parallel.outcome(), dense.outcome());
  return plan;
}

/// "all_gather 1 / reduce_scatter 1": the collectives forward and backward. None may be left for later.
template <class PlanType>
std::string traffic(const PlanType& plan) {
  std::string line;
  for (Phase phase : {Phase::forward, Phase::backward}) {
    if (phase == Phase::backward) line += " / ";
    std::string separator;
    for (Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                            Collective::all_to_all}) {
      if (plan.count(kind, phase) == 0) continue;
      line += separator + name_of(kind) + " " + std::to_string(plan.count(kind, phase));
      separator = ", ";
    }
  }
  return plan.collectives(Phase::optimizer) == 0 ? line : line + " / and more";
}

}  // namespace shardwise::testing
