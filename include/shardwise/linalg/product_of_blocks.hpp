// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A matrix product as its plan says: redistributes the operands, whole or panel by panel, multiplies the blocks, and
/// redistributes the result. And its pullback.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/linalg/product.hpp>

namespace shardwise::detail {

/// A matrix, which may be stored as its transpose.
struct ProductOperand {
  AnyTensor stored;
  bool transposed = false;

  constexpr int inner_of_left() const { return transposed ? 0 : 1; }
  constexpr int inner_of_right() const { return transposed ? 1 : 0; }
};

/// How a layout cuts a dimension.
struct Cut {
  Index blocks;
  bool nested = false;  ///< by several axes: blocks of blocks

  constexpr Cut(const Layout& layout, int dim, const MeshSizes& sizes)
      : blocks(group_size(sizes, layout.axes, layout.axes_sharding(dim))) {
    int cutting = 0;
    for (int axis = 0; axis < layout.axes; ++axis) cutting += layout[axis].is_shard(dim) && sizes[axis] > 1;
    nested = cutting > 1;
  }
};

/// The inner index of a product, cut into panels. A panel has a slice of `width` indices of each of `blocks` blocks,
/// and zeros where a block has no more.
struct Panels {
  Index count = 1;
  Index blocks = 1, width = 0;

