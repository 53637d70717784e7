// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Matrix Market's files: matrices of each form that SciPy 1.10 wrote are read, in every layout; what is written is
/// read again bit for bit; and each thing that can be wrong with a file is an error that names the line.

#include <doctest/doctest.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/weights/matrix_market.hpp>

#include "scratch_folder.hpp"

namespace shardwise::testing::matrix_market {
namespace {

using Line = Mesh<tp>;
using Grid = Mesh<dp, tp>;
Line line() { return Line(world(), {any}); }
Grid grid() { return Grid(world(), {any, world().size() % 2 == 0 ? 2 : 1}); }

/// Reads a file in several layouts.
void check(const std::string& bytes, const Eigen::MatrixXd& expected) {
  const ScratchFolder folder;
  const auto path = folder.file("in.mtx", bytes);
  const auto compare = [&](const auto& x) {
    CHECK(x.shape() == Shape<2>{expected.rows(), expected.cols()});
    CHECK(full_tensor(x).template cast<double>() == expected);
  };
  compare(load_matrix_market<double, Shard<0>>(line(), path));
  compare(load_matrix_market<double, Shard<1>>(line(), path));
  compare(load_matrix_market<float, Shard<0>, Shard<1>>(grid(), path));
  compare(load_matrix_market<double, Shard<1>, Partial<Sum>>(grid(), path));
  compare(load_matrix_market<double, Reduced, Replicate>(grid(), path));
}

TEST_CASE("files of SciPy") {
  const std::string banner = "%%MatrixMarket matrix ";
  Eigen::MatrixXd a(3, 2);
  a << 1.5, -4, 2.25, 0, 1e-3, 7;
  a(2, 0) = 0.125;
  check(banner + "array real general\n%\n3 2\n1.5\n2.25\n0.125\n-4\n0\n7\n", a);
  check(
      "%%matrixmarket MATRIX Array Real General\r\n% words\r\n\r\n 3\t2 \r\n1.5e0\r\n "
      "+2.25\r\n%\n0.125\n\n-4.0\n0\n7",
      a);
  check(banner +
            "coordinate real general\n%\n3 2 6\n3 2 7\n1 1 1\n1 1 5.000e-01\n2 1 2.25\n3 1 0.125\n1 2 -4\n",
        a);
  check(banner + "coordinate integer general\n3 2 2\n3 2 7\n1 2 -4\n",
        (Eigen::MatrixXd(3, 2) << 0, -4, 0, 0, 0, 7).finished());
  check(banner + "coordinate pattern general\n3 2 2\n3 2\n1 2\n",
        (Eigen::MatrixXd(3, 2) << 0, 1, 0, 0, 0, 1).finished());
  const Eigen::MatrixXd s = (Eigen::MatrixXd(3, 3) << 1, 2, 3, 2, 4, 5, 3, 5, 6).finished();
  check(banner + "array integer symmetric\n%\n3 3\n1\n2\n3\n4\n5\n6\n", s);
  check(banner + "coordinate real symmetric\n%\n3 3 6\n3 1 3\n1 1 1\n2 1 2\n2 2 4\n3 2 5\n3 3 6\n", s);
  const Eigen::MatrixXd skew = (Eigen::MatrixXd(3, 3) << 0, -2, -3, 2, 0, -5, 3, 5, 0).finished();
  check(banner + "array real skew-symmetric\n%\n3 3\n2\n3\n5\n", skew);
  check(banner + "coordinate integer skew-symmetric\n%\n3 3 3\n2 1 2\n3 1 3\n3 2 5\n", skew);
  check(banner + "array real skew-symmetric\n1 1\n", Eigen::MatrixXd::Zero(1, 1));
  check(banner + "array real general\n0 5\n", Eigen::MatrixXd(0, 5));
  check(banner + "array real general\n2 1\n1e-400\n-1e-4000\n", Eigen::MatrixXd::Zero(2, 1));
  check(banner + "coordinate real general\n4 5 0\n", Eigen::MatrixXd::Zero(4, 5));
}

TEST_CASE("a file of several pieces") {
  Eigen::MatrixXd a(40000, 5);
  std::string bytes = "%%MatrixMarket matrix array real general\n40000 5\n";
  for (Index i = 0; i < a.size(); ++i) {
    a.data()[i] = static_cast<float>(i % 1000) / 8;
    bytes += detail::text({static_cast<double>(a.data()[i]), "\n"})
                 .insert(0, static_cast<std::size_t>(i % 17), ' ');
  }
  REQUIRE(bytes.size() > 2 << 20);
  check(bytes, a);
}

template <class... Placements>
void check_saved(const auto& mesh, const RowMajorMatrix<double>& a) {
  const ScratchFolder folder;
  const auto x = distribute<Placements...>(mesh, a);
  save_matrix_market(folder / "out.mtx", x);
  std::string expected =
      detail::text({"%%MatrixMarket matrix array real general\n", a.rows(), " ", a.cols(), "\n"});
  for (Index j = 0; j < a.cols(); ++j) {
    for (Index i = 0; i < a.rows(); ++i) expected += detail::text({a(i, j), "\n"});
  }
  CHECK(bytes_of_file(folder / "out.mtx") == expected);
  const auto back = load_matrix_market<double, Replicate>(line(), folder / "out.mtx");
  CHECK(std::memcmp(back.data(), a.data(), static_cast<std::size_t>(a.size()) * sizeof(double)) == 0);
}

TEST_CASE("there and back with the same bits") {
  RowMajorMatrix<double> a(7, 5);
  kernel::fill_normal(35, 3, 0, 0., 1., a.data());
  a.topRows(2) << 1e308, -1e-308, 5e-324, 0., -0., 1. / 3, std::numeric_limits<double>::infinity(), 1e22,
      4.5e15, -7;
  check_saved<Shard<0>>(line(), a);
  check_saved<Shard<1>>(line(), a);
  check_saved<Shard<0>, Shard<1>>(grid(), a);
  check_saved<Shard<1>, Shard<0>>(grid(), a);
  check_saved<Partial<Sum>, Shard<0>>(grid(), a.cwiseAbs());
  check_saved<Shard<0>>(line(), a.leftCols(1));
  check_saved<Shard<0>, Shard<0>>(grid(), a.leftCols(2));
  check_saved<Replicate>(line(), a.topRows(1));
  check_saved<Shard<0>>(line(), RowMajorMatrix<double>(0, 3));
  check_saved<Shard<0>>(line(), RowMajorMatrix<double>(3, 0));

  const ScratchFolder folder;
  const auto x = randn<float, Shard<0>>(line(), {9, 4}, 5);
  save_matrix_market(folder / "x.mtx", x);
  CHECK(full_tensor(load_matrix_market<float, Shard<1>>(line(), folder / "x.mtx")) == full_tensor(x));
  CHECK(has(error_of([&] { save_matrix_market(folder / "none/x.mtx", x); }),
            "cannot be created: No such file"));
}

TEST_CASE("a file that does not fit: one error on all ranks, with the line") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const auto path = folder.file("in.mtx", bytes);
    const std::string what = error_of([&] { load_matrix_market<double, Shard<0>>(line(), path); });
    const std::string start = "load_matrix_market: " + path.string() + ": line ";
    if (what == "no error") return what;
    REQUIRE(what.starts_with(start));
    world().barrier();
    return what.substr(start.size(), what.rfind(" (") - start.size());
  };
  const auto of = [&](const std::string& kind, const std::string& lines) {
    return refused("%%MatrixMarket matrix " + kind + "\n%\n" + lines);
  };
  CHECK(refused("") == "1: it does not begin with '%%MatrixMarket matrix'");
  CHECK(refused("1 2\n3 4\n") == "1: it does not begin with '%%MatrixMarket matrix'");
  CHECK(of("array complex general", "1 1\n1 2\n") ==
        "1: its elements are 'complex', expected real or integer");
  CHECK(of("array pattern general", "1 1\n") == "1: its elements are 'pattern', expected real or integer");
  CHECK(of("coordinate complex hermitian", "1 1 1\n1 1 1 2\n") ==
        "1: its elements are 'complex', expected real or integer or pattern");
  CHECK(of("array real hermitian", "1 1\n1\n") ==
        "1: its matrix is 'hermitian', expected general, symmetric or skew-symmetric");
  CHECK(of("vector real general", "1\n1\n") == "1: its format is 'vector', expected array or coordinate");
  CHECK(of("array real general", "") ==
        "2: a number of rows or columns is '', expected 0 to 576460752303423488");
  CHECK(of("array real general", "2 x\n") ==
        "3: a number of rows or columns is 'x', expected 0 to 576460752303423488");
  CHECK(of("array real general", "2 -1\n") ==
        "3: a number of rows or columns is '-1', expected 0 to 576460752303423488");
  CHECK(of("array real general", "1 1 1\n1\n") == "3: it has more numbers than expected");
  CHECK(of("array real symmetric", "2 3\n1\n2\n3\n") == "3: a matrix of [2 x 3] is not symmetric");
  CHECK(of("array real general", "500000000 500000000\n1\n") ==
        "3: the file has 65 bytes, too few for 250000000000000000 entries");
  CHECK(of("coordinate real general", "3 3 1000\n1 1 1\n") ==
        "3: the file has 63 bytes, too few for 1000 entries");

