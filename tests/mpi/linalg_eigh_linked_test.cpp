// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// All eigenvalues of symmetric matrices that are cut over ranks, by those of ELPA and ScaLAPACK that are linked.

#include <dlfcn.h>

#include <Eigen/Eigenvalues>
#include <shardwise/linalg/eigh_linked.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_eigh_linked {
namespace {

int alive = 0;         // handles of ELPA, and grids of ScaLAPACK
bool failing = false;  // the last rank's call of the library

template <class F>
F* library_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}
/// Whether the library's function is to return `code` instead of what it does.
bool fails(int code, int* error) {
  *error = failing && world().rank() == world().size() - 1 ? code : 0;
  return failing;
}

}  // namespace
}  // namespace shardwise::testing::linalg_eigh_linked

// They stand before those of the libraries.
namespace linked = shardwise::testing::linalg_eigh_linked;
struct elpa_struct;
using elpa_t = elpa_struct*;
extern "C" {
#ifdef WITH_ELPA
elpa_t elpa_allocate(int* error) {
  ++linked::alive;
  return linked::library_function<elpa_t(int*)>("elpa_allocate")(error);
}
void elpa_deallocate(elpa_t handle, int* error) {
  --linked::alive;
  linked::library_function<void(elpa_t, int*)>("elpa_deallocate")(handle, error);
}
void elpa_eigenvectors_a_h_a_d(elpa_t handle, double* a, double* values, double* vectors, int* error) {
  if (linked::fails(-13, error)) return;
  linked::library_function<decltype(elpa_eigenvectors_a_h_a_d)>("elpa_eigenvectors_a_h_a_d")(
      handle, a, values, vectors, error);
}
#endif
#ifdef WITH_SCALAPACK
void Cblacs_gridinit(int* context, const char* order, int rows, int columns) {
  ++linked::alive;
  linked::library_function<decltype(Cblacs_gridinit)>("Cblacs_gridinit")(context, order, rows, columns);
}
void Cblacs_gridexit(int context) {
  --linked::alive;
  linked::library_function<decltype(Cblacs_gridexit)>("Cblacs_gridexit")(context);
}
void pdsyevd_(const char* job, const char* triangle, const int* n, double* a, const int* ia, const int* ja,
              const int* of_a, double* w, double* z, const int* iz, const int* jz, const int* of_z,
              double* work, const int* length, int* integers, const int* count, int* info) {
  if (linked::fails(7, info)) return;
  linked::library_function<decltype(pdsyevd_)>("pdsyevd_")(job, triangle, n, a, ia, ja, of_a, w, z, iz, jz,
                                                           of_z, work, length, integers, count, info);
}
#endif
}

