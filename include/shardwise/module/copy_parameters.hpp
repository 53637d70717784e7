// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Copies a model's parameters to the same model on another mesh, without a file.
///
/// ```
/// Llama<ServingMesh, Serving> served(serving_mesh, config);   // same ranks; axes, sizes, styles may differ
/// copy_parameters(trained, served);
/// ```

#include <shardwise/module/parameters.hpp>
#include <shardwise/tensor/from_mesh_to_mesh.hpp>

namespace shardwise {
namespace detail {

/// The parameter with that name; throws if it is missing or is a different tensor.
inline ParameterState& counterpart(const std::vector<NamedParameter>& all, const NamedParameter& wanted,
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

/// Groups parameters so that the messages of each group have about `most_bytes` per rank.
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
    ParameterState& source = counterpart(from, targets[i], i);
    source.check_set();
    const AnyTensor &x = source.stored, &y = targets[i].cell->writable();
    const Index most = x.box_at({}).elements() * x.element_bytes();  // the same on every rank
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

/// Copies every parameter of `from` to the parameter of `to` with the same name. Both models are on meshes of one
/// job with the same ranks; collective over them. About 64 MiB go in one message from each rank to another. Throws
/// `std::invalid_argument` on every rank, with the name and both shapes, if a parameter is missing from one model,
/// or differs in shape or element type.
template <class From, class To>
void copy_parameters(From& from, To& to) {
  detail::copy_parameters(detail::named_parameters_of(from), detail::named_parameters_of(to), Index{1} << 26);
}

}  // namespace shardwise
