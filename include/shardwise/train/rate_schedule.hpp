// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The learning rate as a function of the step, counted from 0, so no state must be saved.
///
/// ```
/// const RateSchedule schedule(
///     {.decay = Decay::cosine, .peak = 3e-4, .floor = 3e-5, .warmup = 2000, .steps = 100000});
/// adamw.set_rate(schedule(adamw.steps()));
/// adamw.step(model);
/// ```

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <type_traits>

#include <shardwise/base/text.hpp>

namespace shardwise {

/// How the rate decreases after the warm-up: not at all, linearly, or along half a period of the cosine.
enum class Decay { constant, linear, cosine };

/// The name that `parse_decay` reads.
constexpr const char* name_of(Decay decay) {
  if (decay == Decay::constant) return "constant";
  return decay == Decay::linear ? "linear" : "cosine";
}

/// The decay with that name. Throws `std::invalid_argument`, listing the names, if there is none.
constexpr Decay parse_decay(std::string_view name) {
  for (Decay decay : {Decay::constant, Decay::linear, Decay::cosine}) {
    if (name == name_of(decay)) return decay;
  }
  detail::fail({"\"", name, "\" is not a learning-rate decay: choose constant, linear or cosine"});
}

struct RateScheduleSettings {
  Decay decay = Decay::constant;
  double peak = 1e-3;             ///< the rate where warm-up ends and decay begins
  double floor = 0;               ///< the rate at the end of the decay, and afterwards; unused if constant
  std::int64_t warmup = 0;        ///< steps of warm-up
  std::int64_t steps = 0;         ///< steps until the floor is reached, including warm-up; unused if constant
  std::optional<double> first{};  ///< the rate of the first warm-up step as a fraction of the peak
};

/// Linear warm-up, then the decay:
///
///     step < warmup            peak · (step + 1) / warmup, or peak · (first + (1 - first) · step / warmup)
///     warmup <= step < steps   floor + (peak - floor) · share
///     steps <= step            floor
///
/// where the share, with `way` = (step - warmup) / (steps - warmup), is
///
///     linear   1 - way
///     cosine   (1 + cos(π way)) / 2
///
/// and a constant rate stays at the peak. The cosine is that of Loshchilov and Hutter ("SGDR", 2017), with which GPT-3
/// (Brown et al., 2020) and Llama (Touvron et al., 2023) were trained; the linear decay is that of BERT (Devlin et al.,
/// 2019) and of transformers' `get_linear_schedule_with_warmup`. That function's warm-up lags by one step: its first
/// step has rate 0 and changes no weight; use `first` = 0 for it, and other values of `first` for PyTorch's `LinearLR`.
class RateSchedule {
 public:
  /// Throws `std::invalid_argument` unless 0 <= floor <= peak (finite), 0 <= first <= 1, and 0 <= warmup; and, if
  /// the rate decays, warmup < steps.
  constexpr explicit RateSchedule(const RateScheduleSettings& settings) : settings_(settings) {
    const auto& [decay, peak, floor, warmup, steps, first] = settings_;
    check_rate(peak, "peak");
    check_rate(floor, "floor");
    if (floor > peak)
      detail::fail({"RateSchedule: floor is ", floor, ", which must not be above the peak, ", peak});
    if (first && !(*first >= 0 && *first <= 1))
      detail::fail({"RateSchedule: first is ", *first, ", which must be a part of the peak, from 0 to 1"});
    if (warmup < 0) detail::fail({"RateSchedule: warmup is ", warmup, ", which must be 0 or more"});
    if (decay != Decay::constant && warmup >= steps)
      detail::fail({"RateSchedule: warmup is ", warmup, ", which must be below the steps, ", steps});
  }

  /// The rate at a step. Throws `std::invalid_argument` if `step` is negative.
  constexpr double operator()(std::int64_t step) const {
    const auto& [decay, peak, floor, warmup, steps, first] = settings_;
    if (step < 0) detail::fail({"RateSchedule: step is ", step, ", which must be 0 or more"});
    if (step < warmup) {
      const double begin = first.value_or(0), done = static_cast<double>(step + (first ? 0 : 1));
      return peak * (begin + (1 - begin) * done / static_cast<double>(warmup));
    }
    if (decay == Decay::constant) return peak;
    if (step >= steps) return floor;
    const auto all = static_cast<double>(steps - warmup);
    if (decay == Decay::linear) return floor + (peak - floor) * (static_cast<double>(steps - step) / all);
    return floor + (peak - floor) * (1 + cosine(static_cast<double>(step - warmup) / all)) / 2;
  }

 private:
  static constexpr void check_rate(double rate, const char* name) {
    if (!(rate >= 0 && rate <= std::numeric_limits<double>::max()))
      detail::fail({"RateSchedule: ", name, " is ", rate, ", which must be a number from 0 on"});
  }

  static constexpr double cosine(double way) {
    if (!__builtin_is_constant_evaluated()) return std::cos(std::numbers::pi * way);
    const double angle = std::numbers::pi * (0.5 - way);  // the sine's series: std::cos is not constexpr
    double term = angle, sum = angle;
    for (int n = 2; n < 26; n += 2) sum += term *= -angle * angle / (n * (n + 1));
    return sum;
  }

  RateScheduleSettings settings_;
};

}  // namespace shardwise
