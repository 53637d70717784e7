// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A line per progress: step, loss, tokens per second, and the time that is left.

#include <chrono>
#include <cstdio>
#include <string>

namespace examples {

class Progress {
 public:
  /// `style`: "line" is written over, "plain" is a new line now and then.
  Progress(bool prints, const std::string& style, int steps, std::ptrdiff_t tokens_a_step)
      : prints_(prints),
        in_place_(style == "line"),
        steps_(steps),
        tokens_(static_cast<double>(tokens_a_step)) {}

  void show(int step, double loss) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const bool last = step == steps_;
    const double interval = in_place_ ? 0.1 : 5;
    if (!prints_ || (!last && step > 1 && seconds - shown_ < interval)) return;
    shown_ = seconds;
    const double left = seconds / step * (steps_ - step);
    std::printf("%sstep %*d/%d  loss %.4f  %6.0f tokens/s  ETA %d:%02d%s", in_place_ ? "\r" : "",
                static_cast<int>(std::to_string(steps_).size()), step, steps_, loss, tokens_ * step / seconds,
                static_cast<int>(left) / 60, static_cast<int>(left) % 60, in_place_ && !last ? "   " : "\n");
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool prints_, in_place_;
  int steps_;
  double tokens_;
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

}  // namespace examples
