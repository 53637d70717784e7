// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A model's parameters go to the same model on another mesh, without a file.
///
/// ```
/// Llama<ServingMesh, Serving> served(serving_mesh, config);   // the same ranks, other axes, sizes, styles or ZeRO levels
/// copy_parameters(trained, served);
/// ```

#include <shardwise/module/parameters.hpp>
#include <shardwise/tensor/from_mesh_to_mesh.hpp>

namespace shardwise {
namespace detail {

/// The one of that name; throws if there is none, or it is another tensor.
inline ParameterCell& counterpart(const std::vector<NamedParameter>& all, const NamedParameter& wanted,
                                  std::size_t expected_at) {
  const AnyTensor& x = wanted.cell->stored;
  const int rank = x.mesh.rank_in_job();
  std::size_t place = expected_at < all.size() && all[expected_at].name == wanted.name ? expected_at : 0;
  while (place < all.size() && all[place].name != wanted.name) ++place;
  if (place == all.size()) {
    fail({"copy_parameters: rank ", rank, ": only one of the two models has '", wanted.name, "', ",
          x.extents(), " of ", name_of(x.type)});
  }
  const AnyTensor& y = all[place].cell->stored;
  if (x.extents() != y.extents() || x.type != y.type) {
    fail({"copy_parameters: rank ", rank, ": '", wanted.name, "' is ", y.extents(), " of ", name_of(y.type),
          " in the first model, and ", x.extents(), " of ", name_of(x.type), " in the second"});
  }
  return *all[place].cell;
}

/// As many in a message as have `most_bytes` on a rank.
inline void copy_parameters(const std::vector<NamedParameter>& from, const std::vector<NamedParameter>& to,
                            Index most_bytes) {
  for (std::size_t i = 0; i < to.size(); ++i) counterpart(from, to[i], i);
  for (std::size_t i = 0; i < from.size(); ++i) counterpart(to, from[i], i);
  Shared<MeshTransfer> together;
  MeshView sending, receiving;
  Index bytes = 0;
  auto transfer = [&] {
    if (together) together->start(), together->finish();
    together = Shared<MeshTransfer>();
    bytes = 0;
  };
  const std::vector<NamedParameter> targets = distinct(to);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    ParameterCell& source = counterpart(from, targets[i], i);
    source.check_set();
    const AnyTensor &x = source.stored, &y = targets[i].cell->writable();
    const Index most = x.box_at({}).elements() * x.element_bytes();  // the same number on every rank
    if (bytes + most > most_bytes || !(x.mesh == sending && y.mesh == receiving)) transfer();
    if (!together) {
      check_same_ranks(x.mesh, y.mesh);
      sending = x.mesh;
      receiving = y.mesh;
      together =
          Shared<MeshTransfer>::make(sending, sending.place().ranks, receiving.place().ranks, true, true);
    }
    together->add(x, x.layout, y, y.layout);
    bytes += most;
  }
  transfer();
}

}  // namespace detail

/// Gives every parameter of `to` the value of that of the same name in `from`. Both models are on meshes of one job that
/// have the same ranks; collective over them. Some 64 MiB go in one message from each rank to another. Throws
/// `std::invalid_argument`, on every rank, where a parameter is in one model only, or differs in shape or element type:
/// with its name, both shapes and this rank.
template <class From, class To>
void copy_parameters(From& from, To& to) {
  detail::copy_parameters(detail::named_parameters_of(from), detail::named_parameters_of(to), Index{1} << 26);
}

}  // namespace shardwise