  /// Two panels of at most `most` bytes, or of one index of each block, where the whole operands have `bytes`.
  constexpr Panels(Index inner, std::initializer_list<Cut> cuts, Index bytes, Index most) {
    for (const Cut& cut : cuts) blocks = std::lcm(blocks, cut.blocks);
    bool equal = inner % blocks == 0;
    if (!equal) {
      equal = std::all_of(cuts.begin(), cuts.end(), [&](const Cut& cut) {
        return !cut.nested && (cut.blocks == 1 || cut.blocks == blocks);
      });
    }
    const Index largest = (inner + blocks - 1) / blocks;
    if (bytes <= most || !equal || largest < 2) {
      width = inner;
      blocks = 1;
      return;
    }
    const double share = static_cast<double>(most) / 2 / static_cast<double>(bytes);
    width = std::max<Index>(1, static_cast<Index>(static_cast<double>(largest) * share));
    count = (largest + width - 1) / width;
  }
  /// This rank's part of a panel of `x`, along its dimension `dim`.
  constexpr AnyTensor take(const AnyTensor& x, int dim, Index panel) const {
    if (count == 1) return x;
    AnyShape shape = x.shape;
    const Index inner = shape[dim];
    shape[dim] = blocks * width;
    AnyTensor part = x;
    part.shape = shape;
    part = part.unwritten(x.layout, MemoryUse::activation);
    if (x.mesh.dry()) return part;
    const AnyBox all = x.box(), box = part.box();
    const Index element = x.element_bytes(), others = all.elements() > 0 ? box.size[1 - dim] : 0;
    auto* to = static_cast<char*>(part.buffer->data);
    const auto* from = static_cast<const char*>(x.buffer->data);
    std::memset(to, 0, static_cast<std::size_t>(box.elements() * element));
    for (Index block = box.begin[dim] / width; block * width < box.begin[dim] + box.size[dim]; ++block) {
      const Range whole = balanced_block(inner, static_cast<int>(blocks), static_cast<int>(block));
      const Range slice = intersection(whole, {whole.begin + panel * width, width});
      const Index place = block * width - box.begin[dim], source = slice.begin - all.begin[dim];
      const Index rows = dim == 0 ? slice.size : others, columns = dim == 0 ? others : slice.size;
      for (Index row = 0; row < rows; ++row) {
        const Index out = dim == 0 ? (place + row) * box.size[1] : row * box.size[1] + place;
        const Index in = dim == 0 ? (source + row) * all.size[1] : row * all.size[1] + source;
        std::memcpy(to + out * element, from + in * element, static_cast<std::size_t>(columns * element));
      }
    }
    return part;
  }
};

/// C (+)= A · B of the local blocks.
template <class T>
constexpr void multiply_blocks(const ProductOperand& a, const ProductOperand& b, const AnyTensor& c,
                               bool accumulate) {
  const AnyBox in_a = a.stored.box(), in_c = c.box();
  const Index m = in_c.size[0], n = in_c.size[1], k = in_a.size[a.inner_of_left()];
  count_work(c.mesh, 2 * m * n * k, (m * k + k * n + m * n) * static_cast<Index>(sizeof(T)));
  if (c.mesh.dry()) return;
  const auto flag = [](bool t) { return t ? kernel::Transpose::yes : kernel::Transpose::no; };
  kernel::gemm(flag(a.transposed), flag(b.transposed), m, n, k, static_cast<const T*>(a.stored.buffer->data),
               a.transposed ? m : k, static_cast<const T*>(b.stored.buffer->data), b.transposed ? k : n,
               static_cast<T*>(c.buffer->data), n, accumulate);
}

/// A · B in the layout `to`.
template <class T>
constexpr AnyTensor product_of(ProductOperand a, ProductOperand b, const Layout& to, Index panel_bytes) {
  if (panel_bytes < 0) fail({"matrix_product: panel_bytes is ", panel_bytes, ", which must be 0 or more"});
  const MeshSizes sizes = a.stored.mesh.sizes();
  const int ka = a.inner_of_left(), kb = b.inner_of_right();
  const ProductExtents extents{a.stored.shape[1 - ka], b.stored.shape[1 - kb], a.stored.shape[ka]};
  if (b.stored.shape[kb] != extents.inner) {
    fail({"matrix_product: A has ", extents.inner, " columns, B has ", b.stored.shape[kb], " rows"});
  }
  const ProductPlan plan =
      product_plan(a.stored.layout, b.stored.layout, to, extents, sizes, {a.transposed, b.transposed});
  const DataType type = a.stored.type;
  const auto copied = [](const AnyTensor& x, const Layout& in) {  // on the rank that has most: all agree
    return same_data(x.layout, in) ? 0 : x.with_layout(in).box_at({}).elements() * x.element_bytes();
  };
  const Panels panels(extents.inner,
                      {Cut(a.stored.layout, ka, sizes), Cut(plan.a, ka, sizes),
                       Cut(b.stored.layout, kb, sizes), Cut(plan.b, kb, sizes)},
                      copied(a.stored, plan.a) + copied(b.stored, plan.b), panel_bytes);
  AnyTensor c(a.stored.mesh, type, plan.c, std::array{extents.rows, extents.columns}, Buffer());
  c = c.unwritten(plan.c, MemoryUse::activation);

  const auto begin = [&](const ProductOperand& x, const Layout& in, int inner, Index panel) {
    return last_step(panels.take(x.stored, inner, panel), in, type);
  };
  auto next_a = begin(a, plan.a, ka, 0), next_b = begin(b, plan.b, kb, 0);
  for (Index panel = 0; panel < panels.count; ++panel) {
    const ProductOperand left{next_a->finish(), a.transposed}, right{next_b->finish(), b.transposed};
    if (panel + 1 < panels.count) {
      next_a = begin(a, plan.a, ka, panel + 1);
      next_b = begin(b, plan.b, kb, panel + 1);
    }
    multiply_blocks<T>(left, right, c, panel > 0);
  }
  return redistributed_to(std::move(c), to, type);
}

/// The pullback of `matrix_product`: dA = dC · Bᵀ, dB = Aᵀ · dC.
template <class T>
class MatrixProductNode final : public TapeNode {
 public:
  struct Operand {
    AnyTensor value;  ///< without a block
    Kept kept;
    Shared<GradientSlot> slot;
  };
  constexpr MatrixProductNode(Operand&& a, Operand&& b, const AnyTensor& dc, const Shared<GradientSlot>& slot,
                              Index panel_bytes)
      : a_(std::move(a)), b_(std::move(b)), dc_(dc), slot_(slot), panel_bytes_(panel_bytes) {
    if (a_.slot) a_.slot->expect();
    if (b_.slot) b_.slot->expect();
  }
  constexpr bool pull_back(BackwardPart) override {
    if (Buffer block = slot_->pass()) {
      const AnyTensor dc = dc_.with(dc_.layout, std::move(block));
      if (a_.slot) give(a_, product_of<T>({dc}, {kept(b_), true}, cotangent(a_.value.layout), panel_bytes_));
      if (b_.slot) give(b_, product_of<T>({kept(a_), true}, {dc}, cotangent(b_.value.layout), panel_bytes_));
    }
    if (a_.slot) a_.slot->settle();
    if (b_.slot) b_.slot->settle();
    return false;
  }

 private:
  static constexpr AnyTensor kept(const Operand& x) { return x.value.with(x.value.layout, x.kept.block()); }
  static constexpr void give(Operand& x, AnyTensor gradient) {
    x.slot->add(std::move(gradient.buffer), element_sum<T>, x.value.mesh.recorder());
  }

  Operand a_, b_;
  AnyTensor dc_;
  ResultSlot slot_;
  Index panel_bytes_;
};

}  // namespace shardwise::detail
