// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions over the middle extent of a block [outer, n, inner], with results [outer, inner]; and their gradients.
/// With inner == 1 a row is folded; otherwise rows are combined, one cache-sized tile of columns at a time.
///
///     sum(outer, n, inner, x, y);                     // y[o, i] = Σ_k x[o, k, i]
///     sum_backward(outer, n, inner, dy, 1 / n, dx);   // of the mean

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/sums.hpp>

namespace shardwise::kernel {

namespace detail {

struct MiddleFactors;
struct RowTotals;

/// Columns per tile, so that results stay in the first-level cache.
inline constexpr Index column_tile = 256;

template <class F>
void column_tiles(Index columns, F f) {
  for (Index first = 0; first < columns; first += column_tile)
    f(first, std::min(column_tile, columns - first));
}

/// total[c] = Σ_r f(x[r, c]) for rows `stride` apart; blocks of 64 rows are summed in `double`, so long sums stay
/// exact. f is as in `fold`, of x and x.
template <class T, class F>
void sum_columns(Index rows, Index count, Index stride, const T* x, double* total, F f) {
  using C = compute_t<T>;
  const auto term = [f](const T& value) {
    C result;
    f(result, widen(value), widen(value));
    return result;
  };
  C part[column_tile];
  std::fill_n(total, count, 0.);
  for (Index begin = 0; begin < rows; begin += 64) {
    const Index end = std::min(rows, begin + 64);
    std::fill_n(part, count, C{0});
    Index r = begin;
    for (; r + 4 <= end; r += 4) {
      const T *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < count; ++c) {
        part[c] += (term(x0[c]) + term(x1[c])) + (term(x2[c]) + term(x3[c]));
      }
    }
    for (; r < end; ++r) {
      const T* row = x + r * stride;
      SHARDWISE_INDEPENDENT
      for (Index c = 0; c < count; ++c) part[c] += term(row[c]);
    }
    for (Index c = 0; c < count; ++c) total[c] += static_cast<double>(part[c]);
  }
}

/// y[o, i] = finish(Σ_k f(x[o, k, i]), y[o, i]), where the sum is a double.
template <class T, class Y, class F, class Finish>
void sum_middle(Index outer, Index n, Index inner, const T* x, Y* y, F f, Finish finish) {
  const auto put = [finish](double total, Y& out) {
    out = narrow<Y>(static_cast<compute_t<Y>>(finish(total, out)));
  };
  for (Index o = 0; o < outer; ++o, x += n * inner, y += inner) {
    if (inner == 1) {
      put(sum_of<compute_t<T>>(n, x, x, f), *y);
      continue;
    }
    column_tiles(inner, [&](Index first, Index count) {
      double total[column_tile];
      sum_columns(n, count, inner, x + first, total, f);
      for (Index c = 0; c < count; ++c) put(total[c], y[first + c]);
    });
  }
}

/// dx[o, k, i] = factor(o · inner + i) · x[o, k, i]
template <class T, class F>
void scale_middle(Index outer, Index n, Index inner, F factor, const T* x, T* dx) {
  using C = compute_t<T>;
  C* factors = scratch<MiddleFactors, C>(inner);
  for (Index o = 0; o < outer; ++o) {
    for (Index i = 0; i < inner; ++i) factors[i] = factor(o * inner + i);
    if (inner == 1) {
      scale(n, *factors, x, dx);
      x += n, dx += n;
      continue;
    }
    for (Index k = 0; k < n; ++k, x += inner, dx += inner) map(inner, dx, std::multiplies<>(), factors, x);
  }
}

/// Calls f(o · inner + i, p) for each element x[o, k, i], which is at p. The calls are independent of each other.
template <class F>
void each_in_middle(Index outer, Index n, Index inner, F f) {
  for (Index o = 0; o < outer; ++o) {
    if (inner == 1) {
      SHARDWISE_INDEPENDENT
      for (Index k = 0; k < n; ++k) f(o, o * n + k);
      continue;
    }
    for (Index k = 0; k < n; ++k) {
      SHARDWISE_INDEPENDENT
      for (Index i = 0; i < inner; ++i) f(o * inner + i, (o * n + k) * inner + i);
    }
  }
}

}  // namespace detail

