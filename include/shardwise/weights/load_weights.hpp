// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From files into modules and tensors, whatever their layout: each rank reads its own block. (Not in
/// `shardwise.hpp`: it brings in a JSON reader, which is dear to compile.)
///
/// ```
/// load_weights(model, "llama/", {.name_of = hugging_face_name});
/// auto logits = read_tensor<float, 3, Replicate, Shard<2>>(mesh, "run/logits.safetensors", "logits");
/// ```

#include <set>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/mesh/agreement.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/weights/ranks.hpp>
#include <shardwise/weights/tensors_of_all.hpp>
#include <shardwise/weights/weights.hpp>

namespace shardwise {

struct LoadOptions {
  /// From a parameter's path ("blocks.0.attention.wq.weight") to its tensor's name in the file; without it
  /// they are the same. Two parameters may have one tensor.
  std::function<std::string(std::string_view)> name_of = {};
  /// Which tensors of the file may remain unused; without it none may.
  std::function<bool(std::string_view)> may_be_surplus = {};
};

namespace detail {

/// A tensor that is not there, or does not fit, is a problem; `names` are those of the parameters' tensors.
inline void check_fit(const std::vector<NamedParameter>& parameters, const std::vector<std::string>& names,
                      const Weights& weights, Problems& problems) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const AnyTensor& stored = parameters[i].cell->stored;
    std::string why = weights.problem(names[i], stored.type, stored.extents());
    if (!why.empty() && names[i] != parameters[i].name) why += " (parameter " + parameters[i].name + ")";
    if (!why.empty()) problems.add(std::move(why));
  }
}
/// So is one that nothing wants; `used` are the names of the others, a line each.
inline void check_used(std::string_view used, const Weights& weights, const LoadOptions& options,
                       Problems& problems) {
  std::set<std::string_view> names;
  while (!used.empty()) names.insert(take_part(used, '\n'));
  for (const SafetensorsFile& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (names.contains(tensor.name)) continue;
      if (options.may_be_surplus && options.may_be_surplus(tensor.name)) continue;
      problems.add(file.path().string() + ": tensor \"" + tensor.name + "\" is no parameter of the module");
    }
  }
}

/// Gives parameters their values: those of a module; or, if it is divided over the ranks, those of each rank's part. Of
/// several names of one the first counts; the others may be there.
inline Index load_parameters(const Communicator& ranks, const std::vector<NamedParameter>& all, bool divided,
                             const std::filesystem::path& path, const LoadOptions& options) {
  const std::vector<NamedParameter> parameters = distinct(all);
  Problems problems;
  std::optional<Weights> weights;
  std::vector<std::string> names;  // of the parameters' tensors
  std::string used;                // those, and their other names
  problems.guard([&] {
    for (const NamedParameter& each : all) used += renamed(options.name_of, each.name) + '\n';
    for (const NamedParameter& each : parameters) names.push_back(renamed(options.name_of, each.name));
    weights.emplace(path);
    check_fit(parameters, names, *weights, problems);
  });
  if (divided) {
    const bool tells = !parameters.empty() && is_first_rank(parameters.front().cell->stored.mesh);
    used = gather_texts(ranks, tells ? used : "");
  }
  problems.guard([&] {
    if (weights) check_used(used, *weights, options, problems);
  });
  problems.throw_together(ranks, "load_weights");
  together(ranks, "load_weights", [&] {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const AnyTensor x = parameters[i].cell->writable();
      weights->read_bytes(names[i], view_of(x), x.rank, x.type);
    }
  });
  return weights->bytes_read();
}

}  // namespace detail

/// Gives every parameter of a module its value from files (see `Weights`). All of the module is checked before
/// any of it is written: tensors that are missing, surplus, of another shape or type, and damaged files.
/// Shapes may differ by merged dimensions and floating-point types are converted, as by
/// `Weights::read_block`. Integer parameters are not loaded: they do not compile.
///
/// Collective over the ranks of the module's mesh, and all see the same files. Where any rank fails all throw
/// `std::runtime_error`, which lists up to ten problems and on which ranks they were met. If it was the reading
/// itself that failed, the parameters' values are unspecified. The files are mapped: a device that fails while
/// they are read, such as a network disk that is lost, ends the process (see `MappedFile`).
///
/// Returns the bytes of elements that this rank read: those of its own blocks, in the file's type. Over all
/// ranks they add up to the file's for what is sharded, and to a multiple for what is replicated.
template <class Module>
Index load_weights(Module& module, const std::filesystem::path& path, const LoadOptions& options = {}) {
  const auto parameters = detail::real_parameters_of(module);
  const Communicator ranks = detail::ranks_of_parameters(parameters);
  return detail::load_parameters(ranks, parameters, false, path, options);
}

/// The tensor `name` of files (see `Weights`), of the file's shape, which must have `Rank` dimensions. Its
/// elements become `T`s as by `Weights::read_block`. Collective over the mesh; where any rank fails all
/// throw `std::runtime_error`.
template <Communicable T, int Rank, class... Placements, class MeshType,
          class Problem = detail::finished_problem<static_cast<std::size_t>(Rank), MeshType, Placements...>>
auto read_tensor(const MeshType& mesh, const std::filesystem::path& path, std::string_view name) {
  Tensor<T, Rank, MeshType, Placements...> x;
  detail::together(detail::ranks_of(mesh), "read_tensor", [&] {
    const Weights weights(path);
    const StoredTensor& stored = weights.tensor(name);
    if (stored.shape.size() != static_cast<std::size_t>(Rank)) {
      detail::fail<std::runtime_error>({weights.file_of(name).path().string(), ": tensor \"", stored.name,
                                        "\": expected ", Rank, " dimensions, found the shape ",
                                        stored.shape});
    }
    Shape<Rank> shape{};
    std::copy(stored.shape.begin(), stored.shape.end(), shape.begin());
    x = Tensor<T, Rank, MeshType, Placements...>(mesh, shape);
    weights.read_block(name, x.writable());
  });
  return x;
}
template <Communicable T, int Rank, class... Placements, class MeshType,
          IllFormed Why = detail::finished_problem<static_cast<std::size_t>(Rank), MeshType, Placements...>>
Why read_tensor(const MeshType&, const std::filesystem::path&, std::string_view);  // see Why

}  // namespace shardwise
