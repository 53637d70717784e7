// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a checkpoint is made of: named tensors on one mesh, and named numbers. The same list is saved and loaded (see
/// save.hpp).

#include <set>

#include <shardwise/module/parameters.hpp>
#include <shardwise/weights/ranks.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise {

namespace detail {

/// A named tensor of any type, with this rank's block of it.
struct CheckpointBlock {
  std::string name;
  AnyTensor tensor;
  Shared<ParameterCell> parameter{};  ///< whose value it is, if it is one's

  Index row_bytes() const {
    Index bytes = tensor.element_bytes();
    for (int dim = 1; dim < tensor.shape.size(); ++dim) bytes *= tensor.shape[dim];
    return bytes;
  }
};

template <class MeshType>
std::vector<std::pair<std::string, int>> named_sizes(const MeshType& mesh) {
  std::vector<std::pair<std::string, int>> named;
  for (int axis = 0; axis < MeshType::axes; ++axis) {
    named.emplace_back(MeshType::AxesOf::names[axis], mesh.sizes()[axis]);
  }
  return named;
}

}  // namespace detail

/// Refers to what was added: tensors' blocks, and optimizer and numbers, which must outlive it and stay where they are.
class CheckpointContents {
 public:
  /// Everything is on this mesh.
  template <class MeshType>
  explicit CheckpointContents(const MeshType& mesh)
      : ranks_(detail::ranks_of(mesh)), sizes_(mesh.sizes()), named_sizes_(detail::named_sizes(mesh)) {}

  /// A tensor, whose block is read or written in place.
  /// All `add` throw `std::invalid_argument` for a name that is there already, and for another mesh.
  template <TensorType X>
  void add(const std::string& name, const X& x) {
    static_assert(!has_partial(X::layout),
                  "a pending sum is not finished, and cannot be saved: redistribute it first");
    add(name, detail::AnyTensor(x));
  }
  /// The parameters of a module, under their paths. They must have values when they are saved.
  template <class Module>
    requires requires(Module& module) {
      module.visit([](const char*, auto&) {});
    }
  void add(const std::string& name, Module& module) {
    for (const auto& parameter : detail::distinct(detail::named_parameters_of(module))) {
      add(name + "." + parameter.name, parameter.cell->stored);
      blocks_.back().parameter = Shared<detail::ParameterCell>::to(*parameter.cell);
    }
  }
  /// The state of an optimizer, for the parameters of a module, under their paths. Its groups are chosen before.
  template <class Optimizer, class Module>
  void add(const std::string& name, Optimizer& optimizer, Module& module) {
    optimizer.for_each_state(
        module,
        [&](const std::string& path, const detail::AnyTensor& tensor) { add(name + "." + path, tensor); },
        [&](const std::string& path, std::int64_t& number) { add(name + "." + path, number); });
  }
  /// A number, which must be the same on every rank.
  void add(const std::string& name, std::int64_t& number) {
    check(name);
    numbers_.emplace_back(name, &number);
  }

  // For those who save and load.
  const Communicator& ranks() const { return ranks_; }
  const std::vector<std::pair<std::string, int>>& named_sizes() const { return named_sizes_; }
  const std::vector<detail::CheckpointBlock>& blocks() const { return blocks_; }
  const std::vector<std::pair<std::string, std::int64_t*>>& numbers() const { return numbers_; }

 private:
  void add(const std::string& name, const detail::AnyTensor& x) {
    const bool here =
        !x.mesh.dry() && x.mesh.sizes() == sizes_ && detail::all_ranks_of(x.mesh).native() == ranks_.native();
    if (!here) detail::fail({"CheckpointContents: \"", name, "\" lies on another mesh"});
    check(name);
    blocks_.push_back({name, x});
  }
  void check(const std::string& name) {
    if (!names_.insert(name).second) {
      detail::fail({"CheckpointContents: \"", name, "\" is there already"});
    }
  }

  Communicator ranks_;
  MeshSizes sizes_;
  std::vector<std::pair<std::string, int>> named_sizes_;
  std::set<std::string> names_;
  std::vector<detail::CheckpointBlock> blocks_;
  std::vector<std::pair<std::string, std::int64_t*>> numbers_;
};

}  // namespace shardwise
