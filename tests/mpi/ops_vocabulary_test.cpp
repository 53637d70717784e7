// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `embedding` and `cross_entropy`: the two ends of a language model.

#include <shardwise/ops/cross_entropy.hpp>
#include <shardwise/ops/embedding.hpp>

#include "ops_check.hpp"

namespace shardwise::testing {
namespace {

const auto look_up = [](const auto& tokens, const auto& table) { return embedding(tokens, table); };
const auto loss = [](const auto& logits, const auto& targets) { return cross_entropy(logits, targets); };

Dense dense_embedding(const Dense& tokens, const Dense& table) {
  const Index dim = table.extent(1);
  std::vector<Index> shape = tokens.shape;
  shape.push_back(dim);
  Dense y(shape);
  for (Index i = 0; i < y.size(); ++i) y[i] = table[static_cast<Index>(tokens[i / dim]) * dim + i % dim];
  return y;
}

Dense dense_cross_entropy(const Dense& logits, const Dense& targets) {
  Dense y((std::vector<Index>()));
  const Index classes = logits.shape.back();
  for (Index r = 0; r < targets.size(); ++r) {
    double sum = 0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    y[0] += std::log(sum) - logits[r * classes + static_cast<Index>(targets[r])];
  }
  y[0] /= static_cast<double>(targets.size());
  return y;
}

template <class T, class Id, class Tokens, class Table>
void check_embedding(const auto& mesh) {
  check(look_up, dense_embedding, random_ids<Id, Tokens>(mesh, {3, 7}, 13, 1),
        random<T, Table>(mesh, {13, 5}, 2));
}

TEST_CASE("embedding") {
  const auto mesh = line();
  check_embedding<double, std::int32_t, Replicate, Replicate>(mesh);
  check_embedding<double, std::int64_t, Replicate, Reduced>(mesh);
  check_embedding<double, std::int32_t, Reduced, Replicate>(mesh);
  check_embedding<double, std::int32_t, Replicate, Shard<0>>(mesh);
  check_embedding<double, std::int32_t, Reduced, Shard<1>>(mesh);
  check_embedding<double, std::int64_t, Shard<0>, Reduced>(mesh);
  check_embedding<double, std::int32_t, Shard<1>, Reduced>(mesh);
  check_embedding<double, std::int32_t, Replicate, Partial<>>(mesh);
  check_embedding<Eigen::bfloat16, std::int32_t, Replicate, Shard<0>>(mesh);
  const auto two = grid();
  check(look_up, dense_embedding, random_ids<std::int32_t, Shard<0>, Replicate>(two, {9}, 13, 1),
        random<double, Reduced, Shard<0>>(two, {13, 5}, 2));
}

TEST_CASE("embedding: an id outside the vocabulary") {
  const auto mesh = line();
  Dense ids({3, 4});
  ids[6] = 13;
  const auto table = random<double, Shard<0>>(mesh, {13, 5}, 2);
  auto message = [&] {
    return message_of<std::out_of_range>(
        [&] { embedding(place<On1<2, Replicate, std::int32_t>>(mesh, ids), table); });
  };
  const Index first = table.box().begin[0], last = first + table.box().size[0];
  CHECK(message() ==
        "embedding: token 13 at [1, 2] is outside the vocabulary of 13, of which this rank holds " +
            std::to_string(first) + " to " + std::to_string(last));
  ids[6] = -1;
  CHECK(contains(message(), "token -1 at [1, 2]"));
  ids[6] = 12;  // another rank's row is no error
  CHECK(message().empty());
  // Only the rank that holds the id sees it.
  ids[6] = 99;
  const auto rows = place<On1<2, Shard<0>, std::int64_t>>(mesh, ids);
  const auto whole = random<double, Reduced>(mesh, {13, 5}, 2);
  const bool mine = rows.box().begin[0] <= 1 && 1 < rows.box().begin[0] + rows.box().size[0];
  const std::string said = message_of<std::out_of_range>([&] { embedding(rows, whole); });
  CHECK(contains(said, "token 99 at [1, 2]") == mine);
  CHECK(said.empty() == !mine);
}

template <class T, class Id, class Logits, class Targets>
void check_loss(const auto& mesh) {
  check(loss, dense_cross_entropy, random<T, Logits>(mesh, {3, 5, 7}, 1),
        random_ids<Id, Targets>(mesh, {3, 5}, 7, 2));
}

TEST_CASE("cross_entropy") {
  const auto mesh = line();
  check_loss<double, std::int32_t, Replicate, Replicate>(mesh);
  check_loss<double, std::int64_t, Reduced, Replicate>(mesh);
  check_loss<double, std::int32_t, Replicate, Reduced>(mesh);
  check_loss<double, std::int32_t, Shard<0>, Shard<0>>(mesh);
  check_loss<double, std::int64_t, Shard<1>, Shard<1>>(mesh);
  check_loss<Eigen::bfloat16, std::int32_t, Shard<0>, Shard<0>>(mesh);
  const auto two = grid();
  check(loss, dense_cross_entropy, random<double, Shard<0>, Shard<0>>(two, {7, 5}, 1),
        random_ids<std::int32_t, Shard<0>, Shard<0>>(two, {7}, 5, 2));
}

TEST_CASE("cross_entropy: targets and shapes that do not fit") {
  const auto mesh = line();
  Dense targets({3, 2});
  const auto logits = random<double, Replicate>(mesh, {3, 2, 5}, 1);
  targets[3] = 5;
  CHECK(message_of<std::out_of_range>([&] {
          cross_entropy(logits, place<On1<2, Replicate, std::int32_t>>(mesh, targets));
        }) == "cross_entropy: target 5 at [1, 1] is none of the 5 classes");
  targets[3] = -100;
  CHECK(message_of<std::out_of_range>([&] {
          cross_entropy(logits, place<On1<2, Replicate, std::int64_t>>(mesh, targets));
        }) == "cross_entropy: target -100 at [1, 1] is none of the 5 classes");
  CHECK(message_of<std::invalid_argument>([&] {
          cross_entropy(logits, random_ids<std::int32_t, Replicate>(mesh, {3, 4}, 5, 1));
        }) == "cross_entropy: logits [3 x 2 x 5] and targets [3 x 4] differ in dimension 1");
}

template <class Tokens, class Table>
constexpr Reason why = why_not<EmbeddingOp, On1<2, Tokens, std::int32_t>, On1<2, Table>>;
template <class Logits, class Targets>
constexpr Reason why_no_loss = why_not<CrossEntropyOp, On1<3, Logits>, On1<2, Targets, std::int32_t>>;
static_assert(std::is_same_v<result_of<EmbeddingOp, On1<2, Replicate, std::int32_t>, On1<2, Shard<0>>>,
                             On1<3, Partial<>>>);
static_assert(why<Partial<>, Reduced> == Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<Shard<0>, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why<Shard<0>, Shard<0>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<EmbeddingOp, On1<2, Replicate, std::int32_t>, On1<1, Replicate>> ==
              Reason::operands_do_not_fit_in_rank);
static_assert(std::is_same_v<result_of<CrossEntropyOp, On1<3, Shard<1>>, On1<2, Shard<1>, std::int32_t>>,
                             On1<0, Partial<>>>);
static_assert(why_no_loss<Shard<2>, Replicate> == Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_no_loss<Shard<0>, Replicate> == Reason::contracted_dimension_sharded_on_one_side_only);
static_assert(why_no_loss<Partial<>, Replicate> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_no_loss<Reduced, Partial<>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

template <class Tokens, class Table>
concept Embeddable = requires(Tokens tokens, Table table) {
  embedding(tokens, table);
};
using Tokens = On1<2, Replicate, std::int32_t>;
static_assert(Embeddable<Tokens, On1<2, Shard<0>>> && !Embeddable<Tokens, On1<1, Replicate>>);
static_assert(!Embeddable<On1<2, Replicate, float>, On1<2, Replicate>>, "tokens are integers");
template <class Logits, class Targets>
concept HasLoss = requires(Logits logits, Targets targets) {
  cross_entropy(logits, targets);
};
static_assert(HasLoss<On1<3, Reduced>, Tokens> && !HasLoss<On1<3, Shard<2>>, Tokens>);
static_assert(!HasLoss<On1<3, Reduced>, On1<2, Reduced>>, "targets are integers");

}  // namespace
}  // namespace shardwise::testing