/// y[o, i] = Σ_k x[o, k, i]
template <class T>
void sum(Index outer, Index n, Index inner, const T* x, T* y) {
  detail::sum_middle(outer, n, inner, x, y, detail::Itself{}, [](double total, const T&) { return total; });
}

/// dx[o, k, i] = factor · dy[o, i]
template <class T>
void sum_backward(Index outer, Index n, Index inner, const T* dy, compute_t<T> factor, T* dx) {
  for (Index o = 0; o < outer; ++o, dy += inner) {
    if (inner == 1) {
      fill(n, factor * widen(*dy), dx);
      dx += n;
      continue;
    }
    for (Index k = 0; k < n; ++k, dx += inner) scale(inner, factor, dy, dx);
  }
}

/// dbias[c] (+)= factor · Σ_r dy[r, c]: the gradient of a broadcast row.
template <class T>
void sum_rows(Index rows, Index cols, const T* dy, T* dbias, bool accumulate, double factor = 1) {
  detail::sum_middle(1, rows, cols, dy, dbias, detail::Itself{}, [=](double total, const T& before) {
    return factor * total + (accumulate ? static_cast<double>(widen(before)) : 0);
  });
}
SHARDWISE_COMPILE_EACH(sum_rows)

/// y[c] = Σ_r term(r · cols + c, c): the gradient of a row that was used for each row of a block.
template <class T, class F>
void sum_terms(Index rows, Index cols, T* y, F term) {
  double* totals = scratch<detail::RowTotals, double>(cols);
  std::fill_n(totals, cols, 0.);
  for (Index r = 0; r < rows; ++r) {
    SHARDWISE_INDEPENDENT
    for (Index c = 0; c < cols; ++c) totals[c] += static_cast<double>(term(r * cols + c, c));
  }
  for (Index c = 0; c < cols; ++c) y[c] = narrow<T>(static_cast<compute_t<T>>(totals[c]));
}

/// y[o, i] = max_k x[o, k, i], -∞ if n == 0; NaN if any of them is.
template <class T>
void max(Index outer, Index n, Index inner, const T* x, T* y) {
  using C = compute_t<T>;
  for (Index o = 0; o < outer; ++o, y += inner) {
    if (inner == 1) {
      *y = narrow<T>(max(n, x));
      x += n;
      continue;
    }
    fill(inner, -std::numeric_limits<C>::infinity(), y);
    for (Index k = 0; k < n; ++k, x += inner) {
      const auto larger = [](C so_far, C value) {
        detail::Larger<true>()(so_far, value);
        return so_far;
      };
      map(inner, y, larger, y, x);
    }
  }
}

/// The gradient goes to the first k with x[o, k, i] == y[o, i], if there is one; so y may be a maximum that
/// includes other blocks. If y is NaN, it goes to the first NaN.
template <class T>
void max_backward(Index outer, Index n, Index inner, const T* x, const T* y, const T* dy, T* dx) {
  fill(outer * n * inner, 0, dx);
  for (Index o = 0; o < outer; ++o, x += n * inner, dx += n * inner, y += inner, dy += inner) {
    for (Index i = 0; i < inner; ++i) {
      Index k = 0;
      const bool nan = shardwise::detail::is_nan(widen(y[i]));
      const auto found = [&](auto value) {
        return nan ? shardwise::detail::is_nan(value) : value == widen(y[i]);
      };
      while (k < n && !found(widen(x[k * inner + i]))) ++k;
      if (k < n) dx[k * inner + i] = dy[i];
    }
  }
}

/// y[o, i] is the first k with the largest x[o, k, i], where NaN counts as the largest. n must be 1 or more.
template <class T>
void argmax(Index outer, Index n, Index inner, const T* x, std::int64_t* y) {
  for (Index o = 0; o < outer; ++o, x += n * inner, y += inner) {
    std::fill_n(y, inner, 0);
    for (Index k = 1; k < n; ++k) {
      for (Index i = 0; i < inner; ++i) {
        const auto largest = widen(x[y[i] * inner + i]), value = widen(x[k * inner + i]);
        if (!(value <= largest) && !shardwise::detail::is_nan(largest)) y[i] = k;
      }
    }
  }
}

