// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `check_operation` passes operations that are right, and finds what is planted into others: a gradient that is wrong, a
/// claim of linearity that is false, an index that must be whole, a gradient that is left unwritten, memory that an
/// operation must not use.

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

/// What a product of two operands does with memory that is not its own.
enum class Wrong {
  nothing,
  unsaved_operand,
  unsaved_result,
  residual,
  more_residual,
  past_result,
  before_result,
  global_extents,
  past_operand,
  null_gradient,
  past_gradient,
};

template <Wrong W>
struct ResidualOf {};
template <>
struct ResidualOf<Wrong::more_residual> {
  static sw::Index residual_bytes(auto y, auto, auto) { return 8 * y.elements() - 8; }
};
template <Wrong W>
struct ProductOp : ResidualOf<W> {
  static constexpr sw::Signature signature = sw::Signature::of("..., ... -> ...").linear_in_each();
  static constexpr sw::Saved saved{.inputs = W == Wrong::unsaved_operand ? 0b01 : 0b11};

  static void forward(auto y, void* residual, auto a, auto b) {
    const sw::Index n = W == Wrong::global_extents ? sw::elements(y.shape) : y.elements();
    for (sw::Index i = 0; i < n; ++i) y.data[i] = a.data[i] * b.data[i];
    if (W == Wrong::residual || W == Wrong::more_residual) {
      for (sw::Index i = 0; i < n; ++i) static_cast<double*>(residual)[i] = 1;
    }
    if (W == Wrong::past_result) y.data[n] = 0;
    if (W == Wrong::before_result) y.data[-1] = 0;
    if (W == Wrong::past_operand && n > 0) y.data[0] += 0 * a.data[n];
  }
  template <class T, int Rank>  // with auto, what reads an unsaved block does not compile
  __attribute__((no_sanitize("undefined"))) static void pull_back(sw::View<const T, Rank> dy,
                                                                  sw::View<const T, Rank> y, const void*,
                                                                  sw::Input<T, Rank> a,
                                                                  sw::Input<T, Rank> b) {
    const sw::Index n = dy.elements();
    for (sw::Index i = 0; i < n; ++i) {
      if (a.gradient)
        a.gradient[i] = dy.data[i] * b.data[i] + (W == Wrong::unsaved_result ? 0 * y.data[i] : 0);
      if (b.gradient || W == Wrong::null_gradient) b.gradient[i] = dy.data[i] * a.data[i];
    }
    if (a.gradient && W == Wrong::past_gradient) a.gradient[n] = 0;
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

template <Wrong W>
std::string said_of_memory(int ranks) {
  return said(ranks, ProductOp<W>(), sw::Shape<2>{5, 3}, sw::Shape<2>{5, 3});
}
TEST_CASE("memory that an operation must not use is found, without a crash") {
  for (const int ranks : {1, 3}) {
    CHECK(said_of_memory<Wrong::nothing>(ranks) == "");
    CHECK(
        finds(said_of_memory<Wrong::unsaved_operand>(ranks),
              "check_operation: of whole operands: pull_back reads operand 1, which `saved` does not name"));
    CHECK(finds(said_of_memory<Wrong::unsaved_result>(ranks), "pull_back reads the result"));
    CHECK(finds(said_of_memory<Wrong::residual>(ranks),
                "writes to a residual, and there is no residual_bytes"));
    CHECK(finds(said_of_memory<Wrong::more_residual>(ranks), "forward writes more than residual_bytes"));
    CHECK(finds(said_of_memory<Wrong::past_result>(ranks), "forward writes outside of the result"));
    CHECK(finds(said_of_memory<Wrong::before_result>(ranks), "forward writes outside of the result"));
    CHECK(finds(said_of_memory<Wrong::past_operand>(ranks), "or reads outside of its blocks"));
    CHECK(finds(said_of_memory<Wrong::null_gradient>(ranks), "pull_back writes to a gradient that is null"));
    CHECK(finds(said_of_memory<Wrong::past_gradient>(ranks), "writes outside of the gradient of operand 0"));
  }
  const std::string text = said_of_memory<Wrong::global_extents>(3);
  CHECK(finds(text, "of (Shard<"));
  CHECK(finds(text, "forward writes outside of the result"));
  CHECK(finds(text, "(all ranks)"));
}
