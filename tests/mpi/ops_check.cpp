// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What ops_check.hpp does without knowing types; compiled once for all programs.

#include "ops_check.hpp"

#include <support/elements.hpp>

namespace shardwise::testing {

using detail::AnyTensor;

double difference(const Dense& found, const Dense& expected) {
  REQUIRE(found.shape == expected.shape);
  double largest = 0, off = 0;
  for (Index i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return HUGE_VAL;
    largest = std::max(largest, std::abs(expected[i]));
    off = std::max(off, std::abs(found[i] - expected[i]));
  }
  return off / (largest > 0 ? largest : 1);
}

namespace {

/// This rank's share of the value in a pending sum: shares differ from rank to rank and add up to 1.
double share(const AnyTensor& x) {
  double part = 1;
  for (int axis = 0; axis < x.layout.axes; ++axis) {
    const double ranks = x.mesh.sizes()[axis], rank = x.mesh.coordinates()[axis];
    if (x.layout[axis] == partial_sum) part *= 2 * (rank + 1) / (ranks * (ranks + 1));
  }
  return part;
}

}  // namespace

void place(const AnyTensor& x, const Dense& all) {
  with_elements(x, [&]<class T>(T* block) {
    detail::for_each_run(detail::view_of(x), [&](Index local, Index global, Index count) {
      for (Index i = 0; i < count; ++i) block[local + i] = static_cast<T>(all[global + i] * share(x));
    });
  });
}

Dense gather(const AnyTensor& x) {
  const AnyTensor whole = detail::redistributed_to(x, everywhere(x.layout.axes, replicate), x.type);
  Dense all(x.extents());
  with_elements(whole, [&](const auto* values) {
    for (Index i = 0; i < all.size(); ++i) all[i] = static_cast<double>(values[i]);
  });
  return all;
}

Dense random_dense(std::vector<Index> shape, std::uint64_t seed) {
  Dense all(std::move(shape));
  kernel::fill_normal(all.size(), seed, 0, 0., 1., all.values.data());
  return all;
}
Dense random_integers(std::vector<Index> shape, Index bound, std::uint64_t seed) {
  Dense all(std::move(shape));
  kernel::fill_uniform(all.size(), seed, 0, 0., static_cast<double>(bound), all.values.data());
  for (double& value : all.values) value = std::floor(value);
  return all;
}

namespace {

/// d(Σ weights · f(inputs)) / d inputs[which], by central differences, which the ranks share among them.
Dense numerical_gradient(const Checked& op, std::vector<Dense> inputs, const Dense& weights,
                         std::size_t which) {
  Dense gradient(inputs[which].shape);
  for (Index i = world().rank(); i < gradient.size(); i += world().size()) {
    const double x = inputs[which][i], step = 1e-5 * std::max(1., std::abs(x));
    double sum = 0;
    inputs[which][i] = x + step;
    const Dense above = op.reference(inputs);
    inputs[which][i] = x - step;
    const Dense below = op.reference(inputs);
    inputs[which][i] = x;
    for (Index j = 0; j < weights.size(); ++j) sum += weights[j] * (above[j] - below[j]);
    gradient[i] = sum / (2 * step);
  }
  Dense all(gradient.shape);
  world().all_reduce(gradient.values.data(), all.values.data(), all.size(), DataType::f64, ReduceOp::sum);
  return all;
}

std::vector<Dense> inputs_of(const Checked& op) {
  std::vector<Dense> inputs;
  for (const AnyTensor& x : op.operands) inputs.push_back(gather(x));
  return inputs;
}

/// Returns the result.
AnyTensor checked_value(const Checked& op) {
  const Found found = op.run();
  CHECK(found.collectives == 0);
  const AnyTensor& y = found.tensors[0];
  CHECK(difference(gather(y), op.reference(inputs_of(op))) <= (y.type == DataType::f64 ? 1e-12 : 2e-2));
  return y;
}

}  // namespace

void check_value(const Checked& op) { checked_value(op); }

void check(const Checked& op) {
  const AnyTensor y = checked_value(op);
  const bool exact = y.type == DataType::f64;
  const std::vector<Dense> inputs = inputs_of(op);
  const Dense weights = random_dense(y.extents(), 99);
  const AnyTensor dy = y.unwritten(op.layout_of_dy, MemoryUse::activation);
  place(dy, weights);
  std::vector<Dense> gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DataType type = op.operands[i].type;
    const bool is_float = type != DataType::i32 && type != DataType::i64 && type != DataType::u8;
    gradients.push_back(is_float ? numerical_gradient(op, inputs, weights, i) : Dense({0}));
  }
  for (int uses : {1, 2}) {
    CAPTURE(uses);
    const Found found = op.run_back(uses, dy);
    CHECK(found.collectives == 0);
    // bfloat16 gradients have been rounded where they were made and where they were added.
    CHECK(difference(gather(dy), weights) <= (exact ? 1e-15 : 1e-2));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (gradients[i].size() == 0) continue;
      CAPTURE(i);
      Dense expected = gradients[i];
      for (double& value : expected.values) value *= uses;
      REQUIRE(found.tensors[i]);
      CHECK(difference(gather(found.tensors[i]), expected) <= (exact ? 1e-6 : 4e-2));
    }
  }
}

}  // namespace shardwise::testing