/// y[o, i] = Σ_k x[o, k, i]²
template <class T>
void sum_squares(Index outer, Index n, Index inner, const T* x, T* y) {
  detail::sum_middle(outer, n, inner, x, y, detail::Square{}, [](double total, const T&) { return total; });
}

/// dx[o, k, i] = factor · dy[o, i] · x[o, k, i]: with factor 2 the gradient of `sum_squares`.
template <class T>
void sum_squares_backward(Index outer, Index n, Index inner, const T* x, const T* dy, compute_t<T> factor,
                          T* dx) {
  detail::scale_middle(
      outer, n, inner, [=](Index i) { return factor * widen(dy[i]); }, x, dx);
}

/// y[o, i] = √(Σ_k x[o, k, i]²), the 2-norm. The squares must not overflow.
template <class T>
void norm(Index outer, Index n, Index inner, const T* x, T* y) {
  detail::sum_middle(outer, n, inner, x, y, detail::Square{},
                     [](double total, const T&) { return std::sqrt(total); });
}

/// dx = dy · x / y, and 0 where the norm y is 0.
template <class T>
void norm_backward(Index outer, Index n, Index inner, const T* x, const T* y, const T* dy, T* dx) {
  const auto quotient = [=](Index i) {
    return widen(y[i]) > 0 ? widen(dy[i]) / widen(y[i]) : compute_t<T>{0};
  };
  detail::scale_middle(outer, n, inner, quotient, x, dx);
}

/// y[o, i] = Σ_k (x[o, k, i] - mean)² / divisor. means: [2, outer, inner], the rounded means and what these lack, which
/// the gradient needs.
template <class T>
void variance(Index outer, Index n, Index inner, double divisor, const T* x, compute_t<T>* means, T* y) {
  using C = compute_t<T>;
  const double count = static_cast<double>(n);
  detail::sum_middle(outer, n, inner, x, means, detail::Itself{},
                     [count](double total, const C&) { return total / count; });
  C* rests = means + outer * inner;
  for (Index o = 0; o < outer; ++o, x += n * inner, means += inner, rests += inner, y += inner) {
    if (inner == 1) {
      const auto squares = [=](C mean, C rest) {
        return detail::sum_of<C>(n, x, x, [=](auto& term, const auto& a, const auto&) {
          deviation(term, a, mean, rest);
          term *= term;
        });
      };
      *rests = 0;
      double total = squares(*means, 0);
      if (is_far_from_zero(static_cast<double>(*means), total / count)) {
        *rests = rest_of_mean(n, x, *means);
        total = squares(*means, *rests);
      }
      *y = narrow<T>(static_cast<C>(total / divisor));
      continue;
    }
    detail::column_tiles(inner, [&](Index first, Index columns) {
      double total[detail::column_tile] = {}, rest[detail::column_tile] = {};
      for (Index k = 0; k < n; ++k) {
        for (Index c = 0; c < columns; ++c) {
          C off;
          deviation(off, widen(x[k * inner + first + c]), means[first + c]);
          total[c] += static_cast<double>(off) * static_cast<double>(off);
          rest[c] += static_cast<double>(off);
        }
      }
      for (Index c = 0; c < columns; ++c) {
        rests[first + c] = static_cast<C>(rest[c] / count);
        const double squares = std::max(total[c] - rest[c] * rest[c] / count, 0.);  // or NaN
        y[first + c] = narrow<T>(static_cast<C>(squares / divisor));
      }
    });
  }
}

/// dx[o, k, i] = 2 / divisor · dy[o, i] · (x[o, k, i] - mean)
template <class T>
void variance_backward(Index outer, Index n, Index inner, double divisor, const T* x,
                       const compute_t<T>* means, const T* dy, T* dx) {
  const auto factor = static_cast<compute_t<T>>(2 / divisor);
  const compute_t<T>* rests = means + outer * inner;
  detail::each_in_middle(outer, n, inner, [=](Index j, Index at) {
    compute_t<T> off;
    deviation(off, widen(x[at]), means[j], rests[j]);
    dx[at] = narrow<T>(factor * widen(dy[j]) * off);
  });
}

