// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `experts`, `top_k` and `take_along_dim`.

#include <shardwise/ops/argmax.hpp>
#include <shardwise/ops/experts.hpp>
#include <shardwise/ops/index_select.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_experts {
namespace {

const auto mix = [](const auto&... x) { return experts(x...); };

/// A loop over tokens and their choices.
Dense dense_experts(const Dense& x, const Dense& ids, const Dense& weights, const Dense& gate_up,
                    const Dense& down) {
  const Index features = gate_up.extent(3), hidden = gate_up.extent(2), out = down.extent(1);
  const Index choices = ids.shape.back(), tokens = x.size() / features;
  std::vector<Index> shape = x.shape;
  shape.back() = out;
  Dense y(shape);
  for (Index t = 0; t < tokens; ++t) {
    for (Index j = 0; j < choices; ++j) {
      const Index e = static_cast<Index>(ids[t * choices + j]);
      for (Index f = 0; f < hidden; ++f) {
        double gate = 0, up = 0;
        for (Index h = 0; h < features; ++h) {
          gate += gate_up[((e * 2 + 0) * hidden + f) * features + h] * x[t * features + h];
          up += gate_up[((e * 2 + 1) * hidden + f) * features + h] * x[t * features + h];
        }
        const double value = weights[t * choices + j] * gate / (1 + std::exp(-gate)) * up;
        for (Index o = 0; o < out; ++o) y[t * out + o] += down[(e * out + o) * hidden + f] * value;
      }
    }
  }
  return y;
}

constexpr Index batch = 3, sequence = 5, features = 7, choices = 2, all = 5, hidden = 6, out = 4;

template <class T, class Id, class Tokens, class Ids, class GateUp, class Down>
void check_experts(const auto& mesh) {
  check(mix, dense_experts, random<T, Tokens>(mesh, {batch, sequence, features}, 1),
        random_ids<Id, Ids>(mesh, {batch, sequence, choices}, all, 2),
        random<T, Tokens>(mesh, {batch, sequence, choices}, 3),
        random<T, GateUp>(mesh, {all, 2, hidden, features}, 4), random<T, Down>(mesh, {all, out, hidden}, 5));
}

TEST_CASE("experts: every layout") {
  const auto mesh = line();
  check_experts<double, std::int64_t, Replicate, Replicate, Replicate, Replicate>(mesh);
  check_experts<double, std::int64_t, Reduced, Replicate, Reduced, Reduced>(mesh);
  check_experts<double, std::int64_t, Shard<0>, Shard<0>, Reduced, Reduced>(mesh);
  check_experts<double, std::int32_t, Shard<1>, Shard<1>, Reduced, Reduced>(mesh);
  check_experts<double, std::int64_t, Reduced, Replicate, Shard<0>, Shard<0>>(mesh);
  check_experts<double, std::int32_t, Reduced, Reduced, Shard<2>, Shard<2>>(mesh);
  check_experts<double, std::int64_t, Reduced, Replicate, Reduced, Shard<1>>(mesh);
  check_experts<float, std::int64_t, Reduced, Replicate, Shard<0>, Shard<0>>(mesh);
  check_experts<Eigen::bfloat16, std::int64_t, Shard<0>, Shard<0>, Reduced, Reduced>(mesh);
  check_experts<Eigen::bfloat16, std::int64_t, Reduced, Replicate, Shard<0>, Shard<0>>(mesh);
  check(mix, dense_experts, random<double, Reduced>(mesh, {batch, sequence, features}, 1),
        random_ids<std::int64_t, Shard<2>>(mesh, {batch, sequence, choices}, all, 2),
        random<double, Shard<2>>(mesh, {batch, sequence, choices}, 3),
        random<double, Reduced>(mesh, {all, 2, hidden, features}, 4),
        random<double, Reduced>(mesh, {all, out, hidden}, 5));
  const auto two = grid();  // experts on one axis, hidden features on the other
  check(mix, dense_experts, random<double, Reduced, Reduced>(two, {batch, sequence, features}, 1),
        random_ids<std::int64_t, Replicate, Replicate>(two, {batch, sequence, choices}, all, 2),
        random<double, Reduced, Reduced>(two, {batch, sequence, choices}, 3),
        random<double, Shard<0>, Shard<2>>(two, {all, 2, hidden, features}, 4),
        random<double, Shard<0>, Shard<2>>(two, {all, out, hidden}, 5));
}

/// Ids that `choose(token, choice)` gives, with experts on all ranks. 600 slots are more than one expert takes at once.
template <class Choose>
void check_choices(Choose choose) {
  const auto mesh = line();
  Dense ids({300, 2});
  for (Index i = 0; i < ids.size(); ++i) ids[i] = static_cast<double>(choose(i / 2, i % 2));
  check(mix, dense_experts, random<double, Reduced>(mesh, {300, 3}, 1),
        place<On1<2, Replicate, std::int64_t>>(mesh, ids), random<double, Reduced>(mesh, {300, 2}, 3),
        random<double, Shard<0>>(mesh, {8, 2, 2, 3}, 4), random<double, Shard<0>>(mesh, {8, 3, 2}, 5));
}

TEST_CASE("experts: all tokens to one, none to most, one expert twice") {
  check_choices([](Index, Index choice) { return choice == 0 ? 6 : 1; });
  check_choices([](Index, Index) { return 3; });
  check_choices([](Index token, Index choice) { return (token + choice) % 2; });
  check_choices(
      [](Index token, Index) { return token % 5 < 3 ? 1 : 2; });  // 0, 3, 2, 0 of four, and no other
}

TEST_CASE("experts: an id that is none of them") {
  const auto mesh = line();
  Dense ids({3, 2});
  ids[3] = 5;
  const auto x = random<double, Reduced>(mesh, {3, 7}, 1), weights = random<double, Reduced>(mesh, {3, 2}, 2);
  const auto gate_up = random<double, Shard<0>>(mesh, {5, 2, 6, 7}, 3);
  const auto down = random<double, Shard<0>>(mesh, {5, 4, 6}, 4);
  const auto message = [&] {
    return message_of<std::out_of_range>(
        [&] { experts(x, place<On1<2, Replicate, std::int64_t>>(mesh, ids), weights, gate_up, down); });
  };
  CHECK(message() == "experts: id 5 at [1, 1] is not one of the 5 experts");  // on every rank
  ids[3] = -1;
  CHECK(contains(message(), "experts: id -1 at [1, 1]"));
  ids[3] = 4;
  CHECK(message().empty());
  CHECK(message_of<std::invalid_argument>([&] {
          experts(x, place<On1<2, Replicate, std::int64_t>>(mesh, ids), weights,
                  random<double, Shard<0>>(mesh, {5, 3, 6, 7}, 3), down);
        }) == "experts: gate_up is [5 x 3 x 6 x 7], and must be [experts, 2, hidden, features]");
}

template <class X, class Weights, class GateUp, class Down, class Ids = Replicate>
constexpr Reason why =
    why_not<ExpertsOp, On1<2, X>, On1<2, Ids, std::int64_t>, On1<2, Weights>, On1<4, GateUp>, On1<3, Down>>;
constexpr Reason meets_blocks = Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending;
static_assert(why<Reduced, Reduced, Shard<0>, Shard<0>> == Reason::none);
static_assert(why<Replicate, Reduced, Shard<0>, Shard<0>> == meets_blocks);
static_assert(why<Reduced, Replicate, Shard<0>, Shard<0>> == meets_blocks);
static_assert(why<Shard<0>, Shard<0>, Replicate, Replicate, Shard<0>> == meets_blocks);
static_assert(why<Shard<0>, Shard<0>, Shard<0>, Shard<0>, Shard<0>> ==
              Reason::operands_sharded_on_different_dimensions);
static_assert(why<Reduced, Reduced, Shard<0>, Shard<2>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why<Reduced, Reduced, Shard<0>, Reduced> ==
              Reason::contracted_dimension_sharded_on_one_side_only);
static_assert(why<Reduced, Reduced, Shard<1>, Reduced> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Shard<1>, Reduced, Reduced, Reduced> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why<Partial<>, Reduced, Reduced, Reduced> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

/// The ids that `top_k` finds in the rows of `x`.
template <class Placement, class T = double>
std::vector<double> found(const std::vector<double>& x, Index n, Index k, const TopKOptions& options = {}) {
  const auto mesh = line();
  Dense rows({static_cast<Index>(x.size()) / n, n});
  rows.values = x;
  return gather(top_k(place<On1<2, Placement, T>>(mesh, rows), k, options)).values;
}
using Ids = std::vector<double>;

TEST_CASE("top_k: the largest first, and of equal elements the first") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  CHECK(found<Replicate>({1, 2, 3, 4, 7, 7, 7, 7, -1, -3, -1, -2}, 4, 2) == Ids{3, 2, 0, 1, 0, 2});
  CHECK(found<Shard<0>>({1, 2, 3, 4, 7, 7, 7, 7, -1, -3, -1, -2}, 4, 2) == Ids{3, 2, 0, 1, 0, 2});
  CHECK(found<Reduced, float>({1, 2, 3, 4}, 4, 4) == Ids{3, 2, 1, 0});
  CHECK(found<Replicate, Eigen::bfloat16>({1, 1.001, 3, 4}, 4, 4) ==
        Ids{3, 2, 0, 1});  // rounded to equal ones
  CHECK(found<Replicate>({1, nan, 3, nan}, 4, 3) == Ids{1, 3, 2});
  CHECK(found<Replicate>({-infinity, -infinity, -infinity}, 3, 2) == Ids{0, 1});
  CHECK(found<Replicate>({1, 2}, 2, 0).empty());
}

TEST_CASE("top_k: of the groups whose two largest elements have the largest sums") {
  const std::vector<double> x{9, 0, 0, 5, 5, 0, 6, 3, 1, 4, 4, 4};
  CHECK(found<Replicate>(x, 12, 3, {.groups = 4, .kept_groups = 1}) == Ids{3, 4, 5});
  CHECK(found<Replicate>(x, 12, 3, {.groups = 4, .kept_groups = 2}) == Ids{0, 3, 4});  // 9 + 0 before 6 + 3
  CHECK(found<Replicate>(x, 12, 3, {.groups = 4, .kept_groups = 4}) == Ids{0, 6, 3});
  CHECK(found<Replicate>({-1, -5, -2, -3}, 4, 1, {.groups = 4, .kept_groups = 2}) == Ids{0});
  CHECK(found<Replicate>({-9, -5, -2, -3}, 4, 2, {.groups = 2, .kept_groups = 1}) ==
        Ids{2, 3});  // never a 0 elsewhere
  const auto message = [&](Index k, const TopKOptions& options) {
    return message_of<std::invalid_argument>([&] { found<Replicate>(x, 12, k, options); });
  };
  CHECK(message(13, {}) == "top_k: k is 13, but must be 0 to 12, the elements in the groups that are kept");
  CHECK(message(4, {.groups = 4, .kept_groups = 1}) ==
        "top_k: k is 4, but must be 0 to 3, the elements in the groups that are kept");
  CHECK(
      message(1, {.groups = 5}) ==
      "top_k: rows of 12 elements in 5 groups, of which 1 are kept: the groups must divide the elements, and "
      "at least one be kept");
  CHECK(
      message(1, {.groups = 4, .kept_groups = 5}) ==
      "top_k: rows of 12 elements in 4 groups, of which 5 are kept: the groups must divide the elements, and "
      "at least one be kept");
}

const auto take = [](const auto& x, const auto& ids) { return take_along_dim(x, ids); };
Dense dense_take(const Dense& x, const Dense& ids) {
  Dense y(ids.shape);
  const Index n = x.shape.back(), k = ids.shape.back();
  for (Index i = 0; i < y.size(); ++i) y[i] = x[i / k * n + static_cast<Index>(ids[i])];
  return y;
}
template <class T, class Id, class X, class Chosen>
void check_take(const auto& mesh) {
  check(take, dense_take, random<T, X>(mesh, {3, 5, 4}, 1), random_ids<Id, Chosen>(mesh, {3, 5, 3}, 4, 2));
}

TEST_CASE("take_along_dim") {
  const auto mesh = line();
  check_take<double, std::int64_t, Replicate, Replicate>(mesh);
  check_take<double, std::int32_t, Reduced, Reduced>(mesh);
  check_take<double, std::int64_t, Shard<0>, Shard<0>>(mesh);
  check_take<double, std::int64_t, Shard<1>, Shard<1>>(mesh);
  check_take<double, std::int64_t, Reduced, Shard<2>>(mesh);
  check_take<double, std::int64_t, Partial<>, Replicate>(mesh);
  check_take<Eigen::bfloat16, std::int64_t, Shard<0>, Shard<0>>(mesh);
  Dense ids({1, 2});
  ids[1] = 4;
  CHECK(message_of<std::out_of_range>([&] {
          take(random<double, Replicate>(mesh, {1, 4}, 1), place<On1<2, Replicate, std::int64_t>>(mesh, ids));
        }) == "take_along_dim: index 4 at [0, 1] is outside the last dimension of [1 x 4]");
}
static_assert(why_not<TakeAlongDimOp, On1<2, Shard<1>>, On1<2, Reduced, std::int64_t>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<TakeAlongDimOp, On1<2, Replicate>, On1<2, Shard<0>, std::int64_t>> ==
              Reason::dimension_sharded_on_one_side_only);
static_assert(why_not<TopKOp, On1<2, Shard<1>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<TopKOp, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

}  // namespace
}  // namespace shardwise::testing::ops_experts
