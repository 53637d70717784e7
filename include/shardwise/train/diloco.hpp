// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DiLoCo (Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023): an optimizer
/// around an optimizer. Replicas train alone for a number of inner steps. Then the mean over replicas of how far their
/// parameters have moved is the gradient of an outer step, and all continue from the new outer parameters.
///
/// ```
/// Mesh<replica, dp, tp> job(world(), {2, any, 4});
/// Model model(job.submesh<dp, tp>());     // one in each replica: gradients are not reduced over `replica`
/// AdamW adamw({.rate = 4e-4});
/// DiLoCo diloco(job.submesh<replica>(), {.inner_steps = 50});
/// diloco.step(model, adamw);              // a step of adamw; every 50th is followed by an outer step
/// ```
/// Replicas may also be jobs of their own: see replica_group.hpp.
/// In a checkpoint, parameters and inner state have a name for each replica: contents.add("replica0.model", model).
/// The outer state is equal in all of them: contents.add("outer", diloco, model).

#include <shardwise/base/hash.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/train/sgd.hpp>

namespace shardwise {

namespace detail {

/// The result of a round, an outer step of replicas that are jobs of their own.
struct ReplicaRound {
  std::int64_t step = 0;  ///< outer steps before it, with whose state all begin
  int trained = 0;        ///< replicas whose terms are in the sum; 0: there is no sum
  bool behind = false;    ///< this replica was, so its state is another now
};
/// `ReplicaGroup::make_round` of a group.
using MakeReplicaRound = ReplicaRound (*)(void* group, std::int64_t step,
                                          std::span<const std::span<char>> state, bool trained,
                                          std::span<const char> terms, std::span<char> sum, DataType type,
                                          std::uint64_t job);

}  // namespace detail

/// With the outer settings {.rate = 1}, replicas take their mean.
struct DiLoCoSettings {
  int inner_steps = 50;  ///< between two outer steps
  SgdUpdate outer{.rate = 0.7, .momentum = 0.9, .nesterov = true};
};

/// Outer parameters and momentum have the compute type, and the layout of the finished gradient: one block each for
/// what a rank updates, on any mesh and ZeRO level. If parameters have master copies, replicas exchange these.
class DiLoCo {
 public:
  /// `replicas`: of the same job as the model's mesh, which contains one of them. `options`: the buckets of the outer
  /// step. Throws `std::invalid_argument` unless inner_steps is at least 1, and as `SGD` does.
  template <MeshAxis Axis>
  constexpr explicit DiLoCo(const Mesh<Axis>& replicas, const DiLoCoSettings& settings = {},
                            const ReduceOptions& options = {})
      : DiLoCo(settings, options) {
    replicas_ = replicas.handle();
  }
  /// Replicas that are jobs of their own, of the same meshes and models: a `ReplicaGroup`, which must live as long as
  /// this. Only the inner steps are in plans and recorders. Errors of `step` are then also those of
  /// `ReplicaGroup::make_round`.
  template <class Group>
    requires requires(Group& group) { group.make_round(0, {}, true, {}, {}, DataType::f32, 0); }
  explicit DiLoCo(Group& group, const DiLoCoSettings& settings = {}, const ReduceOptions& options = {})
      : DiLoCo(settings, options) {
    group_ = &group;
    round_ = [](void* to, auto... arguments) { return static_cast<Group*>(to)->make_round(arguments...); };
  }

  /// For replicas that are jobs of their own, before the first step, also after a checkpoint was loaded: one that is
  /// behind the others waits for their next outer step, and takes their parameters and momentum. Returns `steps()`.
  /// Collective over the replica. Throws as `step`, and `std::invalid_argument` for several compute types.
  template <class Module, class Update>
  std::int64_t join(Module& module, const Optimizer<Update>& inner) {
    know(detail::parameters_of(module));
    if (since_ == 0) take_values(inner);
    for (Outer& outer : outers_) outer.inner_master = inner.master(outer.number);
    exchange(false);
    return steps();
  }
  /// For replicas that are jobs of their own: the inner steps made, by this one or by one whose state it has taken.
  std::int64_t steps() const { return outer_steps_ * settings_.inner_steps + since_; }

