// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The layers of this model are all of one type, so that no plan can name one of them by its number: for that, the model's table has
/// "layers.*" by number, and its list is `ByNumber`.
// expect: LayoutError<Reason::plan_names_no_such_module, Expected<Name<.*>>, Got<Name<layers.3.up>>, Cure<Hint::use_the_name_in_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/by_number.hpp>
#include <shardwise/parallel/plan_problem.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;

template <class PlanType>
struct Layer {
  explicit Layer(const Grid& mesh) : up(mesh, 64, 64) {
  }
  void visit(auto&& f) {
    f("up", up);
  }
  Linear<Grid, style_of<PlanType, "up">> up;
};
template <class Below, class Style>
using LayerWith = styled<Layer<Below>, Style>;

template <class PlanType, bool ByTheirNumbers>
struct Model {
  static constexpr std::array modules{ModuleName{"layers.*", ModuleKind::composite, ByTheirNumbers},
                                      ModuleName{"layers.*.up", ModuleKind::linear}};
  using Named = PlanFor<PlanType, modules>;
  using Problem = plan_problem<Grid, PlanType, modules>;

  explicit Model(const Grid& mesh) requires WellFormed<Problem> {
    layers.make(4, 4, mesh);
  }
  template <IllFormed Why = Problem>
  explicit Model(const Grid&) = delete;

  ModulesOf<ByNumber<Named, "layers", LayerWith>> layers;
};

using Fourth = Plan<Use<"layers.*.up", ColwiseParallel<tp>>, Use<"layers.3.up", NoParallel>>;
#ifdef SHOULD_FAIL
auto make(const Grid& mesh) {
  return Model<Fourth, false>(mesh);
}
#else
auto make(const Grid& mesh) {
  return Model<Fourth, true>(mesh);
}
#endif
