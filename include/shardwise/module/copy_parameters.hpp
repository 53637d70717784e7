// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Copies a model's parameters to the same model on another mesh, without a file. Axes, sizes, styles and element types
/// may differ, and so may the ranks.
///
/// ```
/// Llama<ServingMesh, Serving> served(serving_mesh, config);   // on the same ranks
/// copy_parameters(trained, served);
///
/// std::optional<Trained> trained;                             // some ranks of the job have this one,
/// std::optional<Served> served;                               // and some this one
/// copy_parameters(trained, served, world());                  // all ranks of the job call it
/// ```

#include <shardwise/guard/agreement.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/tensor/from_mesh_to_mesh.hpp>

namespace shardwise {
namespace detail {

/// `job`: all ranks that call it; null if each of them has both models. Parameters of about `group_bytes` on a rank go
/// together.
void copy_parameters(const std::vector<NamedParameter>& from, const std::vector<NamedParameter>& to,
                     const Communicator* job, Index group_bytes = Index{1} << 26);

}  // namespace detail

/// Copies every parameter of `from` to the parameter of `to` with the same name. If these have different types of
/// floating-point numbers, each number is rounded to the nearest (from double to bfloat16 first to float). Both models
/// are on meshes of one job with the same ranks; collective over them. Messages have up to about 64 MiB. Throws
/// `std::invalid_argument` on every rank, with the name and both shapes, if a parameter is missing from one model, or
/// differs in shape or in another way in its element type.
template <class From, class To>
void copy_parameters(From& from, To& to) {
  detail::copy_parameters(detail::named_parameters_of(from), detail::named_parameters_of(to), nullptr);
}
/// The same for models on any ranks of a job; collective over `job`, which has all of its ranks. Each model may be a
/// `std::optional` or a pointer, which is empty on ranks that lack it, or the stages of a pipeline. If several stages
/// have a parameter, the first one's is copied. Throws `std::runtime_error` on every rank if a parameter has no value,
/// a rank of its mesh lacks it, or a mesh is not of this job.
template <class From, class To>
void copy_parameters(From& from, To& to, const Communicator& job) {
  detail::copy_parameters(detail::named_parameters_of(from), detail::named_parameters_of(to), &job);
}

#ifdef SHARDWISE_BODIES
namespace detail {

/// A parameter, as ranks know it that lack it.
struct PlacedParameter {
  struct Place {
    AnyShape shape;
    int rank;
    DataType type;
    Layout layout;
    RankGrid ranks;
    bool of_target;
    bool again;  ///< it has another name before this one
  };
  std::string name;
  Place at;
  ParameterState* here = nullptr;