  /// `inner.step(module)`; and after every `inner_steps` of these the outer step, which reduces one number for each
  /// number that a rank updates: an all-reduce over replicas for each bucket, in the compute type or in that of
  /// `set_communication`. Whole parameters with sharded state are then gathered again. The first inner step after an
  /// outer one takes over new values that other code has written. Throws as `inner.step`; and
  /// `std::invalid_argument` if the mesh of a parameter is of another job, or contains several replicas.
  template <class Module, class Update, class Problem = detail::visit_problem<Module>>
  constexpr void step(Module& module, Optimizer<Update>& inner) {
    know(detail::parameters_of(module));
    if (since_ == 0) take_values(inner);
    inner.step(module);
    if (++since_ < settings_.inner_steps) return;
    for (Outer& outer : outers_) outer.inner_master = inner.master(outer.number);
    if (group_) return exchange(true);
    make_outer_step();
    since_ = 0;
  }
  template <class Module, class Update, IllFormed Why = detail::visit_problem<Module>>
  Why step(Module&, Optimizer<Update>&);  // see Why

  /// For checkpoints, as `Optimizer::for_each_state`: the outer parameters and the momentum of each trained parameter,
  /// its path with ".outer" or ".momentum", and "inner_steps": those since the last outer step; for replicas that are
  /// jobs of their own also "outer_steps".
  template <class Module, class Tensors, class Numbers>
  void for_each_state(Module& module, Tensors tensors, Numbers numbers) {
    know(detail::parameters_of(module));
    numbers(std::string("inner_steps"), since_);
    if (group_) numbers(std::string("outer_steps"), outer_steps_);
    const std::vector<detail::NamedParameter> named = detail::named_parameters_of(module);
    for (Outer& outer : outers_) {
      detail::AnyTensor tensor = outer.cell->stored.with(outer.cell->layouts.finished, outer.state.master);
      tensor.type = detail::wide(tensor.type);
      tensors(named[outer.number].name + ".outer", tensor);
      tensor.buffer = outer.state.first;
      if (tensor) tensors(named[outer.number].name + ".momentum", tensor);
    }
  }

 private:
  constexpr DiLoCo(const DiLoCoSettings& settings, const ReduceOptions& options)  // of no replicas yet
      : settings_(settings), options_(detail::finishing(options)) {
    if (settings.inner_steps < 1)
      detail::fail({"DiLoCo: inner_steps is ", settings.inner_steps, ", which must be 1 or more"});
    settings.outer.checked();
    if (settings.outer.state != StateType::compute)
      throw std::invalid_argument("DiLoCo: outer.state is bf16, but the outer momentum has the compute type");
  }

  struct Outer {
    Shared<detail::ParameterState> cell;
    std::size_t number = 0;  ///< in the order of `visit`
    OptimizerState state{};  ///< the outer parameters are its master copy
    Buffer inner_master{};   ///< during an outer step
  };

