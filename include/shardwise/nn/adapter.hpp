// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The two small weights of a `Linear` whose style has a `Lora`, and the weight that both make together.

#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/parallel/lora.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

namespace detail {
/// Of the products of a layer with this style.
template <class Style>
inline constexpr SumOrder sum_order = gives_same_bits<Style> ? SumOrder::fixed : SumOrder::fastest;
}  // namespace detail

/// Beside a weight `W`, [out…, in…], with `OutDims` dimensions of output features. B is 0 at first, so the product does
/// not change.
template <class Style, TensorType W, int OutDims>
class Adapter {
  using Low = typename detail::LowRankIn<Style>::type;
  using MeshType = typename W::MeshOf;
  static constexpr int in_dims = W::rank - OutDims;

  /// Sharded where the weight is sharded in a dimension d with `first` <= d < `last`, as dimension d - `first` + `as`;
  /// elsewhere whole, and `Reduced` if each rank uses it for its own block.
  static constexpr Layout beside(const Layout& weight, int first, int last, int as, Placement elsewhere) {
    return Layout::by_axis(MeshType::axes, [&](int axis) {
      const Placement p = weight[axis];
      if (!p.is_shard()) return p;
      return p.dim() >= first && p.dim() < last ? shard(p.dim() - first + as) : elsewhere;
    });
  }
  static constexpr Layout down_beside(const Layout& weight, Placement elsewhere) {
    return beside(weight, OutDims, W::rank, 1, elsewhere);
  }
  static constexpr Layout up_beside(const Layout& weight, Placement elsewhere) {
    return beside(weight, 0, OutDims, 0, elsewhere);
  }
  template <TensorType X, int Out>
  using Trained = Parameter<X, packed(detail::sharding_of<Style, MeshType>(X::layout, {0, Out},
                                                                           {Out, X::rank - Out}, false))>;

 public:
  using Down =
      tensor_with<typename W::Element, 1 + in_dims, MeshType, packed(down_beside(W::layout, reduced))>;
  using Up = tensor_with<typename W::Element, OutDims + 1, MeshType, packed(up_beside(W::layout, reduced))>;

  /// Throws `std::invalid_argument` if a size that is given has no rank or no alpha.
  constexpr Adapter(const MeshType& mesh, const Shape<in_dims>& in, const Shape<OutDims>& out,
                    const LoraSize& size = {})
      : size_(size.rank == 0 && size.alpha == 0 ? LoraSize{Low::rank, Low::alpha} : checked(size)),
        down(mesh, joined(Shape<1>{size_.rank}, in), Init::fan_in(shardwise::elements(in))),
        up(mesh, joined(out, Shape<1>{size_.rank}), Init::constant(0)) {}

  /// Its rank and alpha.
  constexpr const LoraSize& size() const { return size_; }

  /// The term that the adapter adds to the layer's product.
  constexpr auto operator()(const Operand auto& x) const {
    constexpr SumOrder order = detail::sum_order<Style>;
    return linear<1, order>(scaled(linear<in_dims, order>(x, down)), up);
  }

  constexpr void visit(auto&& f) {
    f("lora_A.weight", down);
    f("lora_B.weight", up);
  }

  /// w + alpha / rank · B A, in the layout in which the weight is stored. Collective over the mesh.
  template <class P>
  typename P::Stored merged_with(const P& weight) const {
    using Stored = typename P::Stored;
    static_assert(Stored::is_float,
                  "adapters are not merged into quantised weights: save the adapters alone");
    const Stored& w = weight.stored();
    const auto a = scaled(
        redistribute_to<with_layout<Down, packed(down_beside(Stored::layout, replicate))>>(down.stored()));
    const auto b =
        redistribute_to<with_layout<Up, packed(up_beside(Stored::layout, replicate))>>(up.stored());
    Stored sum(w.mesh(), w.shape());
    const auto block = sum.writable();
    kernel::copy(block.elements(), w.data(), block.data);
    const Index rows = block.extent(0, OutDims), columns = block.extent(OutDims, W::rank);
    using kernel::Transpose;
    if (rows > 0 && columns > 0) {
      const Index rank = size_.rank;
      kernel::gemm(Transpose::no, Transpose::no, rows, columns, rank, b.data(), rank, a.data(), columns,
                   block.data, columns, true);
    }
    return sum;
  }

 private:
  static constexpr const LoraSize& checked(const LoraSize& size) {
    if (size.rank < 1 || size.alpha < 1) {
      detail::fail(
          {"Lora: an adapter of rank ", size.rank, " and alpha ", size.alpha, "; both must be 1 or more"});
    }
    return size;
  }
  constexpr auto scaled(const Operand auto& x) const {
    if (size_.alpha == size_.rank) return x;
    return scale(x, static_cast<double>(size_.alpha) / size_.rank);
  }

  LoraSize size_;  // first, because the others are made from it

 public:
  Trained<Down, 1> down;
  Trained<Up, OutDims> up;
};

}  // namespace shardwise