namespace detail {

struct TopKValues;
struct TopKGroups;
struct TopKTaken;

/// Returns the index of the largest element that is not yet taken, and takes it. Of equal ones it is the first; NaN is
/// the largest.
template <class C>
Index take_largest(Index n, const C* x, bool* taken) {
  Index best = -1;
  for (Index i = 0; i < n; ++i) {
    if (taken[i] || (best >= 0 && !(x[i] > x[best] || (std::isnan(x[i]) && !std::isnan(x[best]))))) continue;
    best = i;
  }
  taken[best] = true;
  return best;
}

}  // namespace detail

/// ids[r, :]: the indices of the k largest of the n elements of row r, the largest first. With `groups` runs of n /
/// groups elements, they are from the `kept` groups in which the two largest elements have the largest sums.
template <class T, class Id>
void top_k(Index rows, Index n, Index k, Index groups, Index kept, const T* x, Id* ids,
           const compute_t<T>* bias = nullptr) {
  using C = compute_t<T>;
  const Index size = n / groups;
  C *const values = scratch<detail::TopKValues, C>(n), *const sums = scratch<detail::TopKGroups, C>(groups);
  bool* const taken = scratch<detail::TopKTaken, bool>(n + groups);
  bool* const kept_group = taken + n;
  for (Index r = 0; r < rows; ++r, x += n, ids += k) {
    for (Index i = 0; i < n; ++i) values[i] = bias ? widen(x[i]) + bias[i] : widen(x[i]);
    std::fill_n(taken, n + groups, false);
    if (kept < groups) {
      for (Index g = 0; g < groups; ++g) {
        const C* const group = values + g * size;
        sums[g] = group[detail::take_largest(size, group, taken + g * size)];
        if (size > 1) sums[g] += group[detail::take_largest(size, group, taken + g * size)];
      }
      for (Index i = 0; i < kept; ++i) detail::take_largest(groups, sums, kept_group);
      for (Index i = 0; i < n; ++i) taken[i] = !kept_group[i / size];
    }
    for (Index j = 0; j < k; ++j) ids[j] = static_cast<Id>(detail::take_largest(n, values, taken));
  }
}
SHARDWISE_COMPILE(top_k<float, std::int64_t>)

/// y[o, k, i] = x[o, k, i] / max(‖x[o, :, i]‖₂, epsilon); norms: [outer, inner], these divisors.
template <class T>
void normalize(Index outer, Index n, Index inner, double epsilon, const T* x, compute_t<T>* norms, T* y) {
  detail::sum_middle(outer, n, inner, x, norms, detail::Square{},
                     [epsilon](double total, const auto&) { return std::max(std::sqrt(total), epsilon); });
  detail::each_in_middle(outer, n, inner,
                         [=](Index j, Index at) { y[at] = narrow<T>(widen(x[at]) / norms[j]); });
}

/// dx = (dy - y · Σ_k y · dy) / norm; and dy / epsilon where x is shorter than that.
template <class T>
void normalize_backward(Index outer, Index n, Index inner, double epsilon, const T* y,
                        const compute_t<T>* norms, const T* dy, T* dx) {
  using C = compute_t<T>;
  C* along = scratch<detail::MiddleFactors, C>(outer * inner);  // Σ_k y · dy
  for (Index o = 0; o < outer; ++o) {
    std::fill_n(along + o * inner, inner, C{0});
    if (inner == 1) along[o] = static_cast<C>(dot(n, y + o * n, dy + o * n));
    for (Index k = 0; inner > 1 && k < n; ++k) {
      const Index row = (o * n + k) * inner;
      for (Index i = 0; i < inner; ++i) along[o * inner + i] += widen(y[row + i]) * widen(dy[row + i]);
    }
  }
  for (Index j = 0; j < outer * inner; ++j) {
    if (norms[j] <= static_cast<C>(epsilon)) along[j] = 0;
  }
  detail::each_in_middle(outer, n, inner, [=](Index j, Index at) {
    dx[at] = narrow<T>((widen(dy[at]) - widen(y[at]) * along[j]) / norms[j]);
  });
}

}  // namespace shardwise::kernel
