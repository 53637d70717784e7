// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a training step communicates along dp at each level of sharding: the dry plan, the recording and the calls of
/// MPI agree, and are what the bucket sizes, units and micro-batches make them.

#include <support/plans.hpp>
#include <support/sharded_step.hpp>

#include <array>
#include <vector>

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

using TensorPlan = LlamaTensorParallel<>;
using Grid = Mesh<dp, tp>;
constexpr AxisSet on_dp = 1;
constexpr auto all_reduce = Collective::all_reduce, all_gather = Collective::all_gather,
               reduce_scatter = Collective::reduce_scatter;

/// The bytes of the parameters of each unit on the rank that has the most, in the order of their gradients.
using UnitBytes = std::vector<std::vector<Index>>;

UnitBytes unit_bytes(const Grid& mesh, bool tied) {
  Llama<Grid, TensorPlan> model(mesh, small_llama(tied));
  auto bytes_of = [&](auto&... modules) {
    std::vector<Index> bytes;
    auto add = [&](auto& parameter) {
      const auto& x = parameter.stored();
      const auto& layout = std::remove_cvref_t<decltype(x)>::layout;
      bytes.push_back(local_box(x.shape(), layout, mesh.sizes(), MeshSizes{}).elements() *
                      Index{sizeof(float)});
    };
    (for_each_parameter(modules, add), ...);
    return bytes;
  };
  initialize(model, 1);
  UnitBytes units{bytes_of(*model.tokens)};
  for (auto& layer : model.layers) units.push_back(bytes_of(layer));
  units.push_back(model.head ? bytes_of(*model.norm, *model.head) : bytes_of(*model.norm));
  return units;
}

/// How many buckets that makes.
Index buckets(const std::vector<Index>& bytes, Index capacity) {
  Index count = 0, filled = -1;
  for (Index more : bytes) {
    if (more > capacity) {
      ++count;  // alone
    } else if (filled < 0 || filled + more > capacity) {
      ++count;
      filled = more;
    } else {
      filled += more;
    }
  }
  return count;
}
/// In the order of the model, and in that of the backward pass: from the last unit to the first.
std::vector<Index> in_order(const UnitBytes& units) {
  std::vector<Index> all;
  for (const auto& unit : units) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}
std::vector<Index> backwards(const UnitBytes& units) {
  return in_order(UnitBytes(units.rbegin(), units.rend()));
}

/// Calls along dp alone, in the phases: forward, backward, optimizer.
struct Calls {
  std::array<Index, 3> reductions{}, gathers{}, scatters{};
  friend bool operator==(const Calls&, const Calls&) = default;
};
template <class PlanType>
Calls calls_on(const PlanType& plan, AxisSet axes) {
  Calls calls;
  for (std::size_t phase = 0; phase < 3; ++phase) {
    const auto of = [&](Collective kind) {
      return traffic_on(plan, static_cast<Phase>(phase), kind, axes).calls;
    };
    calls.reductions[phase] = of(all_reduce);
    calls.gathers[phase] = of(all_gather);
    calls.scatters[phase] = of(reduce_scatter);
  }
  return calls;
}
std::string text(const Calls& calls) {
  std::string all;
  for (const auto& kind : {calls.reductions, calls.gathers, calls.scatters}) {
    for (Index count : kind) all += std::to_string(count) + ' ';
  }
  return all;
}

template <int Level>
Calls expected_calls(const Grid& mesh, const StepOptions& options) {
  Calls calls;
  if (mesh.size<dp>() == 1) return calls;
  const UnitBytes units = unit_bytes(mesh, options.tied);
  const Index capacity = options.reduction.bucket_bytes, micro = options.micro_batches;
  calls.reductions[0] = micro;                         // of the loss
  calls.reductions[2] = mesh.size<tp>() == 1 ? 1 : 0;  // of the norm: over the whole mesh
  if (Level == 0) calls.reductions[2] += buckets(backwards(units), capacity);
  if (Level == 1) calls.scatters[2] = buckets(backwards(units), capacity);
  if (Level == 2) calls.scatters[1] = micro * buckets(backwards(units), capacity);
  if (Level == 1 || Level == 2) calls.gathers[2] = buckets(in_order(units), capacity);
  if (Level == 3) {
    const int again =
        small_units - 2;  // the last unit keeps them; the first has a table, which no pullback reads
    calls.gathers = {small_units * micro, again * micro, 0};
    calls.scatters[1] = small_units * micro;
  }
  return calls;
}

template <int Level>
void check_level(const Grid& mesh, const StepOptions& options) {
  INFO("level ", Level, " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " micro-batches ",
       options.micro_batches, " tied ", options.tied, " recompute ", options.recompute, " bucket ",
       options.reduction.bucket_bytes, " background ", options.reduction.in_background);
  const auto plan = agreed_plan(mesh, ShardedStep<PlanWith<TensorPlan, Zero<Level, dp>>, dp, tp>{options});
  const Calls found = calls_on(plan, on_dp), expected = expected_calls<Level>(mesh, options);
  CHECK(text(found) == text(expected));
}

}  // namespace

TEST_CASE("collectives along dp, whatever the buckets, at each level") {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (int micro_batches : {1, 3}) {
      for (Index bucket_bytes : {Index{0}, Index{5000}, Index{20000}, Index{1} << 20}) {
        const StepOptions options{
            .micro_batches = micro_batches,
            .tied = bucket_bytes == 20000,
            .recompute = bucket_bytes == 5000,
            .reduction = {.bucket_bytes = bucket_bytes, .in_background = micro_batches - 1}};
        check_level<0>(mesh, options);
        check_level<1>(mesh, options);
        check_level<2>(mesh, options);
        check_level<3>(mesh, options);
      }
    }
  }
}

TEST_CASE("the buckets of this test are many, few, and one") {
  const Grid alone(self(), {1, 1});
  const auto bytes = backwards(unit_bytes(alone, false));
  CHECK(bytes.size() == 1 + 3 * 9 + 2);
  CHECK(buckets(bytes, 0) == 30);
  CHECK(buckets(bytes, 5000) > 10);
  CHECK(buckets(bytes, 5000) < 30);
  CHECK(buckets(bytes, 20000) > 2);
  CHECK(buckets(bytes, 20000) < 10);
  CHECK(buckets(bytes, Index{1} << 20) == 1);
}

}  // namespace shardwise::testing
