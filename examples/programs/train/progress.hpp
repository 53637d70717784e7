// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Progress lines: step, loss, learning rate, gradient norm, tokens per second, remaining time, and epochs.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace tools {

class Progress {
 public:
  struct Values {
    double loss = 0, rate = 0, norm = 0;
    std::optional<double> epoch = {};  ///< if steps do not tell it
  };

  /// `style`: "line" overwrites one line, "plain" prints a new line at intervals. `done` of `steps` steps were made
  /// earlier.
  Progress(bool prints, const std::string& style, std::int64_t steps, std::ptrdiff_t tokens_a_step,
           std::int64_t steps_an_epoch, std::int64_t done = 0)
      : prints_(prints),
        in_place_(style == "line"),
        steps_(steps),
        before_(done),
        tokens_(static_cast<double>(tokens_a_step)),
        epoch_(static_cast<double>(steps_an_epoch)) {}

  /// After `step` steps.
  void show(std::int64_t step, const Values& values) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const bool last = step == steps_;
    const double interval = in_place_ ? 0.1 : 5;
    if (!prints_ || (!last && step > before_ + 1 && seconds - shown_ < interval)) return;
    shown_ = seconds;
    const double done = static_cast<double>(step - before_),
                 left = seconds / done * static_cast<double>(steps_ - step);
    const std::string all = std::to_string(steps_), now = std::to_string(step);
    std::printf("%sstep %*s/%s  loss %.4f  rate %.2e  norm %.2f  %6.0f tokens/s  ETA %d:%02d  epoch %.2f",
                in_place_ ? "\r" : "", static_cast<int>(all.size()), now.c_str(), all.c_str(), values.loss,
                values.rate, values.norm, tokens_ * done / seconds, static_cast<int>(left) / 60,
                static_cast<int>(left) % 60, values.epoch.value_or(static_cast<double>(step) / epoch_));
    if (!values.epoch) std::printf("/%.2f", static_cast<double>(steps_) / epoch_);
    std::printf("%s", in_place_ && !last ? "   " : "\n");
    std::fflush(stdout);
    pending_ = in_place_ && !last;
  }

  /// After `step` steps: the mean loss of the held-out tokens.
  void show_held_out(std::int64_t step, double loss, bool best) {
    if (!prints_) return;
    const double perplexity = std::exp(loss);
    std::printf("%sheld out, after %lld steps: loss %.4f  perplexity ", pending_ ? "\n" : "",
                static_cast<long long>(step), loss);
    std::printf(perplexity < 1e6 ? "%.3f%s\n" : "%.3g%s\n", perplexity, best ? "  (the best so far)" : "");
    std::fflush(stdout);
    pending_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool prints_, in_place_;
  std::int64_t steps_, before_;
  double tokens_, epoch_;
  bool pending_ = false;  // an unfinished line
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

}  // namespace tools