  const std::string numbers = "2 3\n1.5\n2.5\n3.5\n4.5\n5.5\n";
  CHECK(of("array real general", numbers + "6.5\n") == "no error");
  CHECK(of("array real general", numbers) == "8: the file ends after 5 of 6 entries");
  CHECK(of("array real general", numbers + "6.5\n7.5\n") == "10: '7.5' follows the last of 6 entries");
  CHECK(of("array real general", numbers + "abc\n") == "9: found 'abc', expected a number");
  CHECK(of("array real general", numbers + "6.5 7.5\n") == "9: found '6.5 7.5', expected a number");
  CHECK(of("array real general", numbers + "1.5D0\n") == "9: found '1.5D0', expected a number");
  CHECK(of("array real general", numbers + "+-1\n") == "9: found '+-1', expected a number");
  CHECK(of("array real general", numbers + "1e400\n") == "9: '1e400' is out of the range of f64");
  CHECK(of("array real general", numbers + std::string(3 << 20, '1') + "\n")
            .starts_with("9: it has more than"));
  CHECK(of("coordinate real general", "2 3 1\n3 1 5\n") == "4: the row is '3', expected 1 to 2");
  CHECK(of("coordinate real general", "2 3 1\n1 0 5\n") == "4: the column is '0', expected 1 to 3");
  CHECK(of("coordinate real general", "2 3 1\n1.5 1 5\n") == "4: the row is '1.5', expected 1 to 2");
  CHECK(of("coordinate real general", "2 3 1\n1 1\n\n") == "4: found '', expected a number");
  CHECK(of("coordinate real general", "2 3 2\n1 1 5\n") == "4: the file ends after 1 of 2 entries");
  CHECK(of("coordinate pattern general", "2 3 1\n1 1 5\n") == "4: a pattern has no numbers");
  CHECK(of("coordinate real symmetric", "3 3 1\n1 2 5\n") ==
        "4: row 1 of column 2 is above the diagonal, or on that of skew-symmetry");
  CHECK(of("coordinate real skew-symmetric", "3 3 1\n2 2 5\n") ==
        "4: row 2 of column 2 is above the diagonal, or on that of skew-symmetry");
  CHECK(error_of([&] { load_matrix_market<double, Shard<0>>(line(), folder / "none.mtx"); })
            .starts_with("load_matrix_market: " + (folder / "none.mtx").string() +
                         ": cannot be opened: No such"));
}

}  // namespace
}  // namespace shardwise::testing::matrix_market
