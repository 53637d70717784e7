// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference.hpp"
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
  CHECK(distance(dtable, expected) < (sizeof(T) == 2 ? 1. / 100 : 1e-6));
  kernel::embedding(0, ids.data(), 0, 0, dim, table.data(), part.data());
}

TEST_CASE("embedding: the shards' partial rows add up, gradients are scattered") {
  check_embedding<double, std::int64_t>();
  check_embedding<float, std::int32_t>();
  check_embedding<Eigen::bfloat16, std::int32_t>();
}

TEST_CASE("check_ids finds the first id outside") {
  const std::vector<std::int32_t> ids{0, 4, 5, -1};
  CHECK(kernel::check_ids(4, ids.data(), 6) == 3);
  CHECK(kernel::check_ids(4, ids.data(), 5) == 2);
  CHECK(kernel::check_ids(2, ids.data(), 5) == -1);
  CHECK(kernel::check_ids(0, ids.data(), 0) == -1);
}

const std::vector<std::int64_t> targets{2, -100, 0, 12};
constexpr Index rows = 4, classes = 13;

template <class T>
void check_cross_entropy(double scale, double tolerance) {
  using C = kernel::compute_t<T>;
  auto logits = numbers<T>(rows * classes, 23);
  for (T& v : logits) v = static_cast<T>(static_cast<double>(v) * scale);
  std::vector<C> lse(at(rows));
  double expected = 0;
  Vector expected_lse;
  for (Index r = 0; r < rows; ++r) {
    double largest = -HUGE_VAL, total = 0;
    for (Index c = 0; c < classes; ++c)
      largest = std::max(largest, static_cast<double>(logits[at(r * classes + c)]));
    for (Index c = 0; c < classes; ++c)
      total += std::exp(static_cast<double>(logits[at(r * classes + c)]) - largest);
    expected_lse.push_back(largest + std::log(total));
    const Index target = targets[at(r)];
    if (target >= 0) expected += expected_lse.back() - static_cast<double>(logits[at(r * classes + target)]);
  }
  const double loss = kernel::cross_entropy(rows, classes, logits.data(), targets.data(), lse.data());
  CHECK(std::abs(loss - expected) <= tolerance * expected);
  CHECK(distance(lse, expected_lse) <= tolerance);
}

TEST_CASE("cross_entropy agrees with plain loops") {
  check_cross_entropy<double>(1, 1e-14);
  check_cross_entropy<double>(5000, 1e-14);
  check_cross_entropy<float>(10, 1e-6);
  check_cross_entropy<Eigen::bfloat16>(10, 1e-6);  // computed in float, not rounded
  CHECK(kernel::cross_entropy<double>(0, 5, nullptr, targets.data(), nullptr) == 0);
}

TEST_CASE("the gradient of cross_entropy") {
  const Vector logits = numbers(rows * classes, 24);
  Vector lse(at(rows)), gradient(logits.size());
  kernel::cross_entropy(rows, classes, logits.data(), targets.data(), lse.data());
  kernel::cross_entropy_backward(rows, classes, logits.data(), lse.data(), targets.data(), 0.25,
                                 gradient.data());
  CHECK(distance(gradient, finite_differences(logits, {0.25}, [&](const Vector& v) {
                   Vector unused(at(rows));
                   return Vector{
                       kernel::cross_entropy(rows, classes, v.data(), targets.data(), unused.data())};
                 })) < 1e-8);
  CHECK(std::all_of(gradient.begin() + classes, gradient.begin() + 2 * classes,
                    [](double v) { return v == 0; }));
  const std::vector<std::int32_t> all_seven(at(rows), 7);
  kernel::cross_entropy_backward(rows, classes, logits.data(), lse.data(), all_seven.data(), 1.,
                                 gradient.data(), 7);
  CHECK(gradient == Vector(gradient.size()));
}

TEST_CASE("cross_entropy of logits split by classes") {
  const Vector logits = numbers(rows * classes, 25);
  Vector lse(at(rows)), gradient(logits.size()), maximum(at(rows), -HUGE_VAL), sum(at(rows)),
      target(at(rows)), part(at(rows));
  const double loss = kernel::cross_entropy(rows, classes, logits.data(), targets.data(), lse.data());
  kernel::cross_entropy_backward(rows, classes, logits.data(), lse.data(), targets.data(), 1.,
                                 gradient.data());
  const Index begins[] = {0, 6, 6, 13};  // the second shard is empty
  std::vector<Vector> shards;
  for (int shard = 0; shard < 3; ++shard) {
    Vector block;
    for (Index r = 0; r < rows; ++r) {
      block.insert(block.end(), logits.begin() + r * classes + begins[shard],
                   logits.begin() + r * classes + begins[shard + 1]);
    }
    shards.push_back(block);
  }
  const auto width = [&](int shard) { return begins[shard + 1] - begins[shard]; };
  for (int shard = 0; shard < 3; ++shard) {
    kernel::row_max(rows, width(shard), shards[at(shard)].data(), part.data());
    for (Index r = 0; r < rows; ++r) maximum[at(r)] = std::max(maximum[at(r)], part[at(r)]);
  }
  for (int shard = 0; shard < 3; ++shard) {
    kernel::row_sum_exp(rows, width(shard), shards[at(shard)].data(), maximum.data(), part.data());
    kernel::accumulate(rows, part.data(), sum.data());
    kernel::target_logits(rows, width(shard), begins[shard], shards[at(shard)].data(), targets.data(),
                          part.data());
    kernel::accumulate(rows, part.data(), target.data());
  }
  double total = 0;
  for (Index r = 0; r < rows; ++r) {
    CHECK(maximum[at(r)] + std::log(sum[at(r)]) == doctest::Approx(lse[at(r)]).epsilon(1e-14));
    if (targets[at(r)] >= 0) total += lse[at(r)] - target[at(r)];
  }
  CHECK(total == doctest::Approx(loss).epsilon(1e-14));
  for (int shard = 0; shard < 3; ++shard) {
    Vector block(shards[at(shard)].size());
    kernel::cross_entropy_backward(rows, width(shard), shards[at(shard)].data(), lse.data(), targets.data(),
                                   1., block.data(), -100, begins[shard]);
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < width(shard); ++c) {
        CHECK(block[at(r * width(shard) + c)] == gradient[at(r * classes + begins[shard] + c)]);
      }
    }
  }
}

}  // namespace
