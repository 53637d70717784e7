// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Progress of work on files, on stderr, so that stdout only has results; and interruption by signals.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <shardwise/base/index.hpp>

namespace tools {

namespace sw = shardwise;

namespace detail {
inline volatile std::sig_atomic_t caught_signal = 0;
}

/// "12.35 MB": powers of 1000, as for disks.
inline std::string size_text(sw::Index bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes) * 1e-3;
  const char* unit = "kMGTPE";
  for (; value >= 999.995 && unit[1] != '\0'; ++unit) value *= 1e-3;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %cB", value, *unit);
  return text;
}

/// A signal interrupted the work. Partial results have been removed.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  const char* what() const noexcept override { return "interrupted"; }
  /// As in shells.
  int exit_code() const noexcept { return 128 + signal_; }

 private:
  int signal_;
};

/// Bytes done and in total, speed, and remaining time: on a terminal one line that is overwritten, elsewhere a new
/// line at intervals, and one at the end.
class ByteProgress {
 public:
  /// `verb`: "copied". From now on SIGINT, SIGTERM and SIGHUP make `show` throw.
  explicit ByteProgress(const char* verb) : verb_(verb) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      std::signal(signal, [](int caught) { detail::caught_signal = caught; });
    }
  }
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;
  /// Ends the line, so that later output begins a new one.
  ~ByteProgress() {
    if (pending_) std::fputc('\n', stderr);
  }

  /// Throws `Interrupted` after a signal.
  void show(sw::Index done, sw::Index all) {
    if (detail::caught_signal != 0) throw Interrupted(detail::caught_signal);
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const bool last = done == all;
    if (!last && seconds - shown_ < (in_place_ ? 0.1 : 5)) return;
    shown_ = seconds;
    const double now = static_cast<double>(done) * 1e-6, whole = static_cast<double>(all) * 1e-6;
    const auto left = static_cast<long>(seconds / now * (whole - now));
    std::fprintf(stderr, "%s%s %.1f of %.1f MB  %.0f MB/s  ETA %ld:%02ld%s", in_place_ ? "\r" : "", verb_,
                 now, whole, now / seconds, left / 60, left % 60, in_place_ && !last ? "   " : "\n");
    pending_ = in_place_ && !last;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const char* verb_;
  bool in_place_ = ::isatty(STDERR_FILENO) != 0, pending_ = false;
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

}  // namespace tools