  constexpr void know(const detail::ParameterList& cells) {
    if (!outers_.empty()) return;  // the inner optimizer checks that it is the same list
    for (detail::ParameterState* cell : cells) cell->seen = false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      detail::ParameterState& cell = *cells[i];
      if (cell.layouts.frozen || std::exchange(cell.seen, true)) continue;
      const MeshView& mesh = cell.stored.mesh;
      const auto is_shared = [&](const MeshView& replicas) {
        const auto shared = [&](int rank) { return mesh.place().ranks.find(rank) >= 0; };
        return !mesh.same_job(replicas) || std::ranges::count_if(replicas.place().ranks.all(), shared) != 1;
      };
      if (!group_ && is_shared(MeshView(replicas_))) {
        throw std::invalid_argument(
            "DiLoCo: the model's mesh must be of the same job and have one of the replicas: make it without "
            "their axis, by job.submesh");
      }
      Outer& outer = outers_.emplace_back(Outer{Shared<detail::ParameterState>::to(cell), i});
      const DataType type = detail::wide(cell.stored.type);
      const Index count = cell.stored.with_layout(cell.layouts.finished).local_elements();
      detail::make_zeros(outer.state.master, type, mesh, count);
      if (settings_.outer.state_blocks() > 0) detail::make_zeros(outer.state.first, type, mesh, count);
    }
  }
  template <class Update>
  constexpr void take_values(const Optimizer<Update>& inner) {
    for (Outer& outer : outers_) {
      // Outer parameters that were just taken have more bits than parameters without masters.
      const Buffer master = inner.master(outer.number);
      on_values(outer, master ? master : outer.state.master, 0, 1,
                [](Index count, auto value, auto* parameter) {
                  for (Index i = 0; i < count; ++i) parameter[i] = value.value(i);
                });
    }
  }
  /// Calls f(count, values, outer parameters) for the part of a parameter that this rank updates. Returns that part,
  /// a copy if the rank stores more. Counts `flops` of an element, and `blocks` of state that are read or written.
  template <class F>
  static constexpr detail::AnyTensor on_values(const Outer& outer, const Buffer& master, int flops,
                                               int blocks, F f) {
    detail::ParameterState& cell = *outer.cell;
    cell.await();
    const PhaseScope phase(cell.stored.mesh.recorder(), Phase::optimizer);
    detail::AnyTensor part = cell.stored;
    if (cell.layouts.updated_in_parts) {
      part = detail::changed_locally(cell.stored, cut_like(cell.stored.layout, cell.layouts.finished),
                                     MemoryUse::gathered);
    }
    const Index count = part.local_elements();
    detail::count_work(part.mesh, flops * count, part.buffer->bytes + blocks * outer.state.master->bytes);
    if (part.mesh.dry()) return part;
    detail::with_floating(part.type, [&]<class T>(T) {
      using C = kernel::compute_t<T>;
      C* const masters = master ? static_cast<C*>(master->data) : nullptr;
      f(count, kernel::Updated<T>{static_cast<T*>(part.buffer->data), masters},
        static_cast<C*>(outer.state.master->data));
    });
    return part;
  }
  [[gnu::noinline]] constexpr void make_outer_step() {
    const MeshView replicas(replicas_);
    detail::check_same_on(replicas, "DiLoCo", "inner_steps", settings_.inner_steps, "rate",
                          settings_.outer.rate, "momentum", settings_.outer.momentum);
    const double share = 1. / replicas.sizes()[0];
    detail::Buckets sums(options_.bucket_bytes, options_.in_background);
    detail::Buckets gathers(options_.bucket_bytes, options_.in_background);
    for (Outer& outer : outers_) {
      const DataType type = detail::wide(outer.cell->stored.type);
      const Index bytes = outer.state.master->bytes;
      detail::AnyTensor moved(replicas, type, everywhere(1, partial_sum), Shape<1>{bytes / size_of(type)},
                              allocate_buffer(replicas, bytes, MemoryUse::gradient));
      moved.parameter = static_cast<int>(outer.number);
      on_values(outer, outer.inner_master, 2, 2, [&](Index count, auto value, auto* parameter) {
        using C = std::remove_pointer_t<decltype(parameter)>;
        auto* gradient = static_cast<C*>(moved.buffer->data);
        for (Index i = 0; i < count; ++i)
          gradient[i] = static_cast<C>(share) * (parameter[i] - value.value(i));
      });
      sums.carry(std::move(moved), everywhere(1, replicate), outer.cell->communication.backward_of(type),
                 MemoryUse::gradient, Phase::optimizer,
                 detail::on_completion(
                     [&](detail::AnyTensor&& gradient) { update(outer, gradient.buffer->data, gathers); }));
    }
    sums.finish();
    gathers.finish();
  }
  /// A round of replicas that are jobs of their own: the outer step, or none if no replica has trained.
  [[gnu::noinline]] void exchange(bool trained) {
    detail::Fnv1a job;  // equal in all replicas
    const auto add = [&](const char*, double number) { job.add(std::bit_cast<std::uint64_t>(number)); };
    add("inner_steps", settings_.inner_steps);
    settings_.outer.each_setting(add);
    std::vector<std::span<char>> state;
    std::size_t bytes = 0;
    const DataType type = outers_.empty() ? DataType::f32 : detail::wide(outers_[0].cell->stored.type);
    for (const Outer& outer : outers_) {
      if (detail::wide(outer.cell->stored.type) != type)
        throw std::invalid_argument("DiLoCo: parameters have several compute types, and replicas are jobs");
      const auto own = static_cast<std::size_t>(outer.state.master->bytes);
      for (const Buffer& block : {outer.state.master, outer.state.first})
        if (block) state.emplace_back(static_cast<char*>(block->data), own);
      bytes += own;
      job.add(static_cast<std::uint64_t>(type));
      const detail::AnyBox box = outer.cell->stored.with_layout(outer.cell->layouts.finished).box();
      for (int dim = 0; dim < box.size.size(); ++dim) {
        for (const Index number : {outer.cell->stored.shape[dim], box.begin[dim], box.size[dim]})
          job.add(static_cast<std::uint64_t>(number));
      }
    }
    std::vector<char> terms(trained ? bytes : 0), sum(bytes);
    const auto with_each = [&](std::vector<char>& all, auto f) {  // f(outer, its elements of all)
      std::size_t at = 0;
      for (Outer& outer : outers_) {
        f(outer, all.data() + at);
        at += static_cast<std::size_t>(outer.state.master->bytes);
      }
    };
    if (trained) {
      with_each(terms, [&](Outer& outer, char* at) {
        on_values(outer, outer.inner_master, 2, 2, [&](Index count, auto value, auto* parameter) {
          auto* const term = reinterpret_cast<decltype(parameter)>(at);
          for (Index i = 0; i < count; ++i) term[i] = parameter[i] - value.value(i);
        });
      });
    }
    const detail::ReplicaRound round =
        round_(group_, outer_steps_, state, trained, terms, sum, type, job.value);
    outer_steps_ = round.step + (round.trained > 0 ? 1 : 0);
    if (round.trained == 0 && !round.behind) return;
    detail::Buckets gathers(options_.bucket_bytes, options_.in_background);
    with_each(sum, [&](Outer& outer, char* at) {
      detail::with_floating(type, [&]<class C>(C) {
        const Index count = outer.state.master->bytes / static_cast<Index>(sizeof(C));
        for (C& term : std::span(reinterpret_cast<C*>(at), static_cast<std::size_t>(count)))
          term /= static_cast<C>(std::max(round.trained, 1));
      });
      update(outer, round.trained > 0 ? at : nullptr, gathers);
    });
    gathers.finish();
    since_ = 0;
  }
  /// By the outer gradient; null: values become those of the outer parameters.
  constexpr void update(Outer& outer, const void* gradient, detail::Buckets& gathers) const {
    const auto change = [&](Index count, auto value, auto* parameter) {
      using C = std::remove_pointer_t<decltype(parameter)>;
      if (gradient) {
        settings_.outer.apply(
            count, kernel::Updated<C>{parameter}, static_cast<const C*>(gradient),
            StateElements<C>{outer.state.first ? static_cast<C*>(outer.state.first->data) : nullptr});
      }
      for (Index i = 0; i < count; ++i) value.set(i, parameter[i]);
    };
    const detail::AnyTensor part = on_values(outer, outer.inner_master, settings_.outer.flops(), 5, change);
    outer.inner_master = Buffer();
    const detail::AnyTensor& stored = outer.cell->writable();
    if (outer.cell->layouts.updated_in_parts)
      gathers.add(part, stored, stored.type, MemoryUse::gathered, Phase::optimizer);
  }

  MeshHandle replicas_{};  ///< or a group
  void* group_ = nullptr;
  detail::MakeReplicaRound round_ = nullptr;
  DiLoCoSettings settings_;
  ReduceOptions options_;
  std::vector<Outer> outers_;
  std::int64_t since_ = 0, outer_steps_ = 0;
};

}  // namespace shardwise
