// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Experts: for each token the weighted sum of a few gated MLPs. Each is computed for the tokens that chose it, as
/// matrix products. A slot is a pair of a token and one of its choices: number token · choices + choice.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/activations.hpp>
#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/kernel/permute.hpp>
#include <shardwise/kernel/sums.hpp>

namespace shardwise::kernel {

/// The extents of a block of experts. This process has the experts [first, first + experts) of all.
struct ExpertExtents {
  Index tokens, choices, first, experts, features, hidden, out;
};

namespace detail {

/// Some slots of one expert.
struct SlotsOfExpert {
  Index expert;
  Index row;           ///< the number of slots before them, by expert
  const Index* slots;  ///< in their order
  Index count;
  bool first;  ///< of their expert
};

struct SlotBegins;
struct SlotOrder;
/// Calls f(SlotsOfExpert) for the slots of this process's experts, expert by expert (a counting sort), also for an
/// expert without slots.
template <class Id, class F>
void for_each_expert(const ExpertExtents& s, const Id* ids, F f) {
  const Index slots = s.tokens * s.choices;
  auto* const begin = scratch<SlotBegins, Index>(s.experts + 2);
  auto* const order = scratch<SlotOrder, Index>(slots);
  const auto each = [&](auto visit) {
    for (Index slot = 0; slot < slots; ++slot) {
      const Index expert = static_cast<Index>(ids[slot]) - s.first;
      if (expert >= 0 && expert < s.experts) visit(expert, slot);
    }
  };
  std::fill_n(begin, s.experts + 2, 0);
  each([&](Index expert, Index) { ++begin[expert + 2]; });
  for (Index i = 2; i < s.experts + 2; ++i) begin[i] += begin[i - 1];
  each([&](Index expert, Index slot) { order[begin[expert + 1]++] = slot; });
  constexpr Index most = 512;  // bounds the working memory
  for (Index e = 0; e < s.experts; ++e) {
    Index row = begin[e];
    do {
      const Index count = std::min(most, begin[e + 1] - row);
      f(SlotsOfExpert{e, row, order + row, count, row == begin[e]});
      row += count;
    } while (row < begin[e + 1]);
  }
}

/// Calls f(sums), which adds to n numbers of the compute type; each is rounded once, to y.
template <class T, class F>
void sum_wide(Index n, T* y, bool accumulate, F f) {
  if constexpr (std::is_same_v<T, compute_t<T>>) {
    if (!accumulate) fill<T>(n, 0, y);
    f(y);
  } else {
    struct Sums;
    auto* const sums = scratch<Sums, compute_t<T>>(n);
    accumulate ? convert(n, y, sums) : fill<compute_t<T>>(n, 0, sums);
    f(sums);
    convert(n, sums, y);
  }
}

struct ExpertRows;
struct ExpertProjected;
struct ExpertHidden;
struct ExpertResult;

/// The rows of x that belong to slots, `ld` apart.
template <class Purpose, class T>
T* gather_rows(const SlotsOfExpert& of, Index choices, Index dim, const T* x, Index ld) {
  T* const rows = scratch<Purpose, T>(of.count * ld);
  for (Index i = 0; i < of.count; ++i) copy(dim, x + of.slots[i] / choices * dim, rows + i * ld);
  return rows;
}

/// y[count, wide] = x · weightsᵀ, computed as (weights · xᵀ)ᵀ if there are more than `few_rows`, but not many: the
/// product then reads the weights in the order in which they are stored.
template <class T>
void project(Index count, Index wide, Index features, const T* x, const T* weights, T* y) {
  constexpr Index many = 256;
  if (count <= few_rows || count > many) {
    gemm(Transpose::no, Transpose::yes, count, wide, features, x, features, weights, features, y, wide,
         false);
    return;
  }
  struct Columns;
  struct Result;
  T *const columns = scratch<Columns, T>(features * count), *const result = scratch<Result, T>(wide * count);
  const auto transpose = [](Index rows, Index cols, const T* from, T* to) {
    const Index extents[] = {rows, cols}, from_strides[] = {cols, 1}, to_strides[] = {1, rows};
    copy_box(2, extents, from, from_strides, to, to_strides);
  };
  transpose(count, features, x, columns);
  gemm(Transpose::no, Transpose::no, wide, count, features, weights, features, columns, count, result, count,
       false);
  transpose(wide, count, result, y);
}

}  // namespace detail

/// y[t] = Σ_j weights[t, j] · down[e] · (silu(gate[e] · x[t]) ∘ (up[e] · x[t])), e = ids[t, j], over own experts, in
/// the order of e. x: [tokens, features]; ids, weights: [tokens, choices]; gate_up: [experts, 2, hidden, features];
/// down: [experts, out, hidden]. `projected`, unless null, gets gate · x and up · x of own slots.
template <class T, class Id>
void experts(const ExpertExtents& s, const T* x, const Id* ids, const T* weights, const T* gate_up,
             const T* down, T* projected, T* y) {
  const Index wide = 2 * s.hidden;
  detail::sum_wide(s.tokens * s.out, y, false, [&](compute_t<T>* sums) {
    detail::for_each_expert(s, ids, [&](const detail::SlotsOfExpert& of) {
      const T* const rows = detail::gather_rows<detail::ExpertRows>(of, s.choices, s.features, x, s.features);
      T* const both =
          projected ? projected + of.row * wide : scratch<detail::ExpertProjected, T>(of.count * wide);
      T* const hidden = scratch<detail::ExpertHidden, T>(of.count * s.hidden);
      auto* const result = scratch<detail::ExpertResult, compute_t<T>>(of.count * s.out);
      detail::project(of.count, wide, s.features, rows, gate_up + of.expert * wide * s.features, both);
      for (Index i = 0; i < of.count; ++i) {
        T* const h = hidden + i * s.hidden;
        gated<Silu>(s.hidden, both + i * wide, both + i * wide + s.hidden, h);
        scale(s.hidden, widen(weights[of.slots[i]]), h, h);
      }
      gemm(Transpose::no, Transpose::yes, of.count, s.out, s.hidden, hidden, s.hidden,
           down + of.expert * s.out * s.hidden, s.hidden, result, s.out, false);
      for (Index i = 0; i < of.count; ++i)
        accumulate(s.out, result + i * s.out, sums + of.slots[i] / s.choices * s.out);
    });
  });
}
SHARDWISE_COMPILE(experts<float, std::int64_t>)

/// A gradient that is overwritten, or added to; null if it is not wanted.
template <class T>
struct GradientTo {
  T* data;
  bool accumulate;
};

/// The gradients of `experts`. If `projected` is null, it is computed again. An expert without tokens has the
/// gradient 0.
template <class T, class Id>
void experts_backward(const ExpertExtents& s, const T* x, const Id* ids, const T* weights, const T* gate_up,
                      const T* down, const T* projected, const T* dy, GradientTo<T> dx,
                      GradientTo<T> dweights, GradientTo<T> dgate_up, GradientTo<T> ddown) {
  struct GradientRows;
  struct GradientHidden;
  struct GradientProjected;
  const Index wide = 2 * s.hidden;
  const Index dy_ld = s.out + 16;  // rows a power of two apart would compete for the same lines of a cache
  if (dweights.data && !dweights.accumulate) fill<T>(s.tokens * s.choices, 0, dweights.data);
  detail::sum_wide(dx.data ? s.tokens * s.features : 0, dx.data, dx.accumulate, [&](compute_t<T>* sums) {
    detail::for_each_expert(s, ids, [&](const detail::SlotsOfExpert& of) {
      const T* const gate_up_here = gate_up + of.expert * wide * s.features;
      const T* const down_here = down + of.expert * s.out * s.hidden;
      const T* const rows = detail::gather_rows<detail::ExpertRows>(of, s.choices, s.features, x, s.features);
      const T* const dy_rows = detail::gather_rows<GradientRows>(of, s.choices, s.out, dy, dy_ld);
      const T* both = projected ? projected + of.row * wide : nullptr;
      if (!projected) {
        T* const again = scratch<detail::ExpertProjected, T>(of.count * wide);
        detail::project(of.count, wide, s.features, rows, gate_up_here, again);
        both = again;
      }
      T *const hidden = scratch<detail::ExpertHidden, T>(of.count * s.hidden),
               *const dhidden = scratch<GradientHidden, T>(of.count * s.hidden),
               *const dboth = scratch<GradientProjected, T>(of.count * wide);
      gemm(Transpose::no, Transpose::no, of.count, s.hidden, s.out, dy_rows, dy_ld, down_here, s.hidden,
           dhidden, s.hidden, false);
      for (Index i = 0; i < of.count; ++i) {
        const T *const gate = both + i * wide, *const up = gate + s.hidden;
        T *const h = hidden + i * s.hidden, *const dh = dhidden + i * s.hidden;
        const auto weight = widen(weights[of.slots[i]]);
        gated<Silu>(s.hidden, gate, up, h);
        if (dweights.data) {
          T& to = dweights.data[of.slots[i]];
          to = narrow<T>(widen(to) + static_cast<compute_t<T>>(dot(s.hidden, h, dh)));
        }
        scale(s.hidden, weight, h, h);
        scale(s.hidden, weight, dh, dh);
        gated_backward<Silu>(s.hidden, gate, up, dh, dboth + i * wide, dboth + i * wide + s.hidden);
      }
      const auto weight_gradient = [&](Index m, Index n, const T* left, Index ld, const T* right,
                                       GradientTo<T> to) {
        if (!to.data) return;
        gemm(Transpose::yes, Transpose::no, m, n, of.count, left, ld, right, n, to.data + of.expert * m * n,
             n, to.accumulate || !of.first);
      };
      weight_gradient(s.out, s.hidden, dy_rows, dy_ld, hidden, ddown);
      weight_gradient(wide, s.features, dboth, wide, rows, dgate_up);
      if (!dx.data) return;
      auto* const dx_rows = scratch<detail::ExpertResult, compute_t<T>>(of.count * s.features);
      gemm(Transpose::no, Transpose::no, of.count, s.features, wide, dboth, wide, gate_up_here, s.features,
           dx_rows, s.features, false);
      for (Index i = 0; i < of.count; ++i) {
        accumulate(s.features, dx_rows + i * s.features, sums + of.slots[i] / s.choices * s.features);
      }
    });
  });
}
SHARDWISE_COMPILE(experts_backward<float, std::int64_t>)

}  // namespace shardwise::kernel
