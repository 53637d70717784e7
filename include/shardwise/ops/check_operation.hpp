// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A check of your own operation, for a test, on simulated ranks or on MPI ranks. shardwise.hpp does not include it.
///
/// ```
/// sw::simulate(3, [] {
///   sw::check_operation(sw::Mesh<sw::tp>(sw::world(), {sw::any}), SquareOp(), sw::Shape<2>{5, 4});
/// });
/// ```

#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

namespace detail {

template <class Op, class MeshType, int... Ranks>
class OperationCheck {
  static_assert(MeshType::axes == 1, "check_operation: the mesh has one axis");
  using Operands = std::make_integer_sequence<int, sizeof...(Ranks)>;
  using Values = std::vector<double>;
  template <int Rank, int Code = replicate.code>
  using In = Tensor<double, Rank, MeshType, placement_type<Code>>;
  using Result = result_of<Op, In<Ranks>...>;
  static_assert(WellFormed<Result>,
                "check_operation: the operation does not take whole operands of these ranks in double");

 public:
  template <int... I>
  OperationCheck(const MeshType& mesh, const Op& op, std::integer_sequence<int, I...>,
                 const Shape<Ranks>&... shapes)
      : mesh_(mesh),
        op_(op),
        x_(randn<double, Replicate>(mesh, shapes, I + 1)...),
        dy_(randn<double, Replicate>(mesh, shape_of_result(op, shapes...), 0)) {}

  void run() {
    y_ = values(std::apply([&](const auto&... x) { return shardwise::apply(op_, x...); }, x_));
    differences(Operands());
    layouts(std::make_integer_sequence<int, ((Ranks + 3) * ...)>());
  }

 private:
  template <TensorType X>
  static Values values(const X& x) {
    const auto whole = redistribute<Replicate>(x);
    return Values(whole.data(), whole.data() + whole.view().elements());
  }
  /// Throws if these differ by more than the tolerance times the largest.
  void compare(const std::string& what, const Values& found, const Values& expected, double tolerance) const {
    double largest = 1;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (i < found.size() && std::abs(found[i] - expected[i]) <= tolerance * largest) continue;
      fail<std::logic_error>({"check_operation: ", what, " is ",
                              i < found.size() ? std::to_string(found[i]) : "missing", " at element ",
                              static_cast<Index>(i), ", and should be ", expected[i]});
    }
  }

  /// The gradients of whole operands, against central differences of Σ dy · y.
  template <int... I>
  void differences(std::integer_sequence<int, I...>) {
    (difference<I>(), ...);
  }
  template <int I>
  void difference() {
    constexpr double step = 1e-5;
    const auto x = std::get<I>(x_);
    const Values at = values(x), dy = values(dy_);
    Values gradient(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (const double h : {step, -step}) {
        Values moved = at;
        moved[i] += h;
        std::get<I>(x_) = distribute<Replicate>(mesh_, x.shape(), moved);
        const Values y =
            values(std::apply([&](const auto&... each) { return shardwise::apply(op_, each...); }, x_));
        for (std::size_t j = 0; j < y.size(); ++j) gradient[i] += dy[j] * y[j] / (2 * h);
      }
    }
    std::get<I>(x_) = x;
    gradients_.push_back(gradient);
  }

  /// Every legal combination of layouts: the codes of placements are those from that of `Partial<Sum>`, -3, on.
  template <int... Combination>
  void layouts(std::integer_sequence<int, Combination...>) {
    (layout<Combination>(Operands()), ...);
  }
  static constexpr int code(int combination, int operand) {
    constexpr int counts[]{(Ranks + 3)...};
    for (int i = 0; i < operand; ++i) combination /= counts[i];
    return combination % counts[operand] + partial_sum.code;
  }
  /// A pending sum without a term that is 0 or the whole, so that only linear operations give a correct pending sum.
  template <int Code, TensorType X>
  auto laid(const X& x) const {
    if constexpr (Code == partial_sum.code) {
      Values term = values(x);
      for (double& value : term) value *= mesh_.rank() == 0 ? 0.5 + 0.5 * mesh_.size() : -0.5;
      return from_local<Partial<Sum>>(mesh_, x.shape(), term);
    } else {
      return redistribute<placement_type<Code>>(x);
    }
  }
  template <int C, int... I>
  void layout(std::integer_sequence<int, I...> operands) {
    if constexpr (WellFormed<result_of<Op, In<Ranks, code(C, I)>...>>) {
      const std::tuple x(laid<code(C, I)>(std::get<I>(x_))...);
      std::string given;
      ((given += (I > 0 ? ", " : "") + text_of(Placement{code(C, I)})), ...);
      const auto y = shardwise::apply(op_, std::get<I>(x)...);
      compare("of (" + given + ") the result", values(y), y_, 1e-9);
      if constexpr (has_cotangent(decltype(y)::layout)) {
        gradients<(1u << sizeof...(I)) - 1>(given, x, operands);
        if constexpr (sizeof...(I) > 1) (gradients<1u << I>(given, x, operands), ...);
      }
    }
  }
  /// The gradients of the operands in `Wanted`. The others are constants, whose `gradient` is null in `pull_back`.
  template <unsigned Wanted, class X, int... I>
  void gradients(const std::string& given, const X& x, std::integer_sequence<int, I...>) {
    Tape tape;
    const std::tuple on_tape(put<(Wanted >> I & 1u) != 0>(tape, std::get<I>(x))...);
    const auto y = shardwise::apply(op_, std::get<I>(on_tape)...);
    tape.backward(y, redistribute_to<cotangent_of<typename decltype(y)::TensorOf>>(dy_));
    const auto look = [&](int operand, const auto& var) {
      if constexpr (std::decay_t<decltype(var)>::tracked) {
        const auto gradient = var.gradient();
        compare("of (" + given + ") the gradient of operand " + std::to_string(operand),
                gradient ? values(gradient) : Values(), gradients_[static_cast<std::size_t>(operand)], 1e-6);
      }
    };
    (look(I, std::get<I>(on_tape)), ...);
  }
  template <bool Tracked, TensorType X>
  static auto put(Tape& tape, const X& x) {
    if constexpr (Tracked) {
      return tape.input(x);
    } else {
      return tape.constant(x);
    }
  }

  MeshType mesh_;
  Op op_;
  std::tuple<In<Ranks>...> x_;
  Result dy_;
  Values y_;
  std::vector<Values> gradients_;
};

}  // namespace detail

/// Checks `op` on operands of these extents, in `double`. Every layout that its signature allows must give the result
/// of whole operands: this tests the linearity and the indices of the signature. The gradients must be central
/// differences, in every layout, also if the gradient of one operand alone is wanted. Collective over a mesh of one
/// axis; one rank alone compares no layouts. Throws `std::logic_error` with the layouts, the operand and the element. A
/// `pull_back` that writes to a gradient which is null ends the program. It does not check operations on integers.
template <class MeshType, class Op, int... Ranks>
void check_operation(const MeshType& mesh, const Op& op, const Shape<Ranks>&... shapes) {
  detail::OperationCheck<Op, MeshType, Ranks...>(
      mesh, op, std::make_integer_sequence<int, sizeof...(Ranks)>(), shapes...)
      .run();
}

}  // namespace shardwise
