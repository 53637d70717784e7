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

#include <csetjmp>
#include <csignal>
#include <mutex>

#include <shardwise/guard/agreement.hpp>
#include <shardwise/ops/apply.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

namespace detail {

/// Where `runs` continues if its function uses memory that the process does not have.
inline thread_local sigjmp_buf after_a_fault;

/// Runs f(), which must not communicate. Returns false if it uses memory that the process does not have, such as that
/// at a null pointer.
template <class F>
[[gnu::noinline]] bool runs(F f) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  struct sigaction action {
  }, before{};
  action.sa_flags = SA_NODEFER;
  action.sa_handler = [](int) { siglongjmp(after_a_fault, 1); };  // NOLINT(cert-err52-cpp)
  sigaction(SIGSEGV, &action, &before);
  struct Restored {
    const struct sigaction& handler;
    ~Restored() { sigaction(SIGSEGV, &handler, nullptr); }
  } const restored{before};
  if (sigsetjmp(after_a_fault, 1) != 0) return false;  // NOLINT(cert-err52-cpp)
  f();
  return true;
}

/// A block between two zones. If an operation reads the block, the zones are NaN; if it writes it, the block is NaN.
class GuardedBlock {
 public:
  static constexpr char nan = '\xff', mark = '\x5a';  // each byte

  explicit GuardedBlock(const MeshView& mesh, Index bytes = 0, char zone = mark)
      : bytes_(bytes),
        zone_(bytes / 16 * 64 + 16384),
        byte_(zone),
        block_(allocate_buffer(mesh, bytes + 2 * zone_)) {
    std::memset(begin(), zone, static_cast<std::size_t>(bytes + 2 * zone_));
    std::memset(data(), nan, static_cast<std::size_t>(bytes));
  }
  template <int Rank>
  GuardedBlock(const MeshView& mesh, const View<const double, Rank>& values)
      : GuardedBlock(mesh, values.bytes(), nan) {
    if (bytes_ > 0) std::memcpy(data(), values.data, static_cast<std::size_t>(bytes_));
  }
  double* data() const { return reinterpret_cast<double*>(begin() + zone_); }
  bool zones_are_intact() const {
    const auto untouched = [this](char byte) { return byte == byte_; };
    return std::all_of(begin(), begin() + zone_, untouched) &&
           std::all_of(begin() + zone_ + bytes_, begin() + 2 * zone_ + bytes_, untouched);
  }
  bool holds_numbers() const {
    return std::none_of(data(), data() + bytes_ / 8, [](double value) { return std::isnan(value); });
  }
  bool equals(const GuardedBlock& other) const {
    return std::memcmp(data(), other.data(), static_cast<std::size_t>(bytes_)) == 0;
  }

 private:
  char* begin() const { return static_cast<char*>(block_->data); }

  Index bytes_, zone_;
  char byte_;
  Buffer block_;
};

/// Runs an operation on copies of this rank's blocks between zones, and collects the memory that it uses but must not.
template <class Op, int Rank, int... Ranks>
class MemoryCheck {
  static constexpr int count = sizeof...(Ranks);  // of operands; as the number of a block: the result
  using Operands = std::make_integer_sequence<int, count>;
  using Blocks = std::vector<GuardedBlock>;

 public:
  MemoryCheck(const MeshView& mesh, const Op& op, const View<const double, Rank>& y,
              const View<const double, Ranks>&... x)
      : mesh_(mesh),
        op_(op),
        y_(y),
        x_(x...),
        blocks_{GuardedBlock(mesh, x)..., GuardedBlock(mesh, y.bytes())},
        nothing_{GuardedBlock(mesh, x.bytes())..., GuardedBlock(mesh, y.bytes())},
        residual_(mesh) {
    Index bytes = 0;
    if constexpr (HasResidualBytes<Op>) bytes = op.residual_bytes(y, x...);
    residual_ = GuardedBlock(mesh, bytes);
  }

  void forward() { forward(Operands()); }
  /// For the gradients of the operands in `wanted`. After `forward`.
  void pull_back(unsigned wanted) {
    Blocks expected = gradients(wanted, -1, Operands());
    constexpr unsigned all = (1u << count) - 1;
    if (expected.empty()) {
      return problems.add(wanted == all
                              ? "pull_back uses memory outside of its blocks"
                              : "pull_back writes to a gradient that is null because it is not wanted");
    }
    for (int i = 0; i < count; ++i) {
      const GuardedBlock& gradient = expected[static_cast<std::size_t>(i)];
      const std::string name = "the gradient of operand " + std::to_string(i);
      if (!gradient.zones_are_intact()) problems.add("pull_back writes outside of " + name);
      if ((wanted >> i & 1u) != 0 && !gradient.holds_numbers())
        problems.add("pull_back does not write all of " + name + ", or reads outside of its blocks");
    }
    const unsigned saved = saved_inputs<Op>(wanted) | unsigned{Op::saved.output} << count;
    for (int i = 0; i <= count; ++i) {
      if ((saved >> i & 1u) != 0) continue;
      const Blocks without = gradients(wanted, i, Operands());
      const auto same = [](const GuardedBlock& a, const GuardedBlock& b) { return a.equals(b); };
      if (without.empty() || !std::equal(without.begin(), without.end(), expected.begin(), same)) {
        problems.add("pull_back reads " + (i < count ? "operand " + std::to_string(i) : "the result") +
                     ", which `saved` does not name");
      }
    }
  }