namespace shardwise::testing::linalg_eigh_linked {
namespace {

template <class F>
void for_each_library(F f) {
#ifdef WITH_ELPA
  f(Elpa{.whole = 0}, "elpa_eigenvectors returned -13");
#endif
#ifdef WITH_SCALAPACK
  f(Scalapack{.whole = 0}, "pdsyevd returned 7");
#endif
}

template <class T, class... Placements, class MeshType>
auto cut(const MeshType& mesh, const Matrix<T>& whole) {
  return distribute<Placements...>(mesh, Shape<2>{whole.rows(), whole.cols()},
                                   std::span(whole.data(), static_cast<std::size_t>(whole.size())));
}
template <class T>
Matrix<T> symmetric(Index n, std::uint64_t seed = 1) {
  const Matrix<T> x = random_matrix<T>(n, n, seed);
  return x + x.transpose();
}

/// Checks the residuals and the orthogonality, and the values.
template <class T>
void check_found(const auto& found, const Matrix<T>& a, const Eigen::VectorXd& expected) {
  const Index n = a.rows();
  REQUIRE(found.values.shape() == Shape<1>{n});
  REQUIRE(found.vectors.shape() == Shape<2>{n, n});
  const Matrix<T> v = full_tensor(found.vectors);
  if (n == 0) return;
  const Eigen::VectorXd values =
      Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>>(found.values.data(), n).template cast<double>();
  const double norm = expected.cwiseAbs().maxCoeff(), unit = norm > 0 ? norm : 1;
  const double bound = 2 * static_cast<double>(n) * static_cast<double>(std::numeric_limits<T>::epsilon());
  const Matrix<double> off = product(wide(a) / unit, wide(v)) - wide(v) * (values / unit).asDiagonal();
  CHECK(off.colwise().norm().maxCoeff() <= bound);
  CHECK((product(wide(v).transpose(), wide(v)) - Matrix<double>::Identity(n, n)).cwiseAbs().maxCoeff() <=
        bound);
  CHECK(((values - expected) / unit).cwiseAbs().maxCoeff() <= bound);
}
/// By Eigen, if the matrix is small.
template <class T>
Eigen::VectorXd by_one_rank(const Matrix<T>& a) {
  if (a.rows() == 0) return {};
  if (a.rows() < 10) {
    return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(wide(a), Eigen::EigenvaluesOnly).eigenvalues();
  }
  Eigen::VectorXd values(a.rows());
  Matrix<double> vectors(a.rows(), a.rows());
  kernel::eigh<double>(a.rows(), wide(a).eval().data(), values.data(), vectors.data());
  return values;
}
template <class T>
void check(const auto& mesh, const Matrix<T>& a, const auto& with) {
  check_found(eigh<Shard<0>>(cut<T, Shard<0>>(mesh, a), with), a, by_one_rank(a));
}

constexpr Index n = 67;

#ifdef WITH_ELPA
TEST_CASE_TEMPLATE("ELPA in two stages", T, float, double) {
  for (const Index size : {1, 2, 3, 7, 67})
    for (const int block : {16, 64})
      check(line(), symmetric<T>(size), Elpa{.stages = 2, .block = block, .whole = 0});
}
#endif
TEST_CASE("layouts of the matrix and of the vectors") {
  const Matrix<double> a = symmetric<double>(n);
  const Eigen::VectorXd values = by_one_rank(a);
  for_each_library([&](const auto& with, const char*) {
    check_found(eigh<Shard<1>>(cut<double, Shard<1>>(line(), a), with), a, values);
    check_found(eigh<Shard<0>, Shard<1>>(cut<double, Shard<0>, Shard<1>>(grid(), a), with), a, values);
    check_found(eigh<Reduced, Shard<1>>(cut<double, Partial<Sum>, Replicate>(grid(), a), with), a, values);
  });
}
TEST_CASE_TEMPLATE("all sizes, and fewer rows than ranks", T, float, double) {
  for (const Index size : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
    for_each_library([&](auto with, const char*) {
      check(line(), symmetric<T>(size), with);
      with.whole = size;
      check(line(), symmetric<T>(size), with);
    });
}
TEST_CASE_TEMPLATE("blocks of any size", T, float, double) {
  const Matrix<T> a = symmetric<T>(n);
  for (const int block : {1, 7, 33, 100000}) {
    CAPTURE(block);
    for_each_library([&](auto with, const char*) {
      with.block = block;
      check(line(), a, with);
    });
  }
}
TEST_CASE_TEMPLATE("entries of any magnitude", T, float, double) {
  const T large = static_cast<T>(std::is_same_v<T, double> ? 1e300 : 1e32);
  for_each_library([&](const auto& with, const char*) {
    check<T>(line(), symmetric<T>(n) * large, with);
    check<T>(line(), symmetric<T>(n) / large, with);
  });
}
TEST_CASE("values that are equal") {
  Matrix<double> a = Matrix<double>::Identity(n, n);
  for_each_library([&](const auto& with, const char*) { check<double>(line(), 0 * a, with); });
  for (Index i = 0; i < n; ++i) a(0, i) = a(i, 0) = static_cast<double>(i);
  for_each_library([&](const auto& with, const char*) { check(line(), a, with); });
}
TEST_CASE("a mesh of some of the ranks") {
  const int ranks = world().size(), first = ranks > 2 ? 1 : 0;
  if (world().rank() < first) return;
  std::vector<int> some;
  for (int rank = ranks - 1; rank >= first; --rank) some.push_back(rank);
  const Mesh<tp> mesh(world().subgroup(some), {any});
  for_each_library([&](const auto& with, const char*) { check(mesh, symmetric<double>(n), with); });
}
TEST_CASE_TEMPLATE("what is refused", T, float, double) {
  const auto refused = [&]<class Error>(Error, const Matrix<T>& a, const auto& with) {
    return message_of<Error>([&] { eigh<Shard<0>>(cut<T, Shard<0>>(line(), a), with); });
  };
  const std::invalid_argument wrong("");
  const std::runtime_error failed("");
  for_each_library([&](auto with, const char*) {
    Matrix<T> a = random_matrix<T>(n, n, 1);
    CHECK(refused(wrong, a.leftCols(3), with) == "eigh: the matrices of [67 x 3] are not square");
    CHECK(refused(wrong, a, with) == "eigh: the matrix is not symmetric: row 0 is not equal to column 0");
    a = symmetric<T>(n);
    for (const double bad : {HUGE_VAL, std::nan("")}) {
      a(66, 3) = a(3, 66) = static_cast<T>(bad);
      CHECK(refused(failed, a, with) == "eigh: row 3 of the matrix is not finite");
    }
    with.block = 0;
    CHECK(refused(wrong, a, with) == "eigh: the block is 0, expected 1 or more");
    with.block = 32, with.check_symmetry = false;
    CHECK(refused(wrong, random_matrix<T>(n, n, 1), with) == "");
  });
}
#ifdef WITH_ELPA
TEST_CASE("a number of stages that ELPA does not have") {
  CHECK(message_of<std::runtime_error>([&] {
          eigh<Shard<0>>(cut<double, Shard<0>>(line(), symmetric<double>(n)), Elpa{.stages = 3, .whole = 0});
        }) == "eigh: elpa_set_integer returned -3 on rank 0");
  CHECK(alive == 0);
}
#endif
TEST_CASE("an error of the library is one error on all ranks, which keep nothing") {
  const Matrix<double> a = symmetric<double>(n);
  for_each_library([&](const auto& with, const char* error) {
    failing = true;
    CHECK(message_of<std::runtime_error>([&] { eigh<Shard<0>>(cut<double, Shard<0>>(line(), a), with); }) ==
          "eigh: " + std::string(error) + " on rank " + std::to_string(world().size() - 1));
    failing = false;
    CHECK(alive == 0);
    check(line(), a, with);
    CHECK(alive == 0);
  });
}

}  // namespace
}  // namespace shardwise::testing::linalg_eigh_linked
