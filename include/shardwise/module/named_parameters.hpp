// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parameters of a model as a list, with their names but without their types.
///
/// ```
/// for (auto& [name, parameter] : named_parameters(model)) {
///   std::cout << name << ": " << parameter.layout() << '\n';   // blocks.0.attention.wq.weight: Reduced, Shard<0>
/// }
/// ```
/// `for_each_named_parameter` gives a parameter with its type.

#include <shardwise/base/bodies.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise {

namespace detail {

/// This rank's block of a tensor of floating-point numbers, row-major; empty on a dry mesh.
std::vector<double> numbers_of(const AnyTensor& x);

}  // namespace detail

/// A parameter without its type. It stays valid if the model is moved or destroyed.
class AnyParameter {
 public:
  /// A handle to the state that a parameter shares.
  explicit AnyParameter(detail::ParameterState& cell) : cell_(Shared<detail::ParameterState>::to(cell)) {}

  /// The global extents, and those of this rank's stored block.
  std::vector<Index> shape() const { return cell_->stored.extents(); }
  std::vector<Index> local_shape() const;
  /// The layout in which it is stored: "Reduced, Shard<0>", a placement for each axis of the mesh.
  std::string layout() const { return detail::text_of(cell_->stored.layout); }
  DataType type() const { return cell_->stored.type; }
  bool trained() const { return cell_->layouts.trained(); }

  /// A copy of this rank's stored block, row-major; empty on a dry mesh. Throws `std::logic_error` if the parameter
  /// has no value yet.
  std::vector<double> local() const;

 private:
  Shared<detail::ParameterState> cell_;
};

struct NamedParameter {
  std::string name;  ///< the path: "blocks.0.attention.wq.weight"; the first one if it is tied
  AnyParameter parameter;
};

namespace detail {

std::vector<shardwise::NamedParameter> without_types(std::vector<NamedParameter> parameters);

}  // namespace detail

/// Each parameter of `module` once, in the order of `visit`, frozen ones included.
template <class M, class Problem = detail::visit_problem<M>>
std::vector<NamedParameter> named_parameters(M& module) {
  return detail::without_types(detail::named_parameters_of(module));
}
template <class M, IllFormed Why = detail::visit_problem<M>>
Why named_parameters(M&);  // see Why

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::vector<Index> AnyParameter::local_shape() const {
  const detail::AnyBox box = cell_->stored.box();
  return {box.size.begin(), box.size.begin() + cell_->stored.rank};
}

SHARDWISE_INLINE std::vector<double> AnyParameter::local() const {
  cell_->check_set();
  return detail::numbers_of(cell_->stored);
}

SHARDWISE_INLINE std::vector<double> detail::numbers_of(const AnyTensor& x) {
  if (x.mesh.dry()) return {};
  std::vector<double> numbers(static_cast<std::size_t>(x.local_elements()));
  with_floating(x.type, [&]<class T>(T) {
    kernel::convert(x.local_elements(), static_cast<const T*>(x.buffer->data), numbers.data());
  });
  return numbers;
}

SHARDWISE_INLINE std::vector<NamedParameter> detail::without_types(
    std::vector<detail::NamedParameter> parameters) {
  std::vector<shardwise::NamedParameter> all;
  for (detail::NamedParameter& each : distinct(std::move(parameters)))
    all.push_back({std::move(each.name), AnyParameter(*each.cell)});
  return all;
}

#endif

}  // namespace shardwise
