// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From files into parameters: those of a module, or of the parts of one that the ranks have.

#include <set>

#include <shardwise/base/bodies.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/weights/brace_expansion.hpp>
#include <shardwise/weights/ranks.hpp>
#include <shardwise/weights/tensors_of_all.hpp>
#include <shardwise/weights/weights.hpp>

namespace shardwise {

struct LoadOptions {
  /// From a parameter's path ("blocks.0.attention.wq.weight") to its tensor's name in the file; without it
  /// they are the same. Two parameters may have one tensor, and one several: see weights/brace_expansion.hpp.
  std::function<std::string(std::string_view)> name_of = {};
  /// Which tensors of the file may remain unused; without it none may.
  std::function<bool(std::string_view)> may_be_surplus = {};
  /// Which parameters, by their paths, may have no tensor in the file and stay as they are; without it none may.
  std::function<bool(std::string_view)> may_be_missing = {};
  /// A file may be of this format, such as `gguf_format`, instead of safetensors.
  const WeightsFormat* other_format = nullptr;
};

namespace detail {

/// A tensor that is not there, or does not fit, is a problem; `names` are those of the parameters' tensors.
inline void check_fit(const std::vector<NamedParameter>& parameters, const std::vector<std::string>& names,
                      const Weights& weights, Problems& problems) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const AnyTensor& stored = parameters[i].cell->stored;
    const std::vector<std::string> all = expanded_names(names[i]);
    const std::vector<Index> shape = shape_of_blocks(stored.extents(), std::ssize(all));
    for (const std::string& name : all) {
      std::string why = weights.problem(name, stored.type, shape);
      if (!why.empty() && name != parameters[i].name) why += " (parameter " + parameters[i].name + ")";
      if (!why.empty()) problems.add(std::move(why));
    }
  }
}
/// So is one that nothing wants; `used` are the names of the others, a line each.
inline void check_used(std::string_view used, const Weights& weights, const LoadOptions& options,
                       Problems& problems) {
  std::set<std::string> names;
  while (!used.empty()) {
    for (std::string& name : expanded_names(take_part(used, '\n'))) names.insert(std::move(name));
  }
  for (const SafetensorsFile& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      if (names.contains(tensor.name)) continue;
      if (options.may_be_surplus && options.may_be_surplus(tensor.name)) continue;
      problems.add(file.path().string() + ": tensor \"" + tensor.name +
                   "\" is not a parameter of the module");
    }
  }
}

/// Gives parameters their values: those of a module; or, if it is divided over the ranks, those of each rank's part. Of
/// several names of one the first counts; the others may be there.
Index load_parameters(const Communicator& ranks, const std::vector<NamedParameter>& all, bool divided,
                      const std::filesystem::path& path, const LoadOptions& options);

}  // namespace detail

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

SHARDWISE_INLINE Index load_parameters(const Communicator& ranks, const std::vector<NamedParameter>& all,
                                       bool divided, const std::filesystem::path& path,
                                       const LoadOptions& options) {
  std::vector<NamedParameter> parameters = distinct(all);
  Problems problems;
  std::optional<Weights> weights;
  std::vector<std::string> names;  // of the parameters' tensors
  std::string used;                // those, and their other names
  problems.guard([&] {
    for (const NamedParameter& each : all) used += renamed(options.name_of, each.name) + '\n';
    weights.emplace(path, options.other_format);
    if (options.may_be_missing) {
      std::erase_if(parameters, [&](const NamedParameter& each) {
        return options.may_be_missing(each.name) &&
               !weights->contains(expanded_names(renamed(options.name_of, each.name)).front());
      });
    }
    for (const NamedParameter& each : parameters) names.push_back(renamed(options.name_of, each.name));
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
  throw_on_all_ranks(ranks, "load_weights", [&] {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const AnyTensor x = parameters[i].cell->writable();
      const std::vector<std::string> each = expanded_names(names[i]);
      const int rank = static_cast<int>(shape_of_blocks(x.extents(), std::ssize(each)).size());
      for (std::size_t k = 0; k < each.size(); ++k) {
        weights->read_bytes(each[k], block_here(x, static_cast<Index>(k), std::ssize(each)), rank, x.type,
                            parameters[i].cell->functions.blocks);
      }
    }
  });
  return weights->bytes_read();
}

}  // namespace detail
}  // namespace shardwise
#endif
