// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// NumPy's files of one array. Each rank reads and writes only its block.
///
/// ```
/// const auto a = load_npy<double, 2, Shard<0>>(mesh, "a.npy");   // numpy.save("a.npy", a)
/// save_npy("x.npy", x);                                          // numpy.load("x.npy")
/// ```

#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/file.hpp>
#include <shardwise/tensor/distribute.hpp>

namespace shardwise {

namespace detail {

/// The name of an element type in a file, on processors of little endian; none for bfloat16.
template <class T>
constexpr std::string_view npy_type() {
  if constexpr (std::is_same_v<T, double>) return "<f8";
  if constexpr (std::is_same_v<T, float>) return "<f4";
  if constexpr (std::is_same_v<T, std::int64_t>) return "<i8";
  if constexpr (std::is_same_v<T, std::int32_t>) return "<i4";
  if constexpr (std::is_same_v<T, std::uint8_t>) return "|u1";
  return "";
}

/// The extents in a file's header, a Python dictionary, and where its numbers begin. Throws `std::runtime_error` unless
/// the file has `rank` dimensions of elements `type`, last index fastest, and all its numbers.
struct NpyHeader {
  std::vector<Index> shape;
  Index begin;

  NpyHeader(const File& file, std::string_view type, std::size_t rank, Index element_bytes) {
    const std::string path = file.path().string();
    const auto refuse = [&](std::initializer_list<TextPart> parts) {
      fail<std::runtime_error>({path, ": ", text(parts)});
    };
    char start[12]{};
    if (file.read_some(start, 12, 0) < 12 || std::string_view(start, 6) != "\x93NUMPY")
      refuse({"it is not a file of NumPy"});
    const auto byte = [&](int i) { return static_cast<Index>(static_cast<unsigned char>(start[i])); };
    const bool wide = byte(6) >= 2;
    const Index length = byte(8) + (byte(9) << 8) + (wide ? (byte(10) << 16) + (byte(11) << 24) : 0);
    begin = (wide ? 12 : 10) + length;
    if (begin > file.size())
      refuse({"its header ends at byte ", begin, ", but the file has ", file.size(), " bytes"});
    std::string header(static_cast<std::size_t>(length), ' ');
    file.read(header.data(), length, begin - length);
    const auto value_of = [&](const char* key) {
      const std::size_t at = header.find("'" + std::string(key) + "'"), colon = header.find(':', at);
      const std::size_t value = header.find_first_not_of(' ', colon == header.npos ? colon : colon + 1);
      if (at == header.npos || value == header.npos) refuse({"its header lacks '", key, "'"});
      return std::string_view(header).substr(value);
    };
    const std::string_view descr = value_of("descr"), order = value_of("fortran_order"),
                           extents = value_of("shape");
    const std::string_view found =
        descr.starts_with('\'') ? descr.substr(0, descr.find('\'', 1) + 1) : "structures";
    if (found != "'" + std::string(type) + "'")
      refuse({"its elements are ", found, ", expected '", type, "'"});
    if (!order.starts_with("False"))
      refuse({"its first index is the fastest: save numpy.ascontiguousarray(a), or its transpose"});
    const std::string_view said = extents.substr(0, extents.find(')') + 1);
    const Index most = file.size();  // larger numbers are too large, too
    Index count = 1;
    for (std::size_t i = 0; i < said.size(); ++i) {
      const auto digit = [&] { return said[i] >= '0' && said[i] <= '9'; };
      if (!digit()) continue;
      Index extent = 0;
      for (; digit(); ++i) extent = std::min(Index{1} << 59, 10 * extent + (said[i] - '0'));
      shape.push_back(extent);
      count = extent == 0 || count <= most / extent ? count * extent : most;
    }
    if (shape.size() != rank) refuse({"it has ", shape.size(), " dimensions, expected ", rank});
    if (count * element_bytes != file.size() - begin) {
      refuse({"its shape is ", said, ", of ", element_bytes, " bytes each, but ", file.size() - begin,
              " bytes follow"});
    }
  }
};

}  // namespace detail

/// An array of `Rank` dimensions of T: double, float, integers. All ranks must see the file. Collective: throws
/// `std::runtime_error` on all ranks if it cannot be read, is cut, or holds another type, number of dimensions or
/// order. Where the tensor becomes `Partial<Sum>`, the first rank takes the values.
template <class T, int Rank, class... Placements, class MeshType,
          WellFormed Fine = detail::distributed_problem<T, Rank, MeshType, Placements...>>
  requires(!detail::npy_type<T>().empty())
auto load_npy(const MeshType& mesh, const std::filesystem::path& path) {
  Shape<Rank> shape{};
  std::optional<File> file;
  Index begin = 0;
  throw_on_all_ranks(mesh.communicator(), "load_npy", [&] {
    file.emplace(path, O_RDONLY);
    const detail::NpyHeader header(*file, detail::npy_type<T>(), Rank, sizeof(T));
    std::copy(header.shape.begin(), header.shape.end(), shape.begin());
    begin = header.begin;
  });
  auto x = empty<T, Placements...>(mesh, shape);
  throw_on_all_ranks(mesh.communicator(), "load_npy", [&] {
    const auto block = x.writable();
    if (adds_zeros(x.layout, mesh.coordinates())) {
      std::fill_n(block.data, block.elements(), T{0});
      return;
    }
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      file->read(block.data + local, count * Index{sizeof(T)}, begin + global * Index{sizeof(T)});
    });
  });
  return x;
}

