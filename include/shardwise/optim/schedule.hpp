// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Learning rates as functions of the step, counted from 0.
///
/// ```
/// const WarmupCosine schedule({.peak = 3e-4, .floor = 3e-5, .warmup = 2000, .steps = 100000});
/// adamw.settings().rate = schedule(adamw.steps());
/// adamw.step(model);
/// ```

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

namespace shardwise {

namespace detail {

constexpr void check_rate(double rate, const char* name) {
  if (!(rate >= 0 && rate <= std::numeric_limits<double>::max())) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(rate) +
                                ", which must be a number from 0 on");
  }
}
constexpr void check_step(std::int64_t step) {
  if (step < 0) {
    throw std::invalid_argument("a schedule's step is " + std::to_string(step) + ", which must be 0 or more");
  }
}

}  // namespace detail

/// The same rate at every step.
class ConstantRate {
 public:
  /// Throws `std::invalid_argument` unless the rate is finite and not negative.
  constexpr explicit ConstantRate(double rate) : rate_(rate) {
    detail::check_rate(rate, "ConstantRate: rate");
  }

  /// Throws `std::invalid_argument` if `step` is negative.
  constexpr double operator()(std::int64_t step) const {
    detail::check_step(step);
    return rate_;
  }

 private:
  double rate_;
};

struct WarmupCosineSettings {
  double peak = 1e-3;       ///< the rate where warm-up ends and decay begins
  double floor = 0;         ///< the rate where decay ends, and from there on
  std::int64_t warmup = 0;  ///< steps of warm-up
  std::int64_t steps = 1;   ///< steps until the floor is reached, those of warm-up included
};

/// Linear warm-up, then half a period of the cosine down to a floor (Loshchilov and Hutter, "SGDR", 2017), as GPT-3
/// (Brown et al., 2020) and Llama (Touvron et al., 2023) were trained:
///
///     step < warmup            peak · (step + 1) / warmup
///     warmup <= step < steps   floor + (peak - floor) · (1 + cos(π (step - warmup) / (steps - warmup))) / 2
///     steps <= step            floor
class WarmupCosine {
 public:
  /// Throws `std::invalid_argument` unless 0 <= floor <= peak, which is finite, and 0 <= warmup < steps.
  constexpr explicit WarmupCosine(const WarmupCosineSettings& settings) : settings_(settings) {
    detail::check_rate(settings.peak, "WarmupCosine: peak");
    detail::check_rate(settings.floor, "WarmupCosine: floor");
    if (settings.floor > settings.peak) {
      throw std::invalid_argument("WarmupCosine: floor is " + std::to_string(settings.floor) +
                                  ", which must not be above the peak, " + std::to_string(settings.peak));
    }
    if (settings.warmup < 0 || settings.warmup >= settings.steps) {
      throw std::invalid_argument("WarmupCosine: warmup is " + std::to_string(settings.warmup) +
                                  ", which must be from 0 to below the steps, " +
                                  std::to_string(settings.steps));
    }
  }

  /// Throws `std::invalid_argument` if `step` is negative.
  double operator()(std::int64_t step) const {
    detail::check_step(step);
    const auto& [peak, floor, warmup, steps] = settings_;
    if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
    if (step >= steps) return floor;
    const double way = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
    return floor + (peak - floor) * (1 + std::cos(std::numbers::pi * way)) / 2;
  }

 private:
  WarmupCosineSettings settings_;
};

}  // namespace shardwise
