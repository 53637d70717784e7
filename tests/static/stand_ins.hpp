// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One small polynomial operation for every kind of signature: with the same couplings between its indices as
/// the real one has, over integers, so that results can be compared exactly.
///
/// `not_offered` names the operand placements that would be legal, as the simulation proves, and that the
/// rules leave out on purpose.

#include "shardwise/layout/propagation.hpp"
#include "tiny.hpp"

namespace shardwise::testing {

/// Nothing legal is left out.
struct Complete {
  static constexpr bool not_offered(const OperandPlacements&) { return false; }
};

struct Matmul : Complete {
  static constexpr Signature signature = Signature::of("rk", "ok", "ro").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    const auto& [x, w, unused, none, neither] = in;
    for (Index r = 0; r < y.size(0); ++r) {
      for (Index o = 0; o < y.size(1); ++o) {
        for (Index k = 0; k < x.size(1); ++k) y(r, o) += x(r, k) * w(o, k);
      }
    }
  }
};

struct BatchedMatmul : Complete {
  static constexpr Signature signature = Signature::of("brk", "bok", "bro").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index b = 0; b < y.size(0); ++b) {
      for (Index r = 0; r < y.size(1); ++r) {
        for (Index o = 0; o < y.size(2); ++o) {
          for (Index k = 0; k < in[0].size(2); ++k) y(b, r, o) += in[0](b, r, k) * in[1](b, o, k);
        }
      }
    }
  }
};

struct Add : Complete {
  static constexpr Signature signature = Signature::of("rc", "rc", "rc").linear_jointly();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index e = 0; e < y.elements(); ++e) y[e] = in[0][e] + in[1][e];
  }
};

struct Multiply : Complete {
  static constexpr Signature signature = Signature::of("rc", "rc", "rc").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index e = 0; e < y.elements(); ++e) y[e] = in[0][e] * in[1][e];
  }
};

struct RowMultiply : Complete {
  static constexpr Signature signature = Signature::of("rc", "c", "rc").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      for (Index c = 0; c < y.size(1); ++c) y(r, c) = in[0](r, c) * in[1](c);
    }
  }
};

/// Like where, with a mask of any numbers.
struct Where : Complete {
  static constexpr Signature signature =
      Signature::of("rc", "rc", "rc", "rc").without_gradient(0).linear_jointly();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index e = 0; e < y.elements(); ++e)
      y[e] = in[0][e] * in[1][e] + (T(1) + T(-1) * in[0][e]) * in[2][e];
  }
};

struct ScaledTranspose : Complete {
  static constexpr Signature signature = Signature::of("rc", "cr").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index c = 0; c < y.size(0); ++c) {
      for (Index r = 0; r < y.size(1); ++r) y(c, r) = T(3) * in[0](r, c);
    }
  }
};

struct Square : Complete {
  static constexpr Signature signature = Signature::of("rc", "rc");
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index e = 0; e < y.elements(); ++e) y[e] = in[0][e] * in[0][e];
  }
};

template <class T>
constexpr T row_sum(const Tiny<T>& x, Index row) {
  T sum{};
  for (Index c = 0; c < x.size(1); ++c) sum += x(row, c);
  return sum;
}

template <class T>
constexpr T row_sum_of_squares(const Tiny<T>& x, Index row) {
  T sum{};
  for (Index c = 0; c < x.size(1); ++c) sum += x(row, c) * x(row, c);
  return sum;
}

/// Like softmax: every element depends on its whole row.
struct Softmax : Complete {
  static constexpr Signature signature = Signature::of("rc", "rc").whole('c');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      for (Index c = 0; c < y.size(1); ++c) y(r, c) = in[0](r, c) * row_sum(in[0], r);
    }
  }
};

/// Like layer_norm, with gain and bias.
struct LayerNorm {
  static constexpr Signature signature = Signature::of("rc", "c", "c", "rc").whole('c');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      for (Index c = 0; c < y.size(1); ++c) y(r, c) = in[0](r, c) * row_sum(in[0], r) * in[1](c) + in[2](c);
    }
  }
  /// It is linear in gain and bias together, so both may be pending. But those are parameters, which never
  /// are, and a signature that says "linear in some operands" would serve nothing else.
  static constexpr bool not_offered(const OperandPlacements& at) {
    return at[0] == reduced && at[1] == partial_sum && at[2] == partial_sum;
  }
};

struct SumOver : Complete {
  static constexpr Signature signature = Signature::of("rc", "r").linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) y(r) = row_sum(in[0], r);
  }
};