/// Writes a tensor under a temporary name, which becomes `path` when it is complete. Finishes pending sums. Collective:
/// throws `std::runtime_error` on all ranks if it cannot be written.
template <TensorType X>
  requires(!detail::npy_type<typename X::Element>().empty())
void save_npy(const std::filesystem::path& path, const X& x) {
  using T = typename X::Element;
  const auto finished = redistribute_to<with_layout<X, packed(without_pending(X::layout, replicate))>>(x);
  const Communicator& ranks = x.mesh().communicator();
  std::string header =
      "{'descr': '" + std::string(detail::npy_type<T>()) + "', 'fortran_order': False, 'shape': (";
  for (const Index extent : x.shape()) header += std::to_string(extent) + ", ";
  if constexpr (X::rank > 0) header.resize(header.size() - (X::rank == 1 ? 1 : 2));  // as NumPy writes it
  header += "), }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 10, ' ');  // numbers begin at a multiple of 64 bytes
  header.back() = '\n';
  const auto length = static_cast<unsigned>(header.size());
  header = "\x93NUMPY" + std::string{1, 0, static_cast<char>(length & 255u), static_cast<char>(length >> 8)} +
           header;

  std::optional<TemporaryFile> made;
  throw_on_all_ranks(ranks, "save_npy", [&] {
    if (ranks.rank() != 0) return;
    made.emplace(path);
    made->file().write(header, 0);
  });
  const std::string temporary = ranks.broadcast(made ? made->path().string() : "");
  constexpr auto whole = decltype(finished)::layout.axes_where([](Placement p) { return !p.is_shard(); });
  bool writes = true;  // the first rank of those with this block
  for (int axis = 0; axis < X::MeshOf::axes; ++axis)
    writes = writes && ((whole >> axis & 1u) == 0 || x.mesh().coordinates()[axis] == 0);
  throw_on_all_ranks(ranks, "save_npy", [&] {
    if (!writes) return;
    const File file(temporary, O_WRONLY);
    const auto block = finished.view();
    detail::for_each_run(block, [&](Index local, Index global, Index count) {
      file.write(
          {reinterpret_cast<const char*>(block.data + local), static_cast<std::size_t>(count) * sizeof(T)},
          static_cast<Index>(header.size()) + global * Index{sizeof(T)});
    });
    file.sync();
  });
  throw_on_all_ranks(ranks, "save_npy", [&] {
    if (made) made->commit();
  });
}

}  // namespace shardwise
