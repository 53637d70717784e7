// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/time.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernel/reference.hpp"
#include "shardwise/kernel/gemm.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::testing;

using kernel::Transpose;

/// What products may err by.
struct Error {
  double sum;           ///< times the sum of the magnitudes of what is added up, in any order
  double rounding = 0;  ///< times the result
};

/// Checks each element of C, of type `Out`. Stored rows are longer by `gap`, those of B by twice as much.
template <class T, class Out>
void check_product(Transpose ta, Transpose tb, Index m, Index n, Index k, Index gap, bool accumulate,
                   const Error& error) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(gap);
  CAPTURE(accumulate);
  const bool turn_a = ta == Transpose::yes, turn_b = tb == Transpose::yes;
  const Index lda = (turn_a ? m : k) + gap, ldb = (turn_b ? k : n) + 2 * gap, ldc = n + gap;
  const auto a = numbers<T>((turn_a ? k : m) * lda, 1), b = numbers<T>((turn_b ? n : k) * ldb, 2);
  const auto before = numbers<Out>(m * ldc, 3);
  auto c = before;
  if (!accumulate && m * n > 0) c[0] = std::numeric_limits<Out>::quiet_NaN();  // must not be read
  kernel::gemm(ta, tb, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, accumulate);
  Index wrong = 0, written_beside = 0;
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < ldc; ++j) {
      const double got = static_cast<double>(c[at(i * ldc + j)]),
                   old = static_cast<double>(before[at(i * ldc + j)]);
      if (j >= n) {
        written_beside += got != old;
        continue;
      }
      double sum = accumulate ? old : 0, magnitude = std::abs(sum);
      for (Index l = 0; l < k; ++l) {
        const double product = static_cast<double>(a[at(turn_a ? l * lda + i : i * lda + l)]) *
                               static_cast<double>(b[at(turn_b ? j * ldb + l : l * ldb + j)]);
        sum += product;
        magnitude += std::abs(product);
      }
      wrong += !(std::abs(got - sum) <= error.sum * magnitude + error.rounding * std::abs(sum));
    }
  }
  CHECK(wrong == 0);
  CHECK(written_beside == 0);
}

template <class T, class Out = T>
void check_products(const Error& error) {
  const Index sizes[][3] = {{1, 1, 1},    {1, 7, 40},    {1, 5000, 6},   {9, 1, 70}, {2, 3, 4},
                            {33, 17, 65}, {64, 128, 16}, {130, 70, 300}, {5, 6, 0},  {0, 6, 5},
                            {6, 0, 5},    {1, 6, 0},     {31, 66, 5003}};
  for (auto ta : {Transpose::no, Transpose::yes}) {
    for (auto tb : {Transpose::no, Transpose::yes}) {
      for (const auto& size : sizes) {
        for (const Index gap : {0, 3}) {
          check_product<T, Out>(ta, tb, size[0], size[1], size[2], gap, false, error);
          check_product<T, Out>(ta, tb, size[0], size[1], size[2], gap, true, error);
        }
      }
    }
  }
}

TEST_CASE("gemm agrees with three loops in every form") {
  MESSAGE("matrix products by " << std::string(kernel::gemm_name()));
  check_products<double>({1e-14});
  check_products<float>({1e-6});
}

TEST_CASE("products of bfloat16 are added up in float, and rounded once") {
  check_products<Eigen::bfloat16>({1e-6, 1. / 256});
  check_products<Eigen::bfloat16, float>({1e-6});
}

TEST_CASE("more kinds of products than are kept") {
  for (int round = 0; round < 2; ++round) {
    for (Index n = 2; n < 90; ++n) {
      check_product<Eigen::bfloat16, float>(Transpose::no, Transpose::yes, 3, n, 8, 0, false, {1e-6});
    }
  }
}

/// Signals arrive while it lives, one every 50 µs of this process's time.
class ManySignals {
 public:
  ManySignals() {
    before_ = ::signal(SIGVTALRM, [](int) { arrived = arrived + 1; });
    set_period(50);
  }
  ManySignals(const ManySignals&) = delete;
  ManySignals& operator=(const ManySignals&) = delete;
  ~ManySignals() {
    set_period(0);
    ::signal(SIGVTALRM, before_);
  }
  static inline volatile sig_atomic_t arrived = 0;

 private:
  static void set_period(suseconds_t microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
  }
  void (*before_)(int);
};

template <class T>
void multiply_while_signals_arrive() {
  const Index n = 48, k = 512;  // oneDNN's workspace is on the heap if k is large
  const auto a = numbers<T>(n * k, 1), b = numbers<T>(n * k, 2);
  std::vector<T> expected(at(n * n)), c(at(n * n));
  const auto multiply = [&](std::vector<T>& to) {
    kernel::gemm(Transpose::yes, Transpose::yes, n, n, k, a.data(), n, b.data(), k, to.data(), n, false);
  };
  multiply(expected);
  ManySignals::arrived = 0;
  const ManySignals signals;
  using Clock = std::chrono::steady_clock;
  long wrong = 0;
  // The timer counts this process's own time, of which a busy machine gives little.
  const auto begin = Clock::now();
  const auto since_begin = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (since_begin() < 0.3 || (ManySignals::arrived <= 10 && since_begin() < 30)) {
    multiply(c);
    wrong += c != expected;
  }
  CHECK(wrong == 0);
  CHECK(ManySignals::arrived > 10);
}

TEST_CASE("a signal that arrives during a product harms nothing, and is handled after it") {
  multiply_while_signals_arrive<float>();
  multiply_while_signals_arrive<Eigen::bfloat16>();
}

}  // namespace
