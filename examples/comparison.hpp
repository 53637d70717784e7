// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Comparison with a dense computation.

#include <cstdio>

#include <shardwise/tensor/distribute.hpp>

namespace examples {

namespace sw = shardwise;

using Dense = sw::RowMajorMatrix<double>;

/// The whole tensor on every rank, in double. Collective.
template <class X>
Dense dense(const X& tensor) {
  return sw::full_tensor(tensor).template cast<double>();
}

/// Collects and prints errors relative to the largest element, and says whether all are within the tolerance.
class Comparison {
 public:
  Comparison(bool prints, double tolerance) : prints_(prints), tolerance_(tolerance) {
    if (prints_) std::printf("largest relative errors against a dense computation in double\n");
  }
  void add(const char* what, const Dense& found, const Dense& expected) {
    const double error = (found - expected).cwiseAbs().maxCoeff() / expected.cwiseAbs().maxCoeff();
    const bool good = error <= tolerance_;  // false for NaN
    within_ = within_ && good;
    if (prints_) std::printf("  %-28s %.2e%s\n", what, error, good ? "" : "   TOO LARGE");
  }
  bool within() const {
    if (prints_)
      std::printf("%s the tolerance of %.0e\n", within_ ? "all within" : "NOT all within", tolerance_);
    return within_;
  }

 private:
  bool prints_;
  double tolerance_;
  bool within_ = true;
};

}  // namespace examples
