// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Many tensors that change their layout alike, in one collective: gradients of a bucket, parameters of a unit.
///
/// Each tensor has a block where it is whole along some axes, and one where it is cut along them. An all-gather
/// goes from the parts to the whole, a reduce-scatter from the whole to the parts; an all-reduce has only wholes.

#include <shardwise/memory/pooled_list.hpp>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/tensor/transfer.hpp>

namespace shardwise::detail {

/// What is done with a tensor when it has arrived.
class Arrival : public Pooled<Arrival> {
 public:
  constexpr virtual void arrived() = 0;
};

/// A tensor in a bundle. Its shape has ones behind it, so that tensors of any rank are of one type.
struct BundledTensor {
  Shape<max_rank> shape{};
  Layout cut;          ///< the layout of `part`; of an all-reduce: any, but for the axes of the reduction
  Buffer whole, part;  ///< an all-reduce has no part
  Index elements = 0;  ///< of `whole`
  Arrival* arrival = nullptr;

  template <int Rank>
  static constexpr Shape<max_rank> padded(const Shape<Rank>& shape) {
    Shape<max_rank> result{};
    for (int dim = 0; dim < result.size(); ++dim) result[dim] = dim < shape.size() ? shape[dim] : 1;
    return result;
  }
};

/// How a bundle travels.
struct BundleWay {
  Collective kind = Collective::none;
  AxisSet axes = 0;
  MemoryUse use = MemoryUse::gathered;  ///< what the memory for packing is counted as
  Phase phase = Phase::forward;
  friend constexpr bool operator==(const BundleWay&, const BundleWay&) = default;
};

class BundleBase : public Pooled<BundleBase> {
 public:
  /// Packs, and begins to communicate; in the background if it may.
  constexpr virtual void start(bool background) = 0;
  /// Waits, unpacks, and tells the arrivals.
  constexpr virtual void finish() = 0;
  /// Moves a communication in the background on.
  constexpr virtual void progress() = 0;

  const int* const type;  ///< which derived class this is: the address of its `bundle_type`
  BundleBase* next = nullptr;

 protected:
  constexpr explicit BundleBase(const int* derived_type) : type(derived_type) {}
};

template <class T, class MeshType>
inline constexpr int bundle_type = 0;

/// Tensors with elements of type `T`. Add them, `start`, then `finish`.
template <class T, class MeshType>
class Bundle final : public BundleBase {
  using BoxOf = Box<max_rank>;

 public:
  constexpr Bundle(const MeshType& mesh, const BundleWay& way)
      : BundleBase(&bundle_type<T, MeshType>), mesh_(mesh), way_(way) {}
  constexpr ~Bundle() { drop(); }

  constexpr bool goes(const MeshType& mesh, const BundleWay& way) const {
    return mesh_ == mesh && way_ == way;
  }
  /// Elements of a tensor on the first rank of the mesh, which has no fewer than others: a number that is the same on
  /// every rank.
  static constexpr Index most_of(const BundledTensor& tensor, const MeshType& mesh, const BundleWay& way) {
    return local_box(tensor.shape, uncut(tensor, way), mesh.sizes(), MeshSizes{}).elements();
  }
  /// The same of all tensors.
  constexpr Index most() const { return most_; }

  /// `most`: `most_of` it. The arrival now belongs to the bundle.
  constexpr void add(BundledTensor tensor, Index most) {
    elements_ += tensor.elements;
    most_ += most;
    tensors_.push_back(std::move(tensor));
  }

  constexpr void start(bool background) override {
    if (elements_ == 0) return;  // nor have the others on these axes any
    PhaseScope phase(mesh_.recorder(), way_.phase);
    if (auto* recorder = mesh_.recorder()) recorder->communicate(way_.kind, way_.axes, bytes_of(elements_));
    if constexpr (!MeshType::dry) count_parts();
    prepare();
    if constexpr (!MeshType::dry) communicate(background);
  }

  constexpr void finish() override {
    if constexpr (!MeshType::dry) {
      if (elements_ > 0) {
        request_.wait();
        unpack();
      }
    }
    packed_ = landed_ = Buffer();
    for (BundledTensor& tensor : tensors_) {
      tensor.whole = tensor.part = Buffer();
      if (tensor.arrival) tensor.arrival->arrived();
    }
    drop();
  }

  constexpr void progress() override {
    if constexpr (!MeshType::dry) request_.test();
  }

 private:
  static constexpr Index bytes_of(Index count) { return count * static_cast<Index>(sizeof(T)); }
  static T* data(const Buffer& buffer) { return static_cast<T*>(buffer.data()); }

  constexpr int members() const { return group_size(mesh_.sizes(), MeshType::axes, way_.axes); }
  constexpr BoxOf part_of(const BundledTensor& tensor, int member) const {
    return local_box(tensor.shape, tensor.cut, mesh_.sizes(),
                     group_member(mesh_.sizes(), mesh_.coordinates(), MeshType::axes, way_.axes, member));
  }
  constexpr int self() const {
    return group_rank(mesh_.sizes(), mesh_.coordinates(), MeshType::axes, way_.axes);
  }
  /// The layout of `tensor.whole`.
  static constexpr Layout uncut(const BundledTensor& tensor, const BundleWay& way) {
    Layout layout = tensor.cut;
    for (int axis = 0; axis < layout.axes; ++axis) {
      if (way.axes >> axis & 1u) layout[axis] = replicate;
    }
    return layout;
  }
  /// The indices of `tensor.whole`: those of all parts.
  constexpr BoxOf whole_of(const BundledTensor& tensor) const {
    return local_box(tensor.shape, uncut(tensor, way_), mesh_.sizes(), mesh_.coordinates());
  }

