// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/attention.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

using kernel::AttentionShape;

struct Problem {
  AttentionShape shape;
  Vector q, k, v, weight;
};

Problem problem(Index batch, Index queries, Index keys, Index heads, Index kv_heads, Index head_dim,
                bool causal) {
  const AttentionShape s{batch,    queries,  keys,   heads,
                         kv_heads, head_dim, causal, 1.3 / std::sqrt(static_cast<double>(head_dim) + 1e-9)};
  const Index q_size = batch * queries * heads * head_dim, kv_size = batch * keys * kv_heads * head_dim;
  Problem p{s, numbers(q_size, 30), numbers(kv_size, 31), numbers(kv_size, 32), numbers(q_size, 33)};
  for (double& x : p.q) x *= 4;
  return p;
}

/// The same, where heads begin in the middle of a group and some key/value heads are not read.
Problem shared_problem(Index queries, Index keys, Index heads, Index group, Index first_head,
                       Index kv_heads) {
  Problem p = problem(2, queries, keys, kv_heads, kv_heads, 8, true);
  p.shape.heads = heads;
  p.shape.group = group;
  p.shape.first_head = first_head;
  p.q = numbers(2 * queries * heads * 8, 34, 4);
  p.weight = numbers(2 * queries * heads * 8, 35);
  return p;
}

/// A problem with capped scores.
Problem capped_problem(Problem p, double softcap) {
  p.shape.softcap = softcap;
  return p;
}

/// The whole matrix of scores, one query at a time.
void naive_attention(const Problem& p, Vector& o, Vector& lse) {
  const auto& s = p.shape;
  o.assign(p.q.size(), 0);
  lse.clear();
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      for (Index i = 0; i < s.queries; ++i) {
        const Index q = ((b * s.queries + i) * s.heads + h) * s.head_dim;
        const auto kv = [&](Index j) {
          return ((b * s.capacity + j) * s.kv_heads + (s.first_head + h) / s.group) * s.head_dim;
        };
        const Index seen = s.causal ? std::max<Index>(0, i + s.keys - s.queries + 1) : s.keys;
        Vector score;
        double total = 0;
        for (Index j = 0; j < seen; ++j) {
          double product = 0;
          for (Index c = 0; c < s.head_dim; ++c) product += p.q[at(q + c)] * p.k[at(kv(j) + c)];
          product *= s.scale;
          if (s.softcap > 0) product = s.softcap * std::tanh(product / s.softcap);
          score.push_back(std::exp(product));
          total += score.back();
        }
        lse.push_back(std::log(total));
        for (Index j = 0; j < seen; ++j) {
          for (Index c = 0; c < s.head_dim; ++c) o[at(q + c)] += score[at(j)] / total * p.v[at(kv(j) + c)];
        }
      }
    }
  }
}

template <class T>
void check_attention(const Problem& p, double tolerance) {
  CAPTURE(p.shape.queries);
  CAPTURE(p.shape.keys);
  using C = kernel::compute_t<T>;
  const std::vector<T> q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end()), v(p.v.begin(), p.v.end());
  Problem rounded{
      p.shape, Vector(q.begin(), q.end()), Vector(k.begin(), k.end()), Vector(v.begin(), v.end()), {}};
  Vector o, lse;
  naive_attention(rounded, o, lse);
  std::vector<T> result(q.size(), std::numeric_limits<T>::quiet_NaN());
  std::vector<C> result_lse(lse.size());
  kernel::attention(p.shape, q.data(), k.data(), v.data(), result.data(), result_lse.data());
  CHECK(distance(result, o) <= tolerance);
  for (std::size_t i = 0; i < lse.size(); ++i) {
    const double found = static_cast<double>(result_lse[i]);
    CHECK((found == lse[i] || std::abs(found - lse[i]) < 1e-5));
  }
}