  std::vector<Index> extents() const { return {at.shape.begin(), at.shape.begin() + at.rank}; }
  bool is(const PlacedParameter& other) const {
    return name == other.name && at.of_target == other.at.of_target && at.ranks == other.at.ranks;
  }
};
using PlacedParameters = std::vector<PlacedParameter>;

SHARDWISE_INLINE void add_placed(PlacedParameters& all, const std::vector<NamedParameter>& parameters,
                                 bool of_target) {
  for (const NamedParameter& each : parameters) each.cell->seen = false;
  for (const auto& [name, cell] : parameters) {
    const AnyTensor& x = cell->stored;
    const bool again = std::exchange(cell->seen, true);
    all.push_back({name, {x.shape, x.rank, x.type, x.layout, x.mesh.place().ranks, of_target, again}, cell});
  }
}

/// Those of all ranks. The first rank of each mesh describes its parameters.
SHARDWISE_INLINE PlacedParameters placed_on_all(const PlacedParameters& own, const Communicator& job) {
  std::string text;
  for (const auto& [name, at, here] : own) {
    if (at.ranks.first != job.rank()) continue;
    const std::size_t length = name.size();
    text.append(reinterpret_cast<const char*>(&length), sizeof length).append(name);
    text.append(reinterpret_cast<const char*>(&at), sizeof at);
  }
  PlacedParameters all;
  for (const std::string& of_rank : job.all_gather(text)) {
    for (std::string_view rest = of_rank; !rest.empty();) {
      PlacedParameter& each = all.emplace_back();
      std::size_t length = 0;
      std::memcpy(&length, rest.data(), sizeof length);
      each.name = rest.substr(sizeof length, length);
      std::memcpy(&each.at, rest.data() + sizeof length + length, sizeof each.at);
      rest.remove_prefix(sizeof length + length + sizeof each.at);
      const auto mine = std::ranges::find_if(own, [&](const auto& x) { return x.is(each); });
      if (mine != own.end()) each.here = mine->here;
    }
  }
  throw_on_all_ranks(job, "copy_parameters", [&] {
    for (const PlacedParameter& each : all) {
      if (!each.here && each.at.ranks.find(job.rank()) >= 0)
        fail({"a rank of the mesh of '", each.name, "' lacks it"});
    }
    for (const PlacedParameter& each : own) {
      if (std::ranges::none_of(all, [&](const auto& x) { return x.is(each); }))
        fail({"rank ", each.at.ranks.first, ", the first of the mesh of '", each.name, "', lacks it"});
    }
  });
  return all;
}

/// The parameter of the other model with that name; throws if it is missing or is a different tensor.
SHARDWISE_INLINE const PlacedParameter& counterpart(const PlacedParameters& all, const PlacedParameter& one) {
  const auto found = std::ranges::find_if(all, [&](const PlacedParameter& x) {
    return x.at.of_target != one.at.of_target && x.name == one.name;
  });
  if (found == all.end()) {
    fail({"copy_parameters: only one of the two models has '", one.name, "', ", one.extents(), " of ",
          name_of(one.at.type)});
  }
  const PlacedParameter &from = one.at.of_target ? *found : one, &to = one.at.of_target ? one : *found;
  const bool convertible = is_floating(from.at.type) && is_floating(to.at.type);
  if (from.extents() != to.extents() || (from.at.type != to.at.type && !convertible)) {
    fail({"copy_parameters: '", one.name, "' is ", from.extents(), " of ", name_of(from.at.type),
          " in the first model, and ", to.extents(), " of ", name_of(to.at.type), " in the second"});
  }
  return *found;
}

/// This rank's block with elements of another type.
SHARDWISE_INLINE AnyTensor converted(const AnyTensor& x, DataType type) {
  if (x.type == type) return x;
  const AnyBox own = x.box();
  const AnyTensor y(x.mesh, type, x.layout, x.extents(),
                    allocate_buffer(x.mesh, own.elements() * size_of(type), MemoryUse::gathered));
  if (!x.mesh.dry()) convert_part(own, x.type, x.buffer->data, own, type, y.buffer->data, own);
  return y;
}

SHARDWISE_INLINE void copy_parameters(const std::vector<NamedParameter>& from,
                                      const std::vector<NamedParameter>& to, const Communicator* job,
                                      Index group_bytes) {
  const auto check = [&] {
    for (const NamedParameter& each : from) each.cell->check_set();
    for (const auto* list : {&from, &to}) {
      for (const auto& [name, cell] : *list) {
        if (job && (cell->stored.mesh.dry() || !(cell->stored.mesh.job() == *job)))
          fail({"the mesh of '", name, "' is not of this job"});
      }
    }
  };
  job ? throw_on_all_ranks(*job, "copy_parameters", check) : check();
  PlacedParameters all;
  add_placed(all, from, false);
  add_placed(all, to, true);
  if (job) all = placed_on_all(all, *job);
  for (const PlacedParameter& each : all) counterpart(all, each);

  Shared<MeshTransfer> together;
  RankGrid sending, receiving;
  Index bytes = 0;
  const auto transfer = [&] {
    if (together) together->start(), together->finish();
    together = Shared<MeshTransfer>();
    bytes = 0;
  };
  for (const PlacedParameter& target : all) {
    if (!target.at.of_target || target.at.again) continue;
    const PlacedParameter& source = counterpart(all, target);
    const Box most = local_box(source.at.shape, source.at.layout, source.at.ranks.sizes, {});  // on any rank
    const Index more = most.elements() * size_of(target.at.type);
    if (bytes + more > group_bytes || source.at.ranks != sending || target.at.ranks != receiving) transfer();
    sending = source.at.ranks;
    receiving = target.at.ranks;
    bytes += more;
    if (!source.here && !target.here) continue;
    AnyTensor x, y;
    if (source.here) x = converted(source.here->stored, target.at.type);
    if (target.here) y = target.here->writable();
    if (!job) check_same_ranks(x.mesh, y.mesh);
    if (!together) {
      together = Shared<MeshTransfer>::make((source.here ? x : y).mesh, sending, receiving,
                                            source.here != nullptr, target.here != nullptr);
    }
    together->add(x, source.at.layout, y, target.at.layout);
  }
  transfer();
}

}  // namespace detail
#endif

}  // namespace shardwise