/// The maximum (`Sign` = 1) or minimum (-1) of each row; of no element at all, what loses against any other.
template <int Sign>
struct ExtremumOver : Complete {
  static constexpr Signature signature =
      Signature::of("rc", "r").combining(Sign > 0 ? ReduceOp::max : ReduceOp::min);
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      T best(-1'000'000);
      for (Index c = 0; c < in[0].size(1); ++c) {
        T candidate = T(Sign) * in[0](r, c);
        if (candidate > best) best = candidate;
      }
      y(r) = T(Sign) * best;
    }
  }
};

/// Like a norm: what blocks of a row give does not combine to what the row gives.
struct NormOver : Complete {
  static constexpr Signature signature = Signature::of("rc", "r").not_combining();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      T squares = row_sum_of_squares(in[0], r);
      y(r) = squares * squares;
    }
  }
};

struct BiasAdd : Complete {
  static constexpr Signature signature = Signature::of("rc", "c", "rc").linear_jointly();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      for (Index c = 0; c < y.size(1); ++c) y(r, c) = in[0](r, c) + in[1](c);
    }
  }
};

/// The ids are operand 0; one that is not in this block of the vocabulary gives a row of zeros.
struct Embedding : Complete {
  static constexpr Signature signature = Signature::of("t", "vd", "td").without_gradient(0).linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index t = 0; t < y.size(0); ++t) {
      Index row = static_cast<Index>(number(in[0](t))) - in[1].begin[0];
      if (row < 0 || row >= in[1].size(0)) continue;
      for (Index d = 0; d < y.size(1); ++d) y(t, d) = in[1](row, d);
    }
  }
};

/// Like experts, whose hidden features are a square: what is not in this block of them gives nothing.
struct Experts {
  static constexpr Signature signature =
      Signature::of("th", "tk", "tk", "efh", "eof", "to").without_gradient(1).whole('h');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    const auto& [x, ids, weights, up, down] = in;
    for (Index t = 0; t < y.size(0); ++t) {
      for (Index k = 0; k < ids.size(1); ++k) {
        const Index e = static_cast<Index>(number(ids(t, k))) - up.begin[0];
        if (e < 0 || e >= up.size(0)) continue;
        for (Index f = 0; f < up.size(1); ++f) {
          T hidden = 0;
          for (Index h = 0; h < x.size(1); ++h) hidden += up(e, f, h) * x(t, h);
          for (Index o = 0; o < y.size(1); ++o) y(t, o) += weights(t, k) * down(e, o, f) * hidden * hidden;
        }
      }
    }
  }
  /// It is linear in the weights, and in the last weights of the experts. No operation makes these as pending sums.
  static constexpr bool not_offered(const OperandPlacements& at) {
    const bool others = at[0] == reduced && at[3] == reduced && at[1].is_full();
    return others &&
           ((at[2] == partial_sum && at[4] == reduced) || (at[2] == reduced && at[4] == partial_sum));
  }
};

/// Like cross_entropy: a scalar of rows that are coupled in themselves, with targets that have no gradient.
struct CrossEntropy : Complete {
  static constexpr Signature signature = Signature::of("rc", "r", "").without_gradient(1).whole('c');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < in[0].size(0); ++r) {
      T squares = row_sum_of_squares(in[0], r);
      y() += squares * squares * (T(1) + in[1](r));
    }
  }
};

/// Like causal attention: a query looks at the keys up to its own position, with weights that all of these
/// keys make together. The kernel counts the positions of keys in its block, so they may not be cut.
struct Attention {
  static constexpr Signature signature = Signature::of("bshd", "bthd", "bthd", "bshd").whole('t').whole('d');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index b = 0; b < y.size(0); ++b) {
      for (Index h = 0; h < y.size(2); ++h) {
        for (Index s = 0; s < y.size(1); ++s) attend(in, b, s, h, y);
      }
    }
  }
  /// It is linear in the values. But these are never pending where they are made, and the same signature
  /// serves queries, keys and values.
  static constexpr bool not_offered(const OperandPlacements& at) {
    return at[0] == reduced && at[1] == reduced && at[2] == partial_sum;
  }

 private:
  template <class T>
  static constexpr void attend(const Inputs<T>& in, Index b, Index s, Index h, Tiny<T>& y) {
    const auto& [q, k, v, unused, none] = in;
    T total{};
    for (Index t = 0; t < k.size(1) && t <= q.begin[1] + s; ++t) {
      T product{};
      for (Index d = 0; d < q.size(3); ++d) product += q(b, s, h, d) * k(b, t, h, d);
      T weight = product * product;
      total += weight;
      for (Index d = 0; d < q.size(3); ++d) y(b, s, h, d) += weight * v(b, t, h, d);
    }
    for (Index d = 0; d < q.size(3); ++d) y(b, s, h, d) = y(b, s, h, d) * total;
  }
};

}  // namespace shardwise::testing