const Problem problems[] = {problem(1, 1, 1, 1, 1, 4, false),
                            problem(2, 7, 7, 4, 4, 8, true),
                            problem(2, 9, 9, 4, 2, 8, true),
                            problem(1, 5, 12, 6, 1, 3, true),
                            problem(1, 12, 5, 2, 2, 4, true),
                            problem(1, 12, 5, 2, 1, 4, false),
                            problem(1, 1, 300, 2, 1, 16, true),
                            problem(1, 300, 300, 2, 1, 16, true),
                            problem(1, 270, 141, 2, 2, 8, true),
                            problem(1, 141, 270, 2, 2, 8, true),
                            problem(1, 130, 257, 1, 1, 5, false),
                            problem(1, 3, 260, 6, 2, 16, true),
                            shared_problem(7, 9, 3, 2, 1, 3),
                            shared_problem(2, 40, 3, 2, 3, 4),
                            shared_problem(40, 40, 1, 3, 4, 3),
                            capped_problem(problem(2, 9, 9, 4, 2, 8, true), 1.5),
                            capped_problem(problem(1, 270, 141, 2, 1, 8, true), 0.7)};
const Problem empty_problems[] = {problem(0, 3, 3, 2, 2, 4, true), problem(1, 0, 3, 2, 2, 4, true),
                                  problem(1, 3, 0, 2, 2, 4, false), problem(1, 3, 3, 0, 0, 4, true),
                                  problem(1, 3, 3, 2, 2, 0, false)};

TEST_CASE("attention agrees with the whole matrix of scores") {
  for (const Problem& p : problems) {
    check_attention<double>(p, 1e-13);
    check_attention<float>(p, 2e-6);
    check_attention<Eigen::bfloat16>(p, 1. / 250);
  }
}

struct Gradients {
  Vector q, k, v;
};

template <class T>
Gradients gradients(const Problem& p) {
  const std::vector<T> q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end()), v(p.v.begin(), p.v.end()),
      weight(p.weight.begin(), p.weight.end());
  std::vector<T> o(q.size()), nan(std::max(q.size(), k.size()), std::numeric_limits<T>::quiet_NaN());
  auto dq = nan, dk = nan, dv = nan;
  dq.resize(q.size()), dk.resize(k.size()), dv.resize(k.size());
  std::vector<kernel::compute_t<T>> lse(at(p.shape.batch * p.shape.heads * p.shape.queries));
  kernel::attention(p.shape, q.data(), k.data(), v.data(), o.data(), lse.data());
  kernel::attention_backward(p.shape, q.data(), k.data(), v.data(), o.data(), lse.data(), weight.data(),
                             dq.data(), dk.data(), dv.data());
  return {Vector(dq.begin(), dq.end()), Vector(dk.begin(), dk.end()), Vector(dv.begin(), dv.end())};
}

TEST_CASE("values may have another head_dim than keys: as if the shorter ones ended in zeros") {
  const auto widened = [](const Vector& x, Index from, Index to) {
    Vector wide(x.size() / at(from) * at(to));
    for (Index i = 0; i < std::ssize(x); ++i) wide[at(i / from * to + i % from)] = x[at(i)];
    return wide;
  };
  const auto all = [](const AttentionShape& s, const Vector& q, const Vector& k, const Vector& v,
                      const Vector& weight) {
    Vector o(weight.size()), lse(at(s.batch * s.heads * s.queries)), dq(q.size()), dk(k.size()), dv(v.size());
    kernel::attention(s, q.data(), k.data(), v.data(), o.data(), lse.data());
    kernel::attention_backward(s, q.data(), k.data(), v.data(), o.data(), lse.data(), weight.data(),
                               dq.data(), dk.data(), dv.data());
    return std::array{o, dq, dk, dv};
  };
  for (const auto& [queries, keys, kv_heads] : {std::tuple{9, 9, 2}, {3, 260, 4}, {1, 40, 1}}) {
    for (const auto& [head_dim, value_dim] : {std::pair{8, 5}, {5, 8}, {16, 4}, {4, 16}}) {
      Problem p = problem(2, queries, keys, 4, kv_heads, head_dim, true);
      p.shape.value_dim = value_dim;
      CAPTURE(p.shape.keys);
      CAPTURE(p.shape.value_dim);
      p.v = numbers(2 * keys * kv_heads * value_dim, 36);
      p.weight = numbers(2 * queries * 4 * value_dim, 37);
      AttentionShape wide = p.shape;
      wide.head_dim = wide.value_dim = std::max(head_dim, value_dim);
      const auto own = all(p.shape, p.q, p.k, p.v, p.weight);
      const auto in_wide =
          all(wide, widened(p.q, head_dim, wide.head_dim), widened(p.k, head_dim, wide.head_dim),
              widened(p.v, value_dim, wide.head_dim), widened(p.weight, value_dim, wide.head_dim));
      for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        const Index d = i == 1 || i == 2 ? head_dim : value_dim;
        CHECK(distance(widened(own[i], d, wide.head_dim), in_wide[i]) <= 1e-14);
      }
    }
  }
}

