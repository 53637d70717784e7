// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reduces a pending gradient that consists of sparse rows: the rows are gathered, and each rank adds them up.

#include <shardwise/autograd/slot.hpp>
#include <shardwise/tensor/buckets.hpp>

namespace shardwise::detail {

/// The rows of all ranks and, when they have arrived, the gradient, summed in the order of the ids.
class CarriedRows final : public Counted {
 public:
  /// `gradient`: a tensor without a block, in its final layout. `arrival` receives it with a block.
  constexpr CarriedRows(GradientSlot& from, AnyTensor gradient, Shared<CompletionHandler> arrival)
      : gradient_(std::move(gradient)), arrival_(std::move(arrival)) {
    from.take_rows(rows_);
    missing_ = 2 * rows_.size();
  }
  /// Gathers the rows along the axes, with elements sent as `travels`. If the gradient's columns are sharded, only
  /// the local columns are fetched.
  static constexpr void carry(const Shared<CarriedRows>& all, Buckets& buckets, AxisSet axes,
                              DataType travels, Phase phase) {
    const AxisSet columns = all->gradient_.layout.axes_sharding(1);
    for (SparseRows& some : all->rows_) {
      auto bring = [&](AnyTensor& part, AxisSet cut, DataType as) {
        const Layout to = Layout::by_axis(part.layout.axes, [&](int axis) {
          if ((axes >> axis & 1u) == 0) return part.layout[axis];
          return (cut >> axis & 1u) ? shard(part.rank - 1) : replicate;
        });
        buckets.carry(AnyTensor(part), to, as, MemoryUse::gathered, phase,
                      on_completion([all, &part](AnyTensor&& gathered) {
                        part = std::move(gathered);
                        if (--all->missing_ == 0) all->add_up();
                      }));
      };
      bring(some.ids, 0, some.ids.type);
      bring(some.rows, columns, travels);
    }
  }

 private:
  constexpr void add_up() {
    const AnyBox box = gradient_.box();
    GradientSlot sum(MemoryUse::gradient);
    for (SparseRows& some : rows_) {
      some.block = {box.begin[0], box.size[0], box.size[1]};
      sum.add_up(some);
      some.ids = some.rows = {};  // keep the list: `carry` may still be iterating over it
    }
    arrival_->arrived(gradient_.with(gradient_.layout, sum.take()));
  }

  AnyTensor gradient_;
  Shared<CompletionHandler> arrival_;
  PooledList<SparseRows> rows_;
  std::size_t missing_;
};

}  // namespace shardwise::detail
