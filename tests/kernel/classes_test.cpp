// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/cross_entropy.hpp"
#include "shardwise/kernel/embedding.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

template <class T, class Id>
void check_embedding() {
  const Index dim = 5, vocabulary = 7;
  const std::vector<Id> ids{6, 0, 3, 3, 2};
  const auto count = static_cast<Index>(ids.size());
  const auto table = numbers<T>(vocabulary * dim, 20), dy = numbers<T>(count * dim, 21);
  std::vector<T> total(at(count * dim)), part(at(count * dim)), dtable = numbers<T>(vocabulary * dim, 22);
  Vector expected(dtable.begin(), dtable.end());
  for (Index first = 0, rows = 3; first < vocabulary;
       first += rows, rows = 2) {  // three unequal shards: 3, 2, 2
    kernel::embedding(count, ids.data(), first, rows, dim, table.data() + first * dim, part.data());
    kernel::accumulate(count * dim, part.data(), total.data());
    kernel::embedding_backward(count, ids.data(), first, rows, dim, dy.data(), dtable.data() + first * dim);
  }
  for (Index i = 0; i < count; ++i) {
    for (Index c = 0; c < dim; ++c) {
      const Index row = static_cast<Index>(ids[at(i)]);
      CHECK(total[at(i * dim + c)] == table[at(row * dim + c)]);
      expected[at(row * dim + c)] += static_cast<double>(dy[at(i * dim + c)]);
    }
  }
  CHECK(distance(dtable, expected) < (sizeof(T) == 2 ? 1. / 256 : 1e-6));
  kernel::embedding(0, ids.data(), 0, 0, dim, table.data(), part.data());
}

TEST_CASE("embedding: the shards' partial rows add up, gradients are scattered") {
  check_embedding<double, std::int64_t>();
  check_embedding<float, std::int32_t>();
  check_embedding<Eigen::bfloat16, std::int32_t>();
}

TEST_CASE("embedding: the gradient of a frequent token is added up in float") {
  using Eigen::bfloat16;
  const std::vector<std::int32_t> ids(1000, 1);
  const std::vector<bfloat16> dy(1000, bfloat16(1));
  std::vector<bfloat16> dtable(3);
  kernel::embedding_backward(1000, ids.data(), 0, 3, 1, dy.data(), dtable.data());
  CHECK(dtable == std::vector<bfloat16>{bfloat16(0), bfloat16(1000), bfloat16(0)});  // 256 + 1 would be 256
}

TEST_CASE("check_ids finds the first id outside") {
  const std::vector<std::int32_t> ids{0, 4, 5, -1};
  CHECK(kernel::check_ids(4, ids.data(), 6) == 3);
  CHECK(kernel::check_ids(4, ids.data(), 5) == 2);
  CHECK(kernel::check_ids(2, ids.data(), 5) == -1);
  CHECK(kernel::check_ids(0, ids.data(), 0) == -1);
}

