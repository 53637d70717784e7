// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Datasets in HDF5's files. All ranks read and write together, each its block (MPI-IO).
///
/// ```
/// const auto a = load_hdf5<double, 2, Shard<0>>(mesh, "a.h5", "group/a");   // h5py: file["group/a"] = a
/// save_hdf5("x.h5", "u", u, "s", s);                                        // a new file of two datasets
/// ```
/// Only this header needs HDF5, one that was built with the program's MPI. A program that includes it links that.

#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/tensor/distribute.hpp>

#include <hdf5.h>  // after comm/mpi.hpp, which leaves out what MPI once had for C++

#ifndef H5_HAVE_PARALLEL
#error "shardwise/weights/hdf5.hpp needs an HDF5 that was built with MPI (Debian: libhdf5-openmpi-dev)"
#endif

namespace shardwise {

namespace detail {

/// An identifier of HDF5, released with this object.
class Hdf5Id {
 public:
  Hdf5Id(hid_t id = H5I_INVALID_HID) : id_(id) {}
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Id() { release(); }
  int release() { return id_ < 0 ? 0 : H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
};

/// While it lives, HDF5 does not print its errors.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  QuietHdf5& operator=(QuietHdf5&&) = delete;
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// The result of a call of HDF5. If it is a failure, throws `std::runtime_error` with the innermost of its reasons,
/// which HDF5 forgets in its next call: also in that of a destructor.
template <class Result>
Result hdf5_result(Result result, const Path& path, std::string_view problem) {
  if (result >= 0) return result;
  std::string reason;
  const auto take_first = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    auto& first =
        *static_cast<std::string*>(to);  // reasons of plugins are about folders, not about what is missing
    if (first.empty() && error->desc && error->maj_num != H5E_PLUGIN) first = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  fail<std::runtime_error>({path.string(), ": ", problem, ": HDF5 reports: ", without_controls(reason)});
}

/// How all ranks open a file, and how they transfer data, together.
inline Hdf5Id hdf5_access(const Communicator& ranks) {
  if (ranks.native() == MPI_COMM_NULL) throw std::runtime_error("HDF5 needs MPI, which a simulation lacks");
  Hdf5Id access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, ranks.native(), MPI_INFO_NULL);
  return access;
}

template <class T>
hid_t hdf5_type() {
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  return H5T_NATIVE_UINT8;
}

/// The extents of a dataset. Throws `std::runtime_error` unless it has `Rank` dimensions, and elements that become T.
template <class T, int Rank>
Shape<Rank> hdf5_shape(const Path& path, const std::string& name, hid_t space, hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  const bool whole = kind == H5T_INTEGER, has_sign = whole && H5Tget_sign(type) != H5T_SGN_NONE;
  const Index bits = static_cast<Index>(H5Tget_precision(type));
  const bool fits =
      whole ? bits - has_sign <= std::numeric_limits<T>::digits && (std::is_signed_v<T> || !has_sign)
            : kind == H5T_FLOAT && std::is_floating_point_v<T>;
  const auto refuse = [&](std::initializer_list<TextPart> parts) {
    fail<std::runtime_error>({path.string(), ": ", name, " ", text(parts)});
  };
  if (!whole && kind != H5T_FLOAT) refuse({"has elements that are not numbers"});
  if (!fits) {
    refuse({"has ", whole ? has_sign ? "integers" : "unsigned integers" : "floating-point numbers", " of ",
            bits, " bits, which elements ", name_of(data_type_of<T>()), " do not hold exactly"});
  }
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank != Rank) refuse({"has ", rank, " dimensions, expected ", Rank});
  if (H5Sget_simple_extent_type(space) == H5S_NULL) refuse({"is empty"});
  hsize_t extents[std::max(Rank, 1)]{};
  H5Sget_simple_extent_dims(space, extents, nullptr);
  Shape<Rank> shape{};
  constexpr hsize_t most = hsize_t{1} << 59;  // larger ones are too large, too
  for (int dim = 0; dim < Rank; ++dim) shape[dim] = static_cast<Index>(std::min(extents[dim], most));
  return shape;
}

template <int Rank>
Hdf5Id hdf5_space(const Shape<Rank>& shape) {
  hsize_t extents[std::max(Rank, 1)]{};
  std::copy(shape.begin(), shape.end(), extents);
  return Rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(Rank, extents, nullptr);
}

/// Reads or writes, by H5Dread or H5Dwrite, a block of a dataset, or nothing of it. Collective.
template <class T, int Rank>
void hdf5_transfer(auto call, hid_t dataset, const View<T, Rank>& block, bool takes_part, const Path& path,
                   const std::string& problem) {
  const Hdf5Id in_file = H5Dget_space(dataset), in_memory = hdf5_space(block.size);
  if (H5Sget_simple_extent_npoints(in_file) == 0) return;  // MPI-IO has no place for it
  if (!takes_part || block.elements() == 0) {
    H5Sselect_none(in_file);
    H5Sselect_none(in_memory);
  } else if constexpr (Rank > 0) {
    hsize_t begin[Rank], size[Rank];
    std::copy(block.begin.begin(), block.begin.end(), begin);
    std::copy(block.size.begin(), block.size.end(), size);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, begin, nullptr, size, nullptr);
  }
  const Hdf5Id together = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE);
  hdf5_result(call(dataset, hdf5_type<std::remove_const_t<T>>(), in_memory, in_file, together, block.data),
              path, problem);
}

