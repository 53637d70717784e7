// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rotary position embeddings (Su et al., "RoFormer", 2021): numbers i and i + head_dim/2 of a head form a point in
/// the plane ("rotate half", as in Hugging Face's models), which is rotated by position · ω_i with ω_i = theta^(-2i
/// / head_dim). Interleaved, the points are numbers 2i and 2i + 1.

#include <algorithm>
#include <array>
#include <numbers>
#include <optional>

#include <shardwise/kernel/element.hpp>
#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::kernel {

/// Names as in Hugging Face's configurations.
enum class RopeType {
  linear,  ///< all frequencies divided by `factor` (Chen et al., "Position interpolation", 2023)
  llama3,  ///< only low frequencies, with a smooth transition (Llama 3.1)
  yarn,    ///< the same with another transition, and queries and keys are scaled (Peng et al., "YaRN", 2023)
};

/// How frequencies are lowered for sequences longer than those of pre-training. With `llama3`, frequencies with fewer
/// than `low_freq_factor` periods in the original context are divided by `factor`, those with more than
/// `high_freq_factor` are kept. With `yarn`, these limits are `beta_slow` and `beta_fast`.
struct RopeScaling {
  RopeType rope_type = RopeType::llama3;
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  Index original_max_position_embeddings = 8192;
  double beta_fast = 32, beta_slow = 1;
  double mscale = 0, mscale_all_dim = 0;  ///< of `yarn`, see `amplitude`

  /// The factor of the cosines and sines.
  double amplitude() const {
    if (rope_type != RopeType::yarn) return 1;
    return mscale != 0 && mscale_all_dim != 0 ? magnitude(mscale) / magnitude(mscale_all_dim) : magnitude(1);
  }
  double magnitude(double weight) const { return factor > 1 ? 0.1 * weight * std::log(factor) + 1 : 1; }

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
  if (scaling->rope_type == RopeType::yarn) {
    const double all = static_cast<double>(head_dim);
    const auto number_with = [&](double periods) {  // the i whose frequency has so many periods
      const double length = static_cast<double>(scaling->original_max_position_embeddings);
      return all * std::log(length / (periods * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    const double first = std::max(std::floor(number_with(scaling->beta_fast)), 0.0),
                 last = std::min(std::ceil(number_with(scaling->beta_slow)), all - 1);
    const double width = first == last ? 0.001 : last - first;
    const double lowered = std::clamp((static_cast<double>(i) - first) / width, 0.0, 1.0);
    return lowered * slow + (1 - lowered) * frequency;
  }
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
    const double amplitude = scaling ? scaling->amplitude() : 1;
    table.values.resize(static_cast<std::size_t>((table.end - table.first) * head_dim));
    for (Index i = 0; i < half; ++i) {
      const double frequency = rope_frequency(i, head_dim, theta, scaling);
      C* value = table.values.data() + i;
      for (Index position = table.first; position < table.end; ++position, value += head_dim) {
        const double angle = static_cast<double>(position) * frequency;
        value[0] = static_cast<C>(amplitude * std::cos(angle));
        value[half] = static_cast<C>(amplitude * std::sin(angle));
      }
    }
  }

  std::array<Table, 4> tables_;
  std::size_t oldest_ = 0;
};

}  // namespace detail

/// By an angle, or by its opposite, as gradients are.
enum class Rotation : bool { forward, back };

/// The numbers of a head before those that are rotated, and how the latter form points.
struct RopeHead {
  Index unchanged = 0;
  bool interleaved = false;
};

namespace detail {

/// Rotates the points (x[i · Step], x[i · Step + apart]).
template <Index Step, class T, class C = compute_t<T>>
void rotate_head(Index points, Index apart, const C* cosine, const C* sine, C direction, const T* x, T* y,
                 bool accumulate) {
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < points; ++i) {
    const C a = widen(x[i * Step]), b = widen(x[i * Step + apart]), s = direction * sine[i];
    const C turned_a = a * cosine[i] - b * s, turned_b = b * cosine[i] + a * s;
    y[i * Step] = narrow<T>(accumulate ? widen(y[i * Step]) + turned_a : turned_a);
    y[i * Step + apart] = narrow<T>(accumulate ? widen(y[i * Step + apart]) + turned_b : turned_b);
  }
}

}  // namespace detail

/// x, y: [batch, sequence, heads, head.unchanged + head_dim], head_dim even; `first_position` ≥ 0 is that of the
/// sequence's first element. `Rotation::back` rotates the other way: the gradient. `accumulate` adds the result to y;
/// otherwise y may be x. `positions`: [batch, sequence], relative to `first_position`, if they are not 0, 1, 2, …
template <class T>
void rope(Index batch, Index sequence, Index heads, const RopeFrequencies& frequencies, Index first_position,
          Rotation rotation, const T* x, T* y, bool accumulate = false, const Index* positions = nullptr,
          const RopeHead& head = {}) {
  using C = compute_t<T>;
  const Index head_dim = frequencies.head_dim, half = head_dim / 2, unchanged = head.unchanged;
  if (batch * sequence * heads * half == 0) return;
  thread_local detail::RopeTables<C> tables;
  Index least = 0, end = sequence;
  if (positions) {
    const auto [first, last] = std::minmax_element(positions, positions + batch * sequence);
    least = *first;
    end = *last + 1;
  }
  const C* table = tables.find(frequencies, first_position + least, end - least);
  const C direction = rotation == Rotation::forward ? C{1} : C{-1};
  for (Index row = 0; row < batch * sequence; ++row) {
    const C *cosine = table + (positions ? positions[row] - least : row % sequence) * head_dim,
            *sine = cosine + half;
    for (Index h = 0; h < heads; ++h, x += head_dim, y += head_dim) {
      for (Index i = 0; i < unchanged; ++i, ++x, ++y) *y = accumulate ? narrow<T>(widen(*y) + widen(*x)) : *x;
      if (head.interleaved) {
        detail::rotate_head<2>(half, 1, cosine, sine, direction, x, y, accumulate);
      } else {
        detail::rotate_head<1>(half, half, cosine, sine, direction, x, y, accumulate);
      }
    }
  }
}
SHARDWISE_LLM_COMPILE(rope<float>)
SHARDWISE_LLM_COMPILE(rope<Eigen::bfloat16>)

}  // namespace shardwise::llm::kernel
