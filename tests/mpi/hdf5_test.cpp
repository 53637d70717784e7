// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// HDF5's files: what is written is read again bit for bit, in every layout, by any other; files that HDF5 itself
/// wrote, in other types; and each thing that can be wrong is an error that says so, on all ranks.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/weights/hdf5.hpp>

#include "scratch_folder.hpp"

namespace shardwise::testing::hdf5 {
namespace {

using Line = Mesh<tp>;
using Grid = Mesh<dp, tp>;
Line line() { return Line(world(), {any}); }
Grid grid() { return Grid(world(), {any, world().size() % 2 == 0 ? 2 : 1}); }

template <class T>
T number(Index i) {
  return std::is_floating_point_v<T> ? static_cast<T>(0.1 * static_cast<double>(3 * i - 1))
                                     : static_cast<T>(3 * i + 1);
}
template <class X>
void check_values(const X& x) {
  const auto whole = redistribute_to<whole_of<X>>(x);
  for (Index i = 0; i < elements(x.shape()); ++i) CHECK(whole.data()[i] == number<typename X::Element>(i));
}

/// Saves a tensor in one layout, and loads it in another.
template <class T, class... Placements, int Rank>
void check(const auto& mesh, const Shape<Rank>& shape) {
  const ScratchFolder folder;
  std::vector<T> values;
  for (Index i = 0; i < elements(shape); ++i) values.push_back(number<T>(i));
  const auto x = distribute<Placements...>(mesh, shape, values);
  save_hdf5(folder / "x.h5", "of/values", x, "again", x);
  const auto y = load_hdf5<T, Rank, Placements...>(mesh, folder / "x.h5", "of/values");
  CHECK(y.shape() == shape);
  check_values(y);
  check_values(load_hdf5<T, Rank, Replicate>(line(), folder / "x.h5", "again"));
}

TEST_CASE("datasets, there and back") {
  check<double, Shard<0>>(line(), Shape<2>{7, 5});
  check<double, Shard<1>>(line(), Shape<2>{7, 5});
  check<double, Shard<0>, Shard<1>>(grid(), Shape<2>{7, 5});
  check<double, Shard<1>, Partial<Sum>>(grid(), Shape<2>{7, 5});
  check<float, Reduced, Shard<0>>(grid(), Shape<1>{9});
  check<float, Shard<2>, Shard<0>>(grid(), Shape<3>{5, 2, 7});
  check<std::int64_t, Replicate, Shard<1>>(grid(), Shape<3>{2, 3, 4});
  check<std::int32_t, Shard<0>>(line(), Shape<1>{2});  // on more ranks than rows
  check<std::int32_t, Shard<0>>(line(), Shape<2>{0, 5});
  check<std::uint8_t, Replicate>(line(), Shape<0>{});
  check<std::uint8_t, Partial<Sum>>(line(), Shape<0>{});
}

/// Rank 0 writes a file as other programs do: chunks of 2 x 2, if there are two dimensions, of this type.
void write_file(const std::filesystem::path& path, const std::string& name, hid_t stored, hid_t type,
                const std::vector<hsize_t>& extents, const void* values) {
  if (world().rank() == 0) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[]{2, 2};
    if (extents.size() == 2) {
      H5Pset_chunk(how, 2, chunk);
      H5Pset_deflate(how, 6);
    }
    const hid_t set = H5Dcreate2(file, name.c_str(), stored, space, H5P_DEFAULT, how, H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
    H5Fclose(file);
  }
  world().barrier();
}

TEST_CASE("types that become others") {
  const ScratchFolder folder;
  std::vector<int> values;
  for (Index i = 0; i < 35; ++i) values.push_back(number<int>(i));
  const auto write = [&](hid_t stored) {
    write_file(folder / "a.h5", "a", stored, H5T_NATIVE_INT, {7, 5}, values.data());
  };
  const auto load = [&](auto as) {
    return error_of([&] {
      using T = decltype(as);
      const auto x = load_hdf5<T, 2, Shard<1>>(line(), folder / "a.h5", "a");
      const auto whole = redistribute_to<whole_of<std::remove_const_t<decltype(x)>>>(x);
      for (std::size_t i = 0; i < values.size(); ++i) CHECK(whole.data()[i] == static_cast<T>(values[i]));
    });
  };
  const auto not_exact = [&](const std::string& kind, const std::string& type) {
    return "load_hdf5: " + (folder / "a.h5").string() + ": a has " + kind + " bits, which elements " + type +
           " do not hold exactly (" + (world().size() == 1 ? "rank 0)" : "all ranks)");
  };
  write(H5T_IEEE_F64BE);
  CHECK(load(double{}) == "no error");
  CHECK(load(float{}) == "no error");
  CHECK(load(std::int64_t{}) == not_exact("floating-point numbers of 64", "i64"));
  write(H5T_IEEE_F32LE);
  CHECK(load(double{}) == "no error");
  write(H5T_STD_I32BE);
  CHECK(load(double{}) == "no error");
  CHECK(load(std::int32_t{}) == "no error");
  CHECK(load(std::int64_t{}) == "no error");
  CHECK(load(float{}) == not_exact("integers of 32", "f32"));
  CHECK(load(std::uint8_t{}) == not_exact("integers of 32", "u8"));
  write(H5T_STD_U32LE);
  CHECK(load(std::int64_t{}) == "no error");
  CHECK(load(std::int32_t{}) == not_exact("unsigned integers of 32", "i32"));
  write(H5T_STD_I64LE);
  CHECK(load(double{}) == not_exact("integers of 64", "f64"));
  write(H5T_STD_I8LE);
  CHECK(load(float{}) == "no error");
  CHECK(load(std::uint8_t{}) == not_exact("integers of 8", "u8"));
  write(H5T_STD_U8LE);
  CHECK(load(std::uint8_t{}) == "no error");
}

TEST_CASE("a file that does not fit: one error on all ranks") {
  const ScratchFolder folder;
  const auto path = folder / "a.h5";
  const auto refused = [&](const std::string& name) {
    const std::string what = error_of([&] { load_hdf5<double, 2, Shard<0>>(line(), path, name); }),
                      start = "load_hdf5: " + path.string() + ": ";
    REQUIRE(what.starts_with(start));
    return what.substr(start.size(), what.rfind(" (") - start.size());
  };
  CHECK(refused("a") == "cannot be opened: No such file or directory");
  folder.file("a.h5", "not of HDF5, but long enough for its start");
  CHECK(has(refused("a"), "it is not a file of HDF5, or is damaged: HDF5 reports: "));
  const std::vector<double> values(35, 1.5);
  write_file(path, "a", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {7, 5}, values.data());
  CHECK(has(refused("group/b"), "it has no dataset group/b: HDF5 reports: "));
  CHECK(has(refused("/"), "it has no dataset /: HDF5 reports: "));
  CHECK(has(refused(""), "it has no dataset : HDF5 reports: "));
  std::string bytes = bytes_of_file(path);
  bytes.resize(bytes.size() - 100);
  world().barrier();
  folder.file("a.h5", bytes);
  CHECK(has(refused("a"), "it is not a file of HDF5, or is damaged: HDF5 reports: truncated file"));
  write_file(path, "a", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {35}, values.data());
  CHECK(refused("a") == "a has 1 dimensions, expected 2");
  const hid_t letters = H5Tcopy(H5T_C_S1);
  write_file(path, "a", letters, letters, {7, 5}, values.data());
  H5Tclose(letters);
  CHECK(refused("a") == "a has elements that are not numbers");
}

TEST_CASE("a file that cannot be written: one error on all ranks, and nothing stays") {
  const ScratchFolder folder;
  const auto x = full<double, Shard<0>>(line(), {7, 5}, 2.);
  CHECK(has(error_of([&] { save_hdf5(folder / "none/x.h5", "x", x); }), "cannot be created: No such file"));
  folder.file("x.h5", "what was there");
  const auto names = [&](const std::string& one, const std::string& other) {
    return error_of([&] { save_hdf5(folder / "x.h5", one, x, other, x); });
  };
  const std::string start = "save_hdf5: " + (folder / "x.h5").string() + ": a dataset cannot be named ";
  CHECK(names("x", "x").starts_with(start + "x: HDF5 reports: "));
  CHECK(names("x", "x/y").starts_with(start + "x/y: HDF5 reports: "));
  CHECK(names("", "x").starts_with(start + ": HDF5 reports: "));
  world().barrier();
  CHECK(bytes_of_file(folder / "x.h5") == "what was there");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  const auto y = full<double, Shard<0>>(Line(world().on_hosts(0), {any}), {7, 5}, 2.);
  CHECK_THROWS_WITH_AS(save_hdf5(folder / "x.h5", "x", x, "y", y),
                       "save_hdf5: y is on another mesh than the first tensor", std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::hdf5
