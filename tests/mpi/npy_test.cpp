// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// NumPy's files: literal bytes that NumPy 1.24 wrote are read, and written again bit for bit, in every layout; and
/// each thing that can be wrong with a file is an error that says so.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/weights/npy.hpp>

#include "scratch_folder.hpp"

namespace shardwise::testing::npy {
namespace {

using Line = Mesh<tp>;
using Grid = Mesh<dp, tp>;
Line line() { return Line(world(), {any}); }
Grid grid() { return Grid(world(), {any, world().size() % 2 == 0 ? 2 : 1}); }

/// A file of version 1 with this dictionary, which NumPy fills up to 128 bytes.
std::string file(std::string dictionary, const std::string& numbers) {
  dictionary.resize(117, ' ');
  return "\x93NUMPY" + std::string{1, 0, 'v', 0} + dictionary + "\n" + numbers;
}
template <class T>
std::string numbers(Index count) {
  std::string bytes;
  for (Index i = 0; i < count; ++i) {
    const T number = static_cast<T>(3 * i - 1);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(T));
  }
  return bytes;
}

template <class T, int Rank, class... Placements>
void check(const auto& mesh, const std::string& bytes) {
  const ScratchFolder folder;
  const auto in = folder.file("in.npy", bytes), out = folder / "out.npy";
  const auto x = load_npy<T, Rank, Placements...>(mesh, in);
  const auto whole = redistribute_to<whole_of<std::remove_const_t<decltype(x)>>>(x);
  for (Index i = 0; i < elements(x.shape()); ++i) CHECK(whole.data()[i] == static_cast<T>(3 * i - 1));
  save_npy(out, x);
  CHECK(bytes_of_file(out) == bytes);
}

TEST_CASE("NumPy's files, there and back") {
  const std::string of_9 =
      file("{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }", numbers<float>(9));
  check<float, 1, Shard<0>>(line(), of_9);
  check<float, 1, Shard<0>, Partial<Sum>>(grid(), of_9);
  const std::string of_7_by_5 =
      file("{'descr': '<f8', 'fortran_order': False, 'shape': (7, 5), }", numbers<double>(35));
  check<double, 2, Shard<0>>(line(), of_7_by_5);
  check<double, 2, Shard<1>>(line(), of_7_by_5);
  check<double, 2, Shard<0>, Shard<1>>(grid(), of_7_by_5);
  check<double, 2, Reduced, Shard<1>>(grid(), of_7_by_5);
  check<std::int64_t, 3, Replicate, Shard<1>>(
      grid(),
      file("{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3, 4), }", numbers<std::int64_t>(24)));
  check<std::int32_t, 2, Shard<0>>(line(),
                                   file("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 5), }", ""));
  check<std::int32_t, 2, Shard<0>>(
      line(), file("{'descr': '<i4', 'fortran_order': False, 'shape': (3000000000, 0), }", ""));
  check<std::uint8_t, 0, Replicate>(
      line(), file("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", numbers<std::uint8_t>(1)));
}

TEST_CASE("a file that does not fit: one error on all ranks") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const auto path = folder.file("in.npy", bytes);
    try {
      load_npy<double, 2, Shard<0>>(line(), path);
    } catch (const std::runtime_error& error) {
      const std::string what = error.what(), start = "load_npy: " + path.string() + ": ";
      REQUIRE(what.starts_with(start));
      return what.substr(start.size(), what.rfind(" (") - start.size());
    }
    return std::string("no error");
  };
  const auto of = [&](const std::string& type, const std::string& order, const std::string& shape) {
    return file("{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }",
                numbers<double>(6));
  };
  CHECK(refused(of("<f8", "False", "(2, 3)")) == "no error");
  CHECK(refused(of("<f8", "True", "(2, 3)")) ==
        "its first index is the fastest: save numpy.ascontiguousarray(a), or its transpose");
  CHECK(refused(of(">f8", "False", "(2, 3)")) == "its elements are '>f8', expected '<f8'");
  CHECK(refused(of("<f8", "False", "(6,)")) == "it has 1 dimensions, expected 2");
  CHECK(refused(of("<f8", "False", "(2, 4)")) == "its shape is (2, 4), of 8 bytes each, but 48 bytes follow");
  CHECK(refused(of("<f8", "False", "(3000000000, 3000000000)")) ==
        "its shape is (3000000000, 3000000000), of 8 bytes each, but 48 bytes follow");
  CHECK(refused("") == "it is not a file of NumPy");
  CHECK(refused("not of NumPy, but long enough for its start") == "it is not a file of NumPy");
  CHECK(refused("\x93NUMPY" + std::string{1, 0, 'v', 0} + "{'descr'") ==
        "its header ends at byte 128, but the file has 18 bytes");
  CHECK(refused(file("{'descr': '<f8', 'shape': (2, 3), }", numbers<double>(6))) ==
        "its header lacks 'fortran_order'");
  CHECK(refused(file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2, 3), }",
                     numbers<double>(6))) == "its elements are structures, expected '<f8'");
  world().barrier();
}

}  // namespace
}  // namespace shardwise::testing::npy
