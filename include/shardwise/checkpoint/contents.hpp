// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The contents of a checkpoint: named tensors on a mesh or on parts of it, and named numbers. The same list is saved
/// and loaded (see save.hpp).

#include <functional>
#include <set>

#include <shardwise/checkpoint/manifest.hpp>
#include <shardwise/weights/ranks.hpp>
#include <shardwise/weights/tensors_of_all.hpp>

namespace shardwise {

namespace detail {

/// A named tensor of any type.
struct CheckpointBlock {
  std::string name;
  AnyTensor tensor;                    ///< without its block, if there is `current`
  bool copy = false;                   ///< of one before it, with the same name: loaded, but not saved
  Shared<ParameterState> parameter{};  ///< whose value it is, if it is one's
  /// The tensor as it is now, whose block may be written to if so asked: its owner may give it another block.
  std::function<AnyTensor(bool writes)> current{};

  /// Throws `std::runtime_error` if it has another shape, or is on another mesh, than when it was added.
  AnyTensor now(bool writes = false) const {
    if (!current) return tensor;
    AnyTensor x = current(writes);
    if (x.extents() != tensor.extents() || !(x.mesh == tensor.mesh))
      fail<std::runtime_error>({"\"", name, "\" was added as ", tensor.extents(), ", and is ", x.extents(),
                                " now, or on another mesh"});
    return x;
  }
};

}  // namespace detail

/// Refers to what was added: tensors, parameters, optimizers and numbers must outlive it, and stay where they are.
class CheckpointContents {
 public:
  /// Everything is on this mesh; or, if it is a job, on parts of it: each rank adds what it has a block of, and a name
  /// that several parts have is saved from the one that begins with the lowest rank, and loaded in all.
  template <class MeshType>
  explicit CheckpointContents(const MeshType& mesh)
      : ranks_(mesh.communicator()), place_(mesh.place()), job_(MeshView(mesh).job()) {
    for (int axis = 0; axis < MeshType::axes; ++axis) {
      named_sizes_.emplace_back(MeshType::AxesOf::names[axis], mesh.sizes()[axis]);
    }
  }

  /// A tensor, as it is when it is saved. Loading writes to it, and not to others that share its block.
  /// All `add` throw `std::invalid_argument` for a name that is there already, and for another mesh.
  template <TensorType X>
    requires(!std::is_const_v<X>)
  void add(const std::string& name, X& x) {
    static_assert(!has_partial(X::layout),
                  "a pending sum is not finished, and cannot be saved: redistribute it first");
    add(name, detail::AnyTensor(x));
    blocks_.back().tensor.buffer = {};
    blocks_.back().current = [&x](bool writes) {
      if (writes) x.writable();
      return detail::AnyTensor(x);
    };
  }
  /// The parameters of a module, under their paths. They must have values when they are saved.
  template <class Module>
    requires requires(Module& module) {
      module.visit([](const char*, auto&) {});
    }
  void add(const std::string& name, Module& module) {
    for (const auto& parameter : detail::distinct(detail::named_parameters_of(module))) {
      add(name + "." + parameter.name, parameter.cell->stored, DividedModule<Module>);
      blocks_.back().parameter = Shared<detail::ParameterState>::to(*parameter.cell);
    }
  }
  /// The state of an optimizer, for the parameters of a module, under their paths. Its groups are chosen before.
  template <class Optimizer, class Module>
  void add(const std::string& name, Optimizer& optimizer, Module& module) {
    optimizer.for_each_state(
        module,
        [&](const std::string& path, const detail::AnyTensor& tensor) {
          add(name + "." + path, tensor, DividedModule<Module>);
        },
        [&](const std::string& path, std::int64_t& number) {
          add(name + "." + path, number, DividedModule<Module>);
        });
  }
  /// A number, which must be the same on every rank that adds it.
  void add(const std::string& name, std::int64_t& number) { add(name, number, false); }
  /// All of it is loaded into.
  template <class X, IllFormed Why = WrittenOtherwise<
                         Hint::pass_a_tensor_model_or_int64_not_const_or_an_optimizer_and_its_model>>
  Why add(const std::string&, const X&);  // see Why

  // For those who save and load.
  /// The ranks that save and load together, and lists of what they save.
  const Communicator& ranks() const { return ranks_; }
  const std::vector<std::pair<std::string, int>>& named_sizes() const { return named_sizes_; }
  const std::vector<detail::CheckpointBlock>& blocks() const { return blocks_; }
  const std::vector<std::pair<std::string, std::int64_t*>>& numbers() const { return numbers_; }

 private:
  void add(const std::string& name, const detail::AnyTensor& x, bool may_be_copy = false) {
    const bool here = !x.mesh.dry() && x.mesh.job() == job_ &&
                      (x.mesh.place() == place_ || (place_.is_job && !x.mesh.place().is_job));
    if (!here) detail::fail({"CheckpointContents: \"", name, "\" lies on another mesh"});
    blocks_.push_back({name, x, known(name, may_be_copy)});
  }
  void add(const std::string& name, std::int64_t& number, bool may_be_copy) {
    known(name, may_be_copy);
    numbers_.emplace_back(name, &number);
  }
  /// Whether a name is there already, as that of a copy.
  bool known(const std::string& name, bool may_be) {
    const bool is_new = names_.insert(name).second;
    if (!is_new && !may_be) detail::fail({"CheckpointContents: \"", name, "\" is there already"});
    return !is_new;
  }