  /// How many elements all tensors together have on each rank.
  void count_parts() {
    if (way_.kind == Collective::all_reduce) return;
    for (int member = 0; member < members(); ++member) {
      Index count = 0;
      for (const BundledTensor& tensor : tensors_) count += part_of(tensor, member).elements();
      parts_.add(count);
    }
  }
  /// A single tensor whose parts lie one after another needs no packing.
  constexpr bool in_order() const {
    if (tensors_.size() != 1) return false;
    if (way_.kind == Collective::all_reduce) return true;
    const BoxOf whole = whole_of(tensors_.front());
    Index total = 0;
    for (int member = 0; member < members(); ++member) {
      const BoxOf part = part_of(tensors_.front(), member);
      if (part.elements() != 0 && place_of(part, whole) != total) return false;
      total += part.elements();
    }
    return true;
  }

  constexpr Buffer allocate(Index count) const { return Buffer::allocate(mesh_, bytes_of(count), way_.use); }

  /// Packs what goes out; makes room for what comes in.
  constexpr void prepare() {
    if (in_order()) return;
    packed_ = allocate(elements_);
    if constexpr (!MeshType::dry) pack();
    if (way_.kind == Collective::all_reduce) return;
    const bool scatters = way_.kind == Collective::reduce_scatter;
    for (BundledTensor& tensor : tensors_) {  // what was packed is not needed any more
      if (scatters) tensor.whole = Buffer();
    }
    if (scatters && tensors_.size() > 1) landed_ = allocate(own_part());
  }
  constexpr Index own_part() const {
    Index count = 0;
    for (const BundledTensor& tensor : tensors_) count += part_of(tensor, self()).elements();
    return count;
  }

  void pack() const {
    T* place = data(packed_);
    switch (way_.kind) {
      case Collective::all_reduce:
        for (const BundledTensor& tensor : tensors_) {
          kernel::copy(tensor.elements, data(tensor.whole), place);
          place += tensor.elements;
        }
        return;
      case Collective::all_gather:
        place += parts_.offsets[static_cast<std::size_t>(self())];
        for (const BundledTensor& tensor : tensors_) {
          const Index count = part_of(tensor, self()).elements();
          if (count > 0) kernel::copy(count, data(tensor.part), place);
          place += count;
        }
        return;
      default:
        for (int member = 0; member < members(); ++member) {
          for (const BundledTensor& tensor : tensors_) {
            const BoxOf part = part_of(tensor, member);
            copy_part(part, data(tensor.whole), whole_of(tensor), place, part);
            place += part.elements();
          }
        }
    }
  }

  void communicate(bool background) {
    const Communicator& group = mesh_.communicator(way_.axes);
    const BundledTensor& first = tensors_.front();
    constexpr DataType element = data_type<T>;
    constexpr auto sum = ReduceOp::sum;
    if (way_.kind == Collective::all_reduce) {
      T* block = data(packed_ ? packed_ : first.whole);
      if (background) {
        request_ = group.all_reduce_async(block, block, elements_, element, sum);
      } else {
        group.all_reduce(block, block, elements_, element, sum);
      }
    } else if (way_.kind == Collective::all_gather) {
      T* out = data(packed_ ? packed_ : first.whole);
      const T* in = packed_ ? out + parts_.offsets[static_cast<std::size_t>(self())] : data(first.part);
      if (background) {
        request_ = group.all_gather_async(in, out, parts_.counts, parts_.offsets, element);
      } else {
        group.all_gather(in, out, parts_.counts, parts_.offsets, element);
      }
    } else {
      const T* in = data(packed_ ? packed_ : first.whole);
      T* out = data(landed_ ? landed_ : first.part);
      if (background) {
        request_ = group.reduce_scatter_async(in, out, parts_.counts, element, sum);
      } else {
        group.reduce_scatter(in, out, parts_.counts, element, sum);
      }
    }
  }

  void unpack() const {
    if (!packed_) return;
    const T* place = data(packed_);
    switch (way_.kind) {
      case Collective::all_reduce:
        for (const BundledTensor& tensor : tensors_) {
          kernel::copy(tensor.elements, place, data(tensor.whole));
          place += tensor.elements;
        }
        return;
      case Collective::all_gather:
        for (int member = 0; member < members(); ++member) {
          for (const BundledTensor& tensor : tensors_) {
            const BoxOf part = part_of(tensor, member);
            copy_part(part, place, part, data(tensor.whole), whole_of(tensor));
            place += part.elements();
          }
        }
        return;
      default:
        if (!landed_) return;
        place = data(landed_);
        for (const BundledTensor& tensor : tensors_) {
          const Index count = part_of(tensor, self()).elements();
          if (count > 0) kernel::copy(count, place, data(tensor.part));
          place += count;
        }
    }
  }

  constexpr void drop() {
    for (BundledTensor& tensor : tensors_) {
      if (tensor.arrival) destroy_pooled(tensor.arrival);
    }
    tensors_.clear();
    elements_ = most_ = 0;
  }

  struct NoRequest {};

  MeshType mesh_;
  BundleWay way_;
  Index elements_ = 0;
  Index most_ = 0;
  PooledList<BundledTensor> tensors_;
  Pieces parts_;
  Buffer packed_;  // parts in the order of the ranks, each of all tensors; or the wholes, for an all-reduce
  Buffer landed_;  // this rank's parts, reduced
  std::conditional_t<MeshType::dry, NoRequest, Request> request_;
};

}  // namespace shardwise::detail