// The terms of all classes, from shards of which the second is empty.
template <class Terms>
void check_split(double smoothing, Index rows_of, Index classes_of, double spread) {
  const kernel::TargetDistribution expected{classes_of, smoothing};
  Vector logits = numbers(rows_of * classes_of, 25, spread);
  std::vector<std::int64_t> ids(at(rows_of));
  for (Index r = 0; r < rows_of; ++r) ids[at(r)] = r == 1 ? -100 : (r * 5 + 2) % classes_of;
  const Index begins[] = {0, classes_of / 2, classes_of / 2, classes_of};
  std::vector<Vector> shards(3);
  std::vector<Terms> joined(at(rows_of)), part(at(rows_of));
  const auto width = [&](int shard) { return begins[shard + 1] - begins[shard]; };
  for (int shard = 0; shard < 3; ++shard) {
    Vector& block = shards[at(shard)];
    for (Index r = 0; r < rows_of; ++r) {
      block.insert(block.end(), logits.begin() + r * classes_of + begins[shard],
                   logits.begin() + r * classes_of + begins[shard + 1]);
    }
    kernel::row_terms(rows_of, width(shard), begins[shard], block.data(), ids.data(),
                      shard == 0 ? joined.data() : part.data());
    if (shard > 0) Terms::combine(rows_of, part.data(), joined.data());
  }

  const auto whole = [&](const Vector& v) {
    double loss = 0;
    for (Index r = 0; r < rows_of; ++r) {
      if (ids[at(r)] == -100) continue;
      const double* row = v.data() + r * classes_of;
      const double largest = *std::max_element(row, row + classes_of);
      double sum = 0, mean = 0;
      for (Index c = 0; c < classes_of; ++c) sum += std::exp(row[c] - largest);
      for (Index c = 0; c < classes_of; ++c) mean += row[c] / static_cast<double>(classes_of);
      const double lse = largest + std::log(sum);
      loss += (1 - smoothing) * (lse - row[ids[at(r)]]) + smoothing * (lse - mean);
    }
    return Vector{loss};
  };
  CHECK(kernel::cross_entropy(rows_of, joined.data(), ids.data(), expected) ==
        doctest::Approx(whole(logits)[0]).epsilon(1e-13));

  Vector gradient(logits.size());
  for (int shard = 0; shard < 3; ++shard) {
    Vector& block = shards[at(shard)];  // in place
    kernel::cross_entropy_backward(rows_of, width(shard), begins[shard], block.data(), joined.data(),
                                   ids.data(), expected, 0.25, block.data());
    for (Index r = 0; r < rows_of; ++r) {
      for (Index c = 0; c < width(shard); ++c)
        gradient[at(r * classes_of + begins[shard] + c)] = block[at(r * width(shard) + c)];
    }
  }
  CHECK(distance(gradient, finite_differences(logits, {0.25}, whole)) < 1e-7);
}

TEST_CASE("cross_entropy of logits split by classes") {
  check_split<kernel::RowTerms<double>>(0, 4, 13, 1);
  check_split<kernel::RowTerms<double>>(0, 4, 13, 50);
  check_split<kernel::SmoothedRowTerms<double>>(0.1, 4, 13, 1);
  check_split<kernel::SmoothedRowTerms<double>>(1, 4, 13, 5);
  check_split<kernel::RowTerms<double>>(0, 2, 1501, 3);  // several chunks a row
}

TEST_CASE("row terms combine to the same bits in either order") {
  const Index n = 1000;
  const auto logits = numbers<float>(n * 7, 26, 9), others = numbers<float>(n * 5, 27, 9);
  const std::vector<std::int32_t> ids(at(n), 3);
  using Terms = kernel::RowTerms<float>;
  std::vector<Terms> a(at(n)), b(at(n));
  kernel::row_terms(n, 7, 0, logits.data(), ids.data(), a.data());
  kernel::row_terms(n, 5, 7, others.data(), ids.data(), b.data());
  b[0] = a[0];
  b[1] = Terms{-HUGE_VALF, 0, 0};
  a[2] = b[2] = Terms{-HUGE_VALF, 0, 0};
  const Terms alone = a[1];
  auto ab = a, ba = b;
  Terms::combine(n, b.data(), ab.data());
  Terms::combine(n, a.data(), ba.data());
  const auto same = [](const Terms& p, const Terms& q) {
    return p.maximum == q.maximum && p.sum == q.sum && p.target == q.target;
  };
  CHECK(std::equal(ab.begin(), ab.end(), ba.begin(), same));
  CHECK(ab[0].sum == 2 * a[0].sum);
  CHECK(same(ab[1], alone));
  CHECK(same(ab[2], Terms{-HUGE_VALF, 0, 0}));
}

TEST_CASE("targets that are wrong, and that count") {
  const std::vector<std::int32_t> ids{0, -100, 6, -1, 7};
  CHECK(kernel::wrong_target(5, ids.data(), {.classes = 7}) == 3);
  CHECK(kernel::wrong_target(5, ids.data(), {.classes = 6}) == 2);
  CHECK(kernel::wrong_target(5, ids.data(), {.classes = 7, .ignore_index = -1}) == 1);
  CHECK(kernel::wrong_target(3, ids.data(), {.classes = 7}) == -1);
  CHECK(kernel::counted_weight(5, ids.data(), {.classes = 7}) == 4);
  CHECK(kernel::counted_weight(5, ids.data(), {.classes = 7, .ignore_index = 3}) == 5);
}

}  // namespace
