// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `check_operation` passes operations that are right, and finds what is planted into others: a gradient that is wrong, a
/// claim of linearity that is false, an index that must be whole, a gradient that is left unwritten.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/softmax.hpp>
#include <shardwise/simulate/simulate.hpp>

#include <string>

namespace sw = shardwise;

namespace {

/// An axis need not say that it is none of data.
struct part {
  static constexpr const char* name = "part";
};

enum class Mistake { none, gradient, linear_jointly, unwritten };

/// x², with a mistake.
template <Mistake M>
struct SquareOp {
  static constexpr sw::Saved saved{.inputs = 0b1};

  template <int Rank>
  static constexpr sw::Signature signature() {
    const auto index = sw::Indices::range('a', Rank);
    const auto plain = sw::Signature::of(index, index);
    return M == Mistake::linear_jointly ? plain.linear_jointly() : plain;
  }
  template <int Rank>
  static constexpr auto shape(const sw::Shape<Rank>& x) {
    return x;
  }
  template <class T, int Rank>
  static void forward(sw::View<T, Rank> y, void*, sw::View<const T, Rank> x) {
    for (sw::Index i = 0; i < x.elements(); ++i) y.data[i] = x.data[i] * x.data[i];
  }
  template <class T, int Rank>
  static void pull_back(sw::View<const T, Rank> dy, sw::View<const T, Rank>, const void*,
                        sw::Input<T, Rank> x) {
    for (sw::Index i = 0; i < x.elements(); ++i) {
      if (M != Mistake::unwritten || i > 0)
        x.gradient[i] = (M == Mistake::gradient ? 1 : 2) * x.data[i] * dy.data[i];
      else
        x.gradient[i] = 0;
    }
  }
};

/// x - its mean over the last dimension, which claims that a rank may have a part of that.
template <bool Whole>
struct CentreOp {
  static constexpr sw::Saved saved{};

  template <int Rank>
  static constexpr sw::Signature signature() {
    const auto index = sw::Indices::range('a', Rank);
    const auto plain = sw::Signature::of(index, index).linear_in_each();
    return Whole ? plain.whole(static_cast<char>('a' + Rank - 1)) : plain;
  }
  template <int Rank>
  static constexpr auto shape(const sw::Shape<Rank>& x) {
    return x;
  }
  template <class T, int Rank>
  static void forward(sw::View<T, Rank> y, void*, sw::View<const T, Rank> x) {
    centre(x.rows(), x.columns(), x.data, y.data);
  }
  template <class T, int Rank>
  static void pull_back(sw::View<const T, Rank> dy, sw::View<const T, Rank>, const void*,
                        sw::Input<T, Rank> x) {
    centre(dy.rows(), dy.columns(), dy.data, x.gradient);
  }
  template <class T>
  static void centre(sw::Index rows, sw::Index columns, const T* x, T* y) {
    for (sw::Index row = 0; row < rows; ++row, x += columns, y += columns) {
      T mean = 0;
      for (sw::Index i = 0; i < columns; ++i) mean += x[i] / static_cast<T>(columns);
      for (sw::Index i = 0; i < columns; ++i) y[i] = x[i] - mean;
    }
  }
};

/// What the check says; nothing if nothing is wrong.
template <class Op, int... Ranks>
std::string said(int ranks, const Op& op, const sw::Shape<Ranks>&... shapes) {
  try {
    sw::simulate(ranks, [&] { sw::check_operation(sw::Mesh<part>(sw::world(), {sw::any}), op, shapes...); });
  } catch (const sw::SimulationError& error) {
    return error.what();
  }
  return "";
}
bool finds(const std::string& text, const char* part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("operations that are right pass, on one rank and on three") {
  for (const int ranks : {1, 3}) {
    CHECK(said(ranks, SquareOp<Mistake::none>(), sw::Shape<2>{5, 3}) == "");
    CHECK(said(ranks, CentreOp<true>(), sw::Shape<2>{5, 4}) == "");
    CHECK(said(ranks, sw::MulOp(), sw::Shape<1>{5}, sw::Shape<1>{5}) == "");
    CHECK(said(ranks, sw::LinearBiasOp<1>(), sw::Shape<2>{4, 3}, sw::Shape<2>{2, 3}, sw::Shape<1>{2}) == "");
  }
}

TEST_CASE("a wrong gradient is found, on one rank too, with its operand and element") {
  for (const int ranks : {1, 2}) {
    const std::string text = said(ranks, SquareOp<Mistake::gradient>(), sw::Shape<2>{5, 3});
    CHECK(finds(text, "the gradient of operand 0"));
    CHECK(finds(text, "at element 0"));
  }
  CHECK(finds(said(1, SquareOp<Mistake::unwritten>(), sw::Shape<1>{3}), "the gradient of operand 0"));
}

TEST_CASE("a false claim of linearity is found") {
  CHECK(finds(said(2, SquareOp<Mistake::linear_jointly>(), sw::Shape<2>{5, 3}),
              "of (Partial<Sum>) the result"));
}

TEST_CASE("a dimension that must be whole, and is not said to be, is found") {
  CHECK(finds(said(3, CentreOp<false>(), sw::Shape<2>{5, 4}), "of (Shard<1>) the result"));
}
