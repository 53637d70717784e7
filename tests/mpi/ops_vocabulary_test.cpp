// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `embedding`: the beginning of a language model. Its end is in loss_parallelism_test.cpp.

#include <shardwise/ops/embedding.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_vocabulary {
namespace {

const auto look_up = [](const auto& tokens, const auto& table) { return embedding(tokens, table); };

Dense dense_embedding(const Dense& tokens, const Dense& table) {
  const Index dim = table.extent(1);
  std::vector<Index> shape = tokens.shape;
  shape.push_back(dim);
  Dense y(shape);
  for (Index i = 0; i < y.size(); ++i) y[i] = table[static_cast<Index>(tokens[i / dim]) * dim + i % dim];
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

template <class Tokens, class Table>
constexpr Reason why = why_not<EmbeddingOp, On1<2, Tokens, std::int32_t>, On1<2, Table>>;
static_assert(std::is_same_v<result_of<EmbeddingOp, On1<2, Replicate, std::int32_t>, On1<2, Shard<0>>>,
                             On1<3, Partial<>>>);
static_assert(why<Partial<>, Reduced> == Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<Shard<0>, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why<Shard<0>, Shard<0>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<EmbeddingOp, On1<2, Replicate, std::int32_t>, On1<1, Replicate>> ==
              Reason::operands_do_not_fit_in_rank);
template <class Tokens, class Table>
concept Embeddable = requires(Tokens tokens, Table table) {
  embedding(tokens, table);
};
using Tokens = On1<2, Replicate, std::int32_t>;
static_assert(Embeddable<Tokens, On1<2, Shard<0>>> && !Embeddable<Tokens, On1<1, Replicate>>);
static_assert(!Embeddable<On1<2, Replicate, float>, On1<2, Replicate>>, "tokens are integers");
}  // namespace
}  // namespace shardwise::testing::ops_vocabulary