/// Writes datasets to an open file, one after the other.
template <TensorType X, class... More>
  requires std::is_arithmetic_v<typename X::Element>
void write_hdf5(const Communicator& ranks, const Path& path, hid_t file, const std::string& name, const X& x,
                const More&... more) {
  if (!(x.mesh().communicator() == ranks))
    fail({"save_hdf5: ", name, " is on another mesh than the first tensor"});
  const auto finished = redistribute_to<with_layout<X, packed(without_pending(X::layout, replicate))>>(x);
  constexpr AxisSet copied = decltype(finished)::layout.axes_where([](Placement p) { return !p.is_shard(); });
  const bool first = group_rank(x.mesh().sizes(), x.mesh().coordinates(), X::MeshOf::axes, copied) == 0;
  Hdf5Id dataset;
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    const Hdf5Id links = H5Pcreate(H5P_LINK_CREATE), space = hdf5_space(x.shape());
    H5Pset_create_intermediate_group(links, 1);
    dataset = hdf5_result(H5Dcreate2(file, name.c_str(), hdf5_type<typename X::Element>(), space, links,
                                     H5P_DEFAULT, H5P_DEFAULT),
                          path, "a dataset cannot be named " + name);
  });
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    hdf5_transfer(H5Dwrite, dataset, finished.view(), first, path, name + " cannot be written");
  });
  if constexpr (sizeof...(More) > 0) write_hdf5(ranks, path, file, more...);
}

}  // namespace detail

/// A dataset of `Rank` dimensions, as a tensor of T: float, double, int32, int64 or uint8. Its floating-point numbers
/// become floats or doubles, rounded to nearest; its integers become T if T holds all of their type exactly, so int32
/// becomes double, and int64 does not. All ranks must see the file. (If only one rank cannot read, as its host fails,
/// HDF5 may wait, until a watchdog ends the job.) Collective: throws `std::runtime_error` on all
/// ranks if it cannot be read, has no such dataset, or one of other types or dimensions. Where the tensor becomes
/// `Partial<Sum>`, the first rank takes the values.
template <class T, int Rank, class... Placements, class MeshType,
          WellFormed Fine = detail::distributed_problem<T, Rank, MeshType, Placements...>>
  requires std::is_arithmetic_v<T>
auto load_hdf5(const MeshType& mesh, const std::filesystem::path& path, const std::string& name) {
  const Communicator& ranks = mesh.communicator();
  const detail::QuietHdf5 quiet;
  throw_on_all_ranks(ranks, "load_hdf5", [&] { File(path, O_RDONLY).size(); });  // before collective calls
  Shape<Rank> shape{};
  detail::Hdf5Id file, dataset;
  throw_on_all_ranks(ranks, "load_hdf5", [&] {
    file = detail::hdf5_result(H5Fopen(path.c_str(), H5F_ACC_RDONLY, detail::hdf5_access(ranks)), path,
                               "it is not a file of HDF5, or is damaged");
    dataset =
        detail::hdf5_result(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path, "it has no dataset " + name);
    const detail::Hdf5Id space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    shape = detail::hdf5_shape<T, Rank>(path, name, space, type);
  });
  auto x = empty<T, Placements...>(mesh, shape);
  throw_on_all_ranks(ranks, "load_hdf5", [&] {
    const detail::FileWork here("reads", path.native());
    const auto block = x.writable();
    const bool zeros = adds_zeros(x.layout, mesh.coordinates());
    if (zeros) std::fill_n(block.data, block.elements(), T{0});
    detail::hdf5_transfer(H5Dread, dataset, block, !zeros, path, name + " cannot be read");
  });
  return x;
}

/// Writes a dataset for each name and tensor under a temporary name, which becomes `path` when it is complete: a file
/// that was there is replaced. A name may have groups, "group/x". Finishes pending sums. Collective: throws
/// `std::runtime_error` on all ranks if it cannot be written, or a name is empty or given twice, and
/// `std::invalid_argument` if the tensors are on several meshes.
template <TensorType X, class... More>
  requires std::is_arithmetic_v<typename X::Element>
void save_hdf5(const std::filesystem::path& path, const std::string& name, const X& x, const More&... more) {
  const Communicator& ranks = x.mesh().communicator();
  const detail::QuietHdf5 quiet;
  const detail::FileWork here("writes", path.native());
  std::optional<TemporaryFile> made;
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    if (ranks.rank() == 0) made.emplace(path);
  });
  const std::string temporary = ranks.broadcast(made ? made->path().string() : "");
  detail::Hdf5Id file;
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    file = detail::hdf5_result(
        H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, detail::hdf5_access(ranks)), path,
        "it cannot be made");
  });
  detail::write_hdf5(ranks, path, file, name, x, more...);
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    detail::hdf5_result(H5Fflush(file, H5F_SCOPE_GLOBAL), path, "it cannot be flushed to the device");
  });
  throw_on_all_ranks(ranks, "save_hdf5", [&] {
    detail::hdf5_result(file.release(), path, "it cannot be written");
    if (made) made->commit();
  });
}

}  // namespace shardwise
