// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rotary position embeddings (Su et al., "RoFormer", 2021): numbers i and i + head_dim/2 of a head form a point in
/// the plane ("rotate half", as in Hugging Face's models), which is rotated by position · ω_i with ω_i = theta^(-2i
/// / head_dim).

#include <algorithm>
#include <array>
#include <numbers>
#include <optional>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

/// Names as in Hugging Face's configurations.
enum class RopeType {
  linear,  ///< all frequencies divided by `factor` (Chen et al., "Position interpolation", 2023)
  llama3,  ///< only low frequencies, with a smooth transition (Llama 3.1)
};

/// How frequencies are lowered for sequences longer than those of pre-training. All members except `factor` apply
/// to `llama3`: frequencies with fewer than `low_freq_factor` periods in the original context are divided by
/// `factor`, those with more than `high_freq_factor` are kept.
struct RopeScaling {
  RopeType rope_type = RopeType::llama3;
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  Index original_max_position_embeddings = 8192;

  friend constexpr bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// ω_i in radians per position.
inline double rope_frequency(Index i, Index head_dim, double theta,
                             const std::optional<RopeScaling>& scaling) {
  const double frequency = std::pow(theta, -2 * static_cast<double>(i) / static_cast<double>(head_dim));
  if (!scaling) return frequency;
  const double slow = frequency / scaling->factor;
  if (scaling->rope_type == RopeType::linear) return slow;
  const double waves =
      static_cast<double>(scaling->original_max_position_embeddings) * frequency / (2 * std::numbers::pi);
  if (waves < scaling->low_freq_factor) return slow;
  if (waves > scaling->high_freq_factor) return frequency;
  const double kept =
      (waves - scaling->low_freq_factor) / (scaling->high_freq_factor - scaling->low_freq_factor);
  return (1 - kept) * slow + kept * frequency;
}

/// The parameters of the angles, except the position.
struct RopeFrequencies {
  Index head_dim;
  double theta;
  std::optional<RopeScaling> scaling;

  friend bool operator==(const RopeFrequencies&, const RopeFrequencies&) = default;
};

namespace detail {

/// Cached cosines and sines, across layers and steps: each thread keeps the four tables used last.
template <class C>
class RopeTables {
 public:
  /// For each position from `first` on: head_dim/2 cosines, then as many sines.
  const C* find(const RopeFrequencies& frequencies, Index first, Index count) {
    for (const Table& table : tables_) {
      if (table.frequencies == frequencies && table.first <= first && first + count <= table.end) {
        return table.values.data() + (first - table.first) * frequencies.head_dim;
      }
    }
    Table& table = tables_[oldest_];
    oldest_ = (oldest_ + 1) % tables_.size();
    table.frequencies = frequencies;
    table.first = first / page * page;
    table.end = (first + count + page - 1) / page * page;
    fill(table);
    return table.values.data() + (first - table.first) * frequencies.head_dim;
  }

 private:
  static constexpr Index page = 256;  ///< so that decoding does not build a table per token

  struct Table {
    RopeFrequencies frequencies{};
    Index first = 0, end = 0;
    std::vector<C> values;
  };

  static void fill(Table& table) {
    const auto& [head_dim, theta, scaling] = table.frequencies;
    const Index half = head_dim / 2;
    table.values.resize(static_cast<std::size_t>((table.end - table.first) * head_dim));
    for (Index i = 0; i < half; ++i) {
      const double frequency = rope_frequency(i, head_dim, theta, scaling);
      C* value = table.values.data() + i;
      for (Index position = table.first; position < table.end; ++position, value += head_dim) {
        const double angle = static_cast<double>(position) * frequency;
        value[0] = static_cast<C>(std::cos(angle));
        value[half] = static_cast<C>(std::sin(angle));
      }
    }
  }

  std::array<Table, 4> tables_;
  std::size_t oldest_ = 0;
};

}  // namespace detail

enum class Rotation : bool { forward, back };

/// x, y: [batch, sequence, heads, head_dim], head_dim even; `first_position` ≥ 0 is that of the sequence's first
/// element. `Rotation::back` rotates the other way: the inverse, and the gradient. `accumulate` adds the result to y;
/// otherwise y may be x. `positions`: [batch, sequence], relative to `first_position`, if they are not 0, 1, 2, …
template <class T>
void rope(Index batch, Index sequence, Index heads, const RopeFrequencies& frequencies, Index first_position,
          Rotation rotation, const T* x, T* y, bool accumulate = false, const Index* positions = nullptr) {
  using C = compute_t<T>;
  const Index head_dim = frequencies.head_dim, half = head_dim / 2;
  if (batch * sequence * heads * half == 0) return;
  thread_local detail::RopeTables<C> tables;
  const Index count = positions ? 1 + *std::max_element(positions, positions + batch * sequence) : sequence;
  const C* table = tables.find(frequencies, first_position, count);
  const C direction = rotation == Rotation::forward ? C{1} : C{-1};
  for (Index row = 0; row < batch * sequence; ++row) {
    const C *cosine = table + (positions ? positions[row] : row % sequence) * head_dim, *sine = cosine + half;
    for (Index h = 0; h < heads; ++h, x += head_dim, y += head_dim) {
      SHARDWISE_INDEPENDENT
      for (Index i = 0; i < half; ++i) {
        const C a = widen(x[i]), b = widen(x[i + half]), s = direction * sine[i];
        const C turned_a = a * cosine[i] - b * s, turned_b = b * cosine[i] + a * s;
        y[i] = narrow<T>(accumulate ? widen(y[i]) + turned_a : turned_a);
        y[i + half] = narrow<T>(accumulate ? widen(y[i + half]) + turned_b : turned_b);
      }
    }
  }
}
SHARDWISE_COMPILE_EACH(rope)

}  // namespace shardwise::kernel
