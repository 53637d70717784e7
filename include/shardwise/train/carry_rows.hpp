// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A pending gradient that is the rows of a few tokens travels as these: they are gathered, and added up by each rank.

#include <shardwise/autograd/slot.hpp>
#include <shardwise/tensor/buckets.hpp>

namespace shardwise::detail {

/// The rows of all ranks; when they are there, the gradient, added up in the order of the tokens.
class CarriedRows final : public Counted {
 public:
  /// `gradient`: a tensor without a block, in the layout that it is to have. `arrival` gets it with one.
  constexpr CarriedRows(GradientSlot& from, AnyTensor gradient, Shared<Arrival> arrival)
      : gradient_(std::move(gradient)), arrival_(std::move(arrival)) {
    from.take_rows(rows_);
    missing_ = 2 * rows_.size();
  }
  /// Gathers them along the axes, their elements as `travels`; of the columns, where the gradient is to have some of them, these.
  static constexpr void carry(const Shared<CarriedRows>& all, Buckets& buckets, AxisSet axes,
                              DataType travels, Phase phase) {
    const AxisSet columns = all->gradient_.layout.axes_sharding(1);
    for (TokenRows& some : all->rows_) {
      auto bring = [&](AnyTensor& part, AxisSet cut, DataType as) {
        const Layout to = Layout::by_axis(part.layout.axes, [&](int axis) {
          if ((axes >> axis & 1u) == 0) return part.layout[axis];
          return (cut >> axis & 1u) ? shard(part.rank - 1) : replicate;
        });
        buckets.carry(AnyTensor(part), to, as, MemoryUse::gathered, phase,
                      when_arrived([all, &part](AnyTensor&& gathered) {
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
    for (TokenRows& some : rows_) {
      some.block = {box.begin[0], box.size[0], box.size[1]};
      sum.add_up(some);
      some.ids = some.rows = {};  // the list stays: it may be the last of them that is just being carried
    }
    arrival_->arrived(gradient_.with(gradient_.layout, sum.take()));
  }

  AnyTensor gradient_;
  Shared<Arrival> arrival_;
  PooledList<TokenRows> rows_;
  std::size_t missing_;
};

}  // namespace shardwise::detail