TEST_CASE("the gradients of attention by finite differences") {
  // One key has all the weight whatever q is, so that only rounding is left of the gradients of q and k.
  const Gradients one_key = gradients<double>(problems[0]);
  for (double x : one_key.q) CHECK(std::abs(x) < 1e-15);
  for (double x : one_key.k) CHECK(std::abs(x) < 1e-15);
  CHECK(distance(one_key.v, problems[0].weight) < 1e-15);
  for (int i = 1; i < 6; ++i) {
    const Problem& p = problems[i];
    const Gradients g = gradients<double>(p);
    const auto differences = [&](const Vector& x, Vector Problem::*which) {
      return finite_differences(x, p.weight, [&](const Vector& moved) {
        Problem other = p;
        other.*which = moved;
        Vector o, lse;
        naive_attention(other, o, lse);
        return o;
      });
    };
    CHECK(distance(g.q, differences(p.q, &Problem::q)) < 1e-7);
    CHECK(distance(g.k, differences(p.k, &Problem::k)) < 1e-7);
    CHECK(distance(g.v, differences(p.v, &Problem::v)) < 1e-7);
  }
}

/// The gradients from the whole matrix of weights.
Gradients naive_gradients(const Problem& p) {
  const auto& s = p.shape;
  Vector o, lse;
  naive_attention(p, o, lse);
  Gradients g{Vector(p.q.size()), Vector(p.k.size()), Vector(p.k.size())};
  std::size_t row = 0;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      for (Index i = 0; i < s.queries; ++i, ++row) {
        const Index q = ((b * s.queries + i) * s.heads + h) * s.head_dim;
        const Index seen = s.causal ? std::max<Index>(0, i + s.keys - s.queries + 1) : s.keys;
        double delta = 0;
        for (Index c = 0; c < s.head_dim; ++c) delta += p.weight[at(q + c)] * o[at(q + c)];
        for (Index j = 0; j < seen; ++j) {
          const Index kv = ((b * s.capacity + j) * s.kv_heads + (s.first_head + h) / s.group) * s.head_dim;
          double product = 0, gradient = 0;
          for (Index c = 0; c < s.head_dim; ++c) {
            product += p.q[at(q + c)] * p.k[at(kv + c)];
            gradient += p.weight[at(q + c)] * p.v[at(kv + c)];
          }
          double score = s.scale * product, bend = s.scale;
          if (s.softcap > 0) {
            const double share = std::tanh(score / s.softcap);
            score = s.softcap * share;
            bend *= 1 - share * share;
          }
          const double weight = std::exp(score - lse[row]), slope = weight * (gradient - delta) * bend;
          for (Index c = 0; c < s.head_dim; ++c) {
            g.v[at(kv + c)] += weight * p.weight[at(q + c)];
            g.q[at(q + c)] += slope * p.k[at(kv + c)];
            g.k[at(kv + c)] += slope * p.q[at(q + c)];
          }
        }
      }
    }
  }
  return g;
}

TEST_CASE("the gradients of attention over many blocks") {
  for (const Problem& p : problems) {
    const Gradients expected = naive_gradients(p);
    const auto check = [&](const Gradients& g, double tolerance) {
      CHECK(distance(g.q, expected.q) <= tolerance);
      CHECK(distance(g.k, expected.k) <= tolerance);
      CHECK(distance(g.v, expected.v) <= tolerance);
    };
    if (p.shape.keys > 1) {
      check(gradients<double>(p), 1e-12);
      check(gradients<float>(p), 1e-5);
      check(gradients<Eigen::bfloat16>(p), 0.05);
    }
  }
}

