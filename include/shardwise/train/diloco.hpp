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
/// In a checkpoint, parameters and inner state have a name for each replica: contents.add("replica0.model", model).
/// The outer state is equal in all of them: contents.add("outer", diloco, model).

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/train/sgd.hpp>

namespace shardwise {

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
      : replicas_(replicas.handle()), settings_(settings), options_(detail::finishing(options)) {
    if (settings.inner_steps < 1)
      detail::fail({"DiLoCo: inner_steps is ", settings.inner_steps, ", which must be 1 or more"});
    settings.outer.checked();
    if (settings.outer.state != StateType::compute)
      throw std::invalid_argument("DiLoCo: outer.state is bf16, but the outer momentum has the compute type");
  }

  /// `inner.step(module)`; and after every `inner_steps` of these the outer step, which reduces one number for each
  /// number that a rank updates: an all-reduce over replicas for each bucket, in the compute type or in that of
  /// `set_communication`. Whole parameters with sharded state are then gathered again. The first inner step after an
  /// outer one takes over new values that other code has written. Throws as `inner.step`; and
  /// `std::invalid_argument` if the mesh of a parameter is of another job, or contains several replicas.
  template <class Module, class Update, class Problem = detail::visit_problem<Module>>
  constexpr void step(Module& module, Optimizer<Update>& inner) {
    know(detail::parameters_of(module));
    if (since_ == 0) {
      for (Outer& outer : outers_) {
        on_values(outer, inner.master(outer.number), 0, 1, [](Index count, auto value, auto* parameter) {
          for (Index i = 0; i < count; ++i) parameter[i] = value.value(i);
        });
      }
    }
    inner.step(module);
    if (++since_ < settings_.inner_steps) return;
    for (Outer& outer : outers_) outer.inner_master = inner.master(outer.number);
    make_outer_step();
    since_ = 0;
  }
  template <class Module, class Update, IllFormed Why = detail::visit_problem<Module>>
  Why step(Module&, Optimizer<Update>&);  // see Why

  /// For checkpoints, as `Optimizer::for_each_state`: the outer parameters and the momentum of each trained parameter,
  /// its path with ".outer" or ".momentum", and "inner_steps": those since the last outer step.
  template <class Module, class Tensors, class Numbers>
  void for_each_state(Module& module, Tensors tensors, Numbers numbers) {
    know(detail::parameters_of(module));
    numbers(std::string("inner_steps"), since_);
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
  struct Outer {
    Shared<detail::ParameterState> cell;
    std::size_t number = 0;  ///< in the order of `visit`
    OptimizerState state{};  ///< the outer parameters are its master copy
    Buffer inner_master{};   ///< during an outer step
  };

  constexpr void know(const detail::ParameterList& cells) {
    if (!outers_.empty()) return;  // the inner optimizer checks that it is the same list
    const MeshView replicas(replicas_);
    for (detail::ParameterState* cell : cells) cell->seen = false;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      detail::ParameterState& cell = *cells[i];
      if (cell.layouts.frozen || std::exchange(cell.seen, true)) continue;
      const MeshView& mesh = cell.stored.mesh;
      const auto shared = [&](int rank) { return mesh.place().ranks.find(rank) >= 0; };
      if (!mesh.same_job(replicas) || std::ranges::count_if(replicas.place().ranks.all(), shared) != 1) {
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
                     [&](detail::AnyTensor&& gradient) { update(outer, gradient.buffer, gathers); }));
    }
    sums.finish();
    gathers.finish();
  }
  constexpr void update(Outer& outer, const Buffer& gradient, detail::Buckets& gathers) const {
    const auto change = [&](Index count, auto value, auto* parameter) {
      using C = std::remove_pointer_t<decltype(parameter)>;
      settings_.outer.apply(
          count, kernel::Updated<C>{parameter}, static_cast<const C*>(gradient->data),
          StateElements<C>{outer.state.first ? static_cast<C*>(outer.state.first->data) : nullptr});
      for (Index i = 0; i < count; ++i) value.set(i, parameter[i]);
    };
    const detail::AnyTensor part = on_values(outer, outer.inner_master, settings_.outer.flops(), 5, change);
    outer.inner_master = Buffer();
    const detail::AnyTensor& stored = outer.cell->writable();
    if (outer.cell->layouts.updated_in_parts)
      gathers.add(part, stored, stored.type, MemoryUse::gathered, Phase::optimizer);
  }

  MeshHandle replicas_;
  DiLoCoSettings settings_;
  ReduceOptions options_;
  std::vector<Outer> outers_;
  std::int64_t since_ = 0;
};

}  // namespace shardwise