  Problems problems;

 private:
  template <int... I>
  void forward(std::integer_sequence<int, I...>) {
    const GuardedBlock& result = blocks_.back();
    const View<double, Rank> y{result.data(), y_.size, y_.begin, y_.shape};
    if (!runs([&] { op_.forward(y, residual_.data(), at(std::get<I>(x_), blocks_[I])...); }))
      return problems.add("forward uses memory outside of its blocks");
    if (!result.zones_are_intact()) problems.add("forward writes outside of the result");
    if (!residual_.zones_are_intact()) {
      problems.add(HasResidualBytes<Op> ? "forward writes more than residual_bytes"
                                        : "forward writes to a residual, and there is no residual_bytes");
    }
    if (!result.holds_numbers())
      problems.add("forward does not write all of the result, or reads outside of its blocks");
  }
  /// The gradients that `pull_back` computes without the numbers of block `absent`; none if it uses memory that the
  /// process does not have.
  template <int... I>
  [[gnu::noinline]] Blocks gradients(unsigned wanted, int absent, std::integer_sequence<int, I...>) {
    Blocks to{GuardedBlock(mesh_, std::get<I>(x_).bytes())...};
    const GuardedBlock dy(mesh_, y_.bytes(), GuardedBlock::nan);
    for (Index i = 0; i < y_.elements(); ++i) dy.data()[i] = 1 / static_cast<double>(i + 2);
    const auto block = [&](int i) -> const GuardedBlock& {
      return i == absent ? nothing_[static_cast<std::size_t>(i)] : blocks_[static_cast<std::size_t>(i)];
    };
    const auto input = [&]<int R>(int i, const View<const double, R>& x) {
      return Input<double, R>{at(x, block(i)),
                              (wanted >> i & 1u) != 0 ? to[static_cast<std::size_t>(i)].data() : nullptr};
    };
    const bool ran = runs([&] {
      op_.pull_back(at(y_, dy), at(y_, block(count)), residual_.data(), input(I, std::get<I>(x_))...);
    });
    return ran ? to : Blocks();
  }
  template <int R>
  static View<const double, R> at(View<const double, R> extents, const GuardedBlock& block) {
    extents.data = block.data();
    return extents;
  }

  MeshView mesh_;
  const Op& op_;
  View<const double, Rank> y_;
  std::tuple<View<const double, Ranks>...> x_;
  Blocks blocks_;   ///< the operands, and the result
  Blocks nothing_;  ///< blocks as large, without numbers
  GuardedBlock residual_;
};

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
    std::apply([&](const auto&... x) { memory<Result>("whole operands", x...); }, x_);
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

  /// Throws on all ranks if the operation uses memory on one that it must not use.
  template <class Y>
  void memory(const std::string& given, const auto&... x) {
    const Y y(mesh_, shape_of_result(op_, x.shape()...));
    MemoryCheck<Op, Y::rank, Ranks...> check(MeshView(mesh_), op_, y.view(), x.view()...);
    check.forward();
    if constexpr (has_cotangent(Y::layout)) {
      constexpr unsigned all = (1u << sizeof...(x)) - 1;
      for (unsigned wanted = all; wanted > 0 && check.problems.none(); --wanted) check.pull_back(wanted);
    }
    check.problems.throw_together(mesh_.communicator(), "check_operation: of " + given);
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
      memory<result_of<Op, In<Ranks, code(C, I)>...>>("(" + given + ")", std::get<I>(x)...);
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
/// differences, in every layout, also if the gradient of one operand alone is wanted. `op` must not write outside of
/// its blocks, and not read what it does not save; until it returns, SIGSEGV on this thread is an error of `op`.
/// Collective over a mesh of one axis; one rank alone compares no layouts. Throws `std::logic_error` with the layouts,
/// the operand and the element, or `std::runtime_error` with the layouts, the memory and the rank. It does not check
/// operations on integers.
template <class MeshType, class Op, int... Ranks>
void check_operation(const MeshType& mesh, const Op& op, const Shape<Ranks>&... shapes) {
  detail::OperationCheck<Op, MeshType, Ranks...>(
      mesh, op, std::make_integer_sequence<int, sizeof...(Ranks)>(), shapes...)
      .run();
}

}  // namespace shardwise
