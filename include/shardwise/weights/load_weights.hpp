// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From files into modules and tensors, whatever their layout: each rank reads its own block. (Not in
/// `shardwise.hpp`: it brings in a JSON reader, which is expensive to compile.)
///
/// ```
/// load_weights(model, "llama/", {.name_of = hugging_face_name});
/// auto logits = read_tensor<float, 3, Replicate, Shard<2>>(mesh, "run/logits.safetensors", "logits");
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/weights/load_parameters.hpp>

namespace shardwise {

/// Gives every parameter of a module its value from files (see `Weights`), after all of them were checked: for tensors
/// that are missing, surplus, or of another shape or type, and for damage. Shapes may differ by merged dimensions, and
/// floating-point types are converted, as by `Weights::read_block`. Integer parameters do not compile.
///
/// Collective over the module's mesh; all ranks see the same files. Where any rank fails all throw
/// `std::runtime_error`, with up to ten problems and their ranks. If reading itself failed, the values are unspecified.
/// The files are mapped: if their device fails meanwhile, the process ends (see `MappedFile`).
///
/// Returns the bytes of elements that this rank read, in the file's type: those of its own blocks.
template <class Module, class Problem = detail::visit_problem<Module>>
Index load_weights(Module& module, const std::filesystem::path& path, const LoadOptions& options = {}) {
  const auto parameters = detail::named_parameters_of(module);
  const Communicator ranks = detail::ranks_of_parameters(parameters);
  return detail::load_parameters(ranks, parameters, false, path, options);
}
template <class Module, IllFormed Why = detail::visit_problem<Module>>
Why load_weights(Module&, const std::filesystem::path&, const LoadOptions& = {});  // see Why

/// The tensor `name` of files (see `Weights`), of the file's shape, which must have `Rank` dimensions. Its
/// elements become `T`s as by `Weights::read_block`. Collective over the mesh; where any rank fails all
/// throw `std::runtime_error`.
template <class T, int Rank, class... Placements, class MeshType,
          class Problem = detail::finished_problem<T, Rank, MeshType, Placements...>>
auto read_tensor(const MeshType& mesh, const std::filesystem::path& path, std::string_view name) {
  Tensor<T, Rank, MeshType, Placements...> x;
  throw_on_all_ranks(mesh.communicator(), "read_tensor", [&] {
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
template <class T, int Rank, class... Placements, class MeshType,
          IllFormed Why = detail::finished_problem<T, Rank, MeshType, Placements...>>
Why read_tensor(const MeshType&, const std::filesystem::path&, std::string_view);  // see Why

}  // namespace shardwise