  Communicator ranks_;
  MeshPlace place_;
  Communicator job_;
  std::vector<std::pair<std::string, int>> named_sizes_;
  std::set<std::string> names_;
  std::vector<detail::CheckpointBlock> blocks_;
  std::vector<std::pair<std::string, std::int64_t*>> numbers_;
};

namespace detail {

inline constexpr Index checkpoint_group_bytes = 1 << 20;  // rows with a checksum, of the whole tensor

constexpr Index group_rows_of(Index row_bytes) {
  return row_bytes <= 0 ? 1 : std::max<Index>(1, checkpoint_group_bytes / row_bytes);
}

/// The contents of all ranks together.
struct ContentsOfAll {
  std::vector<CheckpointTensor> tensors;  ///< without pieces
  std::map<std::string, std::int64_t> numbers;
  /// Of the blocks that this rank is to save, if the rows are its: which tensor. Others are copies.
  std::map<const CheckpointBlock*, std::size_t> saved;
};

/// Collective. Throws `std::runtime_error`, on all ranks, if of those that added the same numbers one has others.
inline void check_numbers(const CheckpointContents& contents, std::string_view task) {
  Fnv1a names, values;
  std::string text;
  for (const auto& [name, number] : contents.numbers()) {
    names.add(name + '\0');
    values.add(static_cast<std::uint64_t>(*number));
    if (text.size() < 100) text += (text.empty() ? "\"" : ", \"") + name + "\" " + std::to_string(*number);
  }
  const Index mine[]{std::bit_cast<Index>(names.value), std::bit_cast<Index>(values.value)};
  const std::vector<Index> all = contents.ranks().all_gather(mine);
  throw_on_all_ranks(contents.ranks(), task, [&] {
    for (std::size_t r = 0; 2 * r < all.size(); ++r) {
      if (all[2 * r] != mine[0]) continue;
      if (all[2 * r + 1] == mine[1]) return;
      fail<std::runtime_error>({"other numbers than on rank ", r, ": here ", text});
    }
  });
}

/// Collective. Throws `std::runtime_error`, on all ranks, if they do not agree on a tensor or a number.
inline ContentsOfAll contents_of_all(const CheckpointContents& contents, std::string_view task) {
  const Communicator& ranks = contents.ranks();
  std::vector<TensorOfAll> mine;
  bool tells = ranks.rank() == 0;
  for (const CheckpointBlock& block : contents.blocks()) {
    const AnyTensor& x = block.tensor;
    if (!is_first_rank(x.mesh)) continue;
    tells = true;
    if (block.copy) continue;
    mine.push_back({block.name, stored_as(x.type), x.extents(), text_of(x.layout), x.mesh.rank_in_job()});
  }
  ContentsOfAll all;
  std::map<std::string_view, std::size_t> places;
  const std::vector<TensorOfAll> every_tensor = tensors_of_all(ranks, task, mine);
  for (const TensorOfAll& tensor : every_tensor) {
    places[tensor.name] = all.tensors.size();
    all.tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.layout, 1, {}});
    CheckpointTensor& made = all.tensors.back();
    made.group_rows = group_rows_of(made.row_bytes());
  }
  throw_on_all_ranks(ranks, task, [&] {
    for (const CheckpointBlock& block : contents.blocks()) {
      const auto place = places.find(block.name);
      if (place == places.end())
        fail<std::runtime_error>({"\"", block.name, "\" is not in the contents of all ranks of its mesh"});
      if (!block.copy && every_tensor[place->second].first_rank == block.tensor.mesh.place().ranks.first)
        all.saved[&block] = place->second;
    }
  });
  std::string numbers;
  throw_on_all_ranks(ranks, task, [&] {
    for (const auto& [name, number] : contents.numbers()) {
      if (tells) numbers += Json{name, *number}.dump() + '\n';
    }
  });
  const std::string told = gather_texts(ranks, numbers);
  for (std::string_view rest = told; !rest.empty();) {
    const Json line = json_of(take_part(rest, '\n'));
    const auto name = line[0].get<std::string>();
    const auto value = line[1].get<std::int64_t>();
    const auto [known, is_new] = all.numbers.emplace(name, value);
    if (!is_new && known->second != value) {
      fail<std::runtime_error>(
          {task, ": the number \"", name, "\" is ", known->second, " on a rank and ", value, " on another"});
    }
  }
  return all;
}

/// The rows of its block of a tensor that this rank writes: ranks with the same block divide them.
inline Range own_rows(const AnyTensor& x) {
  const AxisSet copies = x.layout.axes_where([](Placement p) { return !p.is_shard(); });
  return balanced_block(x.box().size[0], group_size(x.mesh.sizes(), x.mesh.axes(), copies),
                        group_rank(x.mesh.sizes(), x.mesh.coordinates(), x.mesh.axes(), copies));
}
inline Index own_bytes(const AnyTensor& x) {
  const AnyBox box = x.box();
  const Index rows = own_rows(x).size;
  return rows > 0 ? box.elements() / box.size[0] * rows * x.element_bytes() : 0;
}

}  // namespace detail

/// The bytes that this rank writes when a checkpoint saves the parameters of a module. Also for a dry mesh.
template <class Module>
Index checkpoint_bytes(Module& module) {
  Index bytes = 0;
  for (const auto& parameter : detail::distinct(detail::named_parameters_of(module)))
    bytes += detail::own_bytes(parameter.cell->stored);
  return bytes;
}
/// The same for the state of an optimizer of these parameters, which is made if it is not there yet.
template <class Optimizer, class Module>
Index checkpoint_bytes(Optimizer& optimizer, Module& module) {
  Index bytes = 0;
  optimizer.for_each_state(
      module, [&](const std::string&, const detail::AnyTensor& x) { bytes += detail::own_bytes(x); },
      [](const std::string&, std::int64_t&) {});
  return bytes;
}

}  // namespace shardwise
