// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which tensors the ranks have together, where each has only those of its part of a model.

#include <shardwise/base/bodies.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/json.hpp>
#include <shardwise/tensor/any_tensor.hpp>
#include <shardwise/weights/stored_type.hpp>

namespace shardwise::detail {

/// A tensor as files know it.
struct TensorOfAll {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<Index> shape;
  std::string layout;
  int first_rank = 0;  ///< in the job, of the mesh on which it lies: of several, of the first told of
};

inline bool is_first_rank(const MeshView& mesh) { return mesh.rank_in_job() == mesh.place().ranks.first; }

/// Those of all ranks, in the order of ranks, each once: `mine` are those that this rank, the first of their mesh,
/// tells of. Collective; throws `std::runtime_error`, on all ranks, if two of one name have different types or shapes,
/// or a name is not UTF-8.
std::vector<TensorOfAll> tensors_of_all(const Communicator& ranks, std::string_view task,
                                        const std::vector<TensorOfAll>& mine);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::vector<TensorOfAll> tensors_of_all(const Communicator& ranks, std::string_view task,
                                                         const std::vector<TensorOfAll>& mine) {
  std::string told;
  throw_on_all_ranks(ranks, task, [&] {  // a name that is not UTF-8 is an error
    for (const TensorOfAll& tensor : mine) {
      told += Json{tensor.name, name_of(tensor.type), tensor.shape, tensor.layout, tensor.first_rank}.dump() +
              '\n';
    }
  });
  const std::string text = gather_texts(ranks, told);
  std::vector<TensorOfAll> all;
  std::map<std::string, std::size_t> numbers;
  for (std::string_view rest = text; !rest.empty();) {
    const Json line = json_of(take_part(rest, '\n'));
    TensorOfAll tensor{line[0], *stored_type_named(line[1].get<std::string>()),
                       line[2].get<std::vector<Index>>(), line[3], line[4]};
    const auto [place, is_new] = numbers.emplace(tensor.name, all.size());
    if (is_new) {
      all.push_back(std::move(tensor));
      continue;
    }
    const TensorOfAll& known = all[place->second];
    if (known.type != tensor.type || known.shape != tensor.shape) {
      fail<std::runtime_error>({task, ": tensor \"", tensor.name, "\" is ", name_of(known.type), " ",
                                known.shape, " on rank ", known.first_rank, ", but ", name_of(tensor.type),
                                " ", tensor.shape, " on rank ", tensor.first_rank});
    }
  }
  return all;
}

#endif

}  // namespace shardwise::detail