TEST_CASE("each gradient of attention alone") {
  const Problem& p = problems[2];
  const Gradients all = gradients<double>(p);
  Vector o(p.q.size()), lse(at(p.shape.batch * p.shape.heads * p.shape.queries));
  kernel::attention(p.shape, p.q.data(), p.k.data(), p.v.data(), o.data(), lse.data());
  const auto alone = [&](std::size_t size, int which) {
    Vector g(size);
    double* wanted[3] = {};
    wanted[which] = g.data();
    kernel::attention_backward(p.shape, p.q.data(), p.k.data(), p.v.data(), o.data(), lse.data(),
                               p.weight.data(), wanted[0], wanted[1], wanted[2]);
    return g;
  };
  CHECK(alone(p.q.size(), 0) == all.q);
  CHECK(alone(p.k.size(), 1) == all.k);
  CHECK(alone(p.k.size(), 2) == all.v);
}

TEST_CASE("attention to the first keys of a cache, without lse") {
  for (Index queries : {1, 2, 40}) {
    CAPTURE(queries);
    Problem p = problem(2, queries, 50, 6, 2, 16, true);
    Vector expected, lse, o(p.q.size());
    p.shape.keys = 41;
    p.shape.capacity = 50;
    p.shape.first_query = 41 - queries;
    naive_attention(p, expected, lse);
    kernel::attention<double>(p.shape, p.q.data(), p.k.data(), p.v.data(), o.data(), nullptr);
    CHECK(distance(o, expected) < 1e-13);
  }
}

template <class T>
void check_in_two_parts(const Problem& p, double tolerance) {
  using C = kernel::compute_t<T>;
  const std::vector<T> q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end()), v(p.v.begin(), p.v.end()),
      weight(p.weight.begin(), p.weight.end());
  Vector expected, expected_lse;
  naive_attention(
      {p.shape, Vector(q.begin(), q.end()), Vector(k.begin(), k.end()), Vector(v.begin(), v.end()), {}},
      expected, expected_lse);
  std::vector<T> o(q.size()), dq(q.size()), dk(k.size()), dv(k.size());
  std::vector<C> lse(expected_lse.size(), -std::numeric_limits<C>::infinity());
  const auto in_parts = [&](auto f) {
    const Index cut = p.shape.keys / 3;
    for (const Range& part : {Range{cut, p.shape.keys - cut}, Range{0, cut}}) {
      AttentionShape shape = p.shape;
      shape.keys = part.size;
      shape.first_key = part.begin;
      shape.adds = true;
      f(shape, part.begin * p.shape.kv_heads * p.shape.head_dim);
    }
  };
  in_parts([&](const AttentionShape& shape, Index begin) {
    kernel::attention(shape, q.data(), k.data() + begin, v.data() + begin, o.data(), lse.data());
  });
  CHECK(distance(o, expected) <= tolerance);
  for (std::size_t i = 0; i < lse.size(); ++i) {
    const double found = static_cast<double>(lse[i]);
    CHECK((found == expected_lse[i] || std::abs(found - expected_lse[i]) < 1e-5));
  }
  in_parts([&](const AttentionShape& shape, Index begin) {
    kernel::attention_backward(shape, q.data(), k.data() + begin, v.data() + begin, o.data(), lse.data(),
                               weight.data(), dq.data(), dk.data() + begin, dv.data() + begin);
  });
  const Gradients g = gradients<T>(p);
  CHECK(distance(dq, g.q) <= 10 * tolerance);
  CHECK(distance(dk, g.k) <= 10 * tolerance);
  CHECK(distance(dv, g.v) <= 10 * tolerance);
}

TEST_CASE("attention to some keys and then to others") {
  for (const Problem& p : problems) {
    if (p.shape.keys == 1) continue;
    check_in_two_parts<double>(p, 1e-13);
    check_in_two_parts<float>(p, 2e-6);
    check_in_two_parts<Eigen::bfloat16>(p, 1. / 100);
  }
}

TEST_CASE("attention of nothing") {
  for (const Problem& p : empty_problems) {
    if (p.shape.heads > 0) check_attention<double>(p, 0);
    if (p.shape.heads == 0) kernel::attention<double>(p.shape, nullptr, nullptr, nullptr, nullptr, nullptr);
    const Gradients g = gradients<double>(p);
    CHECK(g.k == Vector(p.k.size()));
    CHECK(g.q == Vector(p.q.size()));
  }
}

}  // namespace
