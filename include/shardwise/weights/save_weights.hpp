// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From modules and tensors into safetensors files, whatever their layout: each rank writes its own block. (Not in
/// `shardwise.hpp`: it brings in a JSON reader, which is expensive to compile.)
///
/// ```
/// save_weights(model, "run/checkpoint", {.type = StoredType::bf16, .max_file_bytes = 5'000'000'000});
/// write_tensors("run/logits.safetensors", {{"logits", logits}, {"ids", ids}});
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/weights/parallel_write.hpp>
#include <shardwise/weights/ranks.hpp>

namespace shardwise {

namespace detail {

inline WrittenTensor written(std::string name, const AnyTensor& x) {
  return {std::move(name), x.extents(), x, x.counts_here()};
}
/// Adds a parameter's tensors to a list.
inline void add_written(std::vector<WrittenTensor>& list, std::string_view name,
                        const NamedParameter& parameter) {
  parameter.cell->check_set();
  const AnyTensor& x = parameter.cell->stored;
  std::vector<std::string> names = expanded_names(name);
  for (Index i = 0; i < std::ssize(names); ++i) {
    list.push_back({std::move(names[static_cast<std::size_t>(i)]),
                    shape_of_blocks(x.extents(), std::ssize(names)), x, x.counts_here(), i,
                    std::ssize(names)});
  }
}

}  // namespace detail

/// A tensor and its name in a file. Pending sums are refused.
class NamedTensor {
 public:
  /// `x` in any layout without pending sums; `name` as in the file.
  template <TensorType X, class Problem = detail::term_problem<X>>
  NamedTensor(std::string name, const X& x)
      : tensor_(detail::written(std::move(name), detail::AnyTensor(x))), ranks_(x.mesh().communicator()) {}
  template <TensorType X, IllFormed Why = detail::term_problem<X>>
  NamedTensor(std::string, const X&) = delete;  // see Why

  /// For the code that writes files: the tensor, and the ranks that have it.
  const detail::WrittenTensor& tensor() const noexcept { return tensor_; }
  const Communicator& ranks() const noexcept { return ranks_; }

 private:
  detail::WrittenTensor tensor_;
  Communicator ranks_;
};

/// Writes tensors of one mesh, of any types and layouts. `path` is a file if it ends in .safetensors; else a folder,
/// made if need be, for model.safetensors, or for several files and model.safetensors.index.json. They replace older
/// ones in one step when they are on the device, and keep their mode and, where allowed, their owner. Several files are
/// called model-00001-of-00003.safetensors, or model-89abcdef-00001-of-00003.safetensors if there are several already.
///
/// Collective over the mesh, on a file system that all ranks share. Where any rank fails (no space, no permission, two
/// tensors of one name), all throw `std::runtime_error`, and what was there stays (unless only the removal of old files
/// failed). Throws `std::invalid_argument` if there are no tensors, or they lie on different meshes.
///
/// Returns the bytes of elements that this rank wrote: over all ranks, those of the file.
inline Index write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                           const SaveOptions& options = {}) {
  if (tensors.empty()) throw std::invalid_argument("write_tensors: there are no tensors to write");
  const Communicator& ranks = tensors.front().ranks();
  for (const NamedTensor& named : tensors) {
    if (named.ranks() != ranks) {
      detail::fail({"write_tensors: \"", named.tensor().name, "\" and \"", tensors.front().tensor().name,
                    "\" lie on different meshes"});
    }
  }
  return detail::write_together(ranks, "write_tensors", path, options, [&](auto& list) {
    for (const NamedTensor& named : tensors) list.push_back(named.tensor());
  });
}

/// Writes every parameter of a module under its path, the first if it has several, or under what `name_of` makes of it
/// (which may be several names: see weights/brace_expansion.hpp), as `write_tensors` does. Parameters without a value
/// are an error too.
template <class Module, class Problem = detail::visit_problem<Module>>
Index save_weights(Module& module, const std::filesystem::path& path, const SaveOptions& options = {}) {
  const auto parameters = detail::distinct(detail::named_parameters_of(module));
  const Communicator ranks = detail::ranks_of_parameters(parameters);
  return detail::write_together(ranks, "save_weights", path, options, [&](auto& list) {
    for (const detail::NamedParameter& parameter : parameters) {
      detail::add_written(list, detail::renamed(options.name_of, parameter.name), parameter);
    }
  });
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why save_weights(Module&, const std::filesystem::path&, const SaveOptions& = {});  // see Why

}  // namespace shardwise
