// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a rank receives in factorizations and in solutions of equations, in closed form for even sizes.

#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/linalg/qr.hpp>
#include <shardwise/linalg/solve.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {
namespace {

struct rows {
  static constexpr const char* name = "rows";
};
struct columns {
  static constexpr const char* name = "columns";
};

/// The bytes that a rank receives of `ranks`, in all-reduces of so many doubles.
constexpr Index all_reduced(Index doubles, Index ranks) { return 8 * 2 * doubles * (ranks - 1) / ranks; }

// QR: two all-reduces of n², whatever the number of axes; or a gather of r along each axis.
template <QrMethod method>
constexpr auto on_64 = trace<Mesh<rows>>({64}, [](const auto& mesh) {
  qr(empty<double, Shard<0>>(mesh, {65536, 64}), {.method = method});
});
template <QrMethod method>
constexpr auto on_8_by_8 = trace<Mesh<rows, columns>>({8, 8}, [](const auto& mesh) {
  qr(empty<double, Shard<0>, Shard<0>>(mesh, {65536, 64}), {.method = method});
});
static_assert(on_64<QrMethod::cholesky2>.received_bytes() == 2 * all_reduced(64 * 64, 64));
static_assert(on_8_by_8<QrMethod::cholesky2>.received_bytes() == 2 * all_reduced(64 * 64, 64));
static_assert(on_64<QrMethod::automatic>.received_bytes() == 2 * all_reduced(64 * 64, 64));
static_assert(on_64<QrMethod::tsqr>.received_bytes() == 8 * 63 * 64 * 64);
static_assert(on_8_by_8<QrMethod::tsqr>.received_bytes() == 8 * (7 + 7) * 64 * 64);

/// For each tile of h rows, a gather of its rows, of all columns that are eliminated.
constexpr Index gathered(Index n, Index ranks, Index h) {
  return 8 * (n * n + n * h * ranks) / 2 * (ranks - 1) / ranks;
}

template <int ranks>
constexpr auto factorized = trace<Mesh<rows>>({ranks}, [](const auto& mesh) {
  CholeskyFactor(empty<double, Shard<0>>(mesh, {1024, 1024}));
});
// And the check of symmetry.
static_assert(factorized<4>.received_bytes() == gathered(1024, 4, 32) + all_reduced(2 * 1024, 4));
static_assert(factorized<8>.received_bytes() == gathered(1024, 8, 16) + all_reduced(2 * 1024, 8));

template <int ranks>
constexpr auto solved = trace<Mesh<rows>>({ranks}, [](const auto& mesh) {
  solve(empty<double, Shard<0>>(mesh, {1024, 1024}), empty<double, Shard<0>>(mesh, {1024, 3}));
});
/// For each tile of h columns h rows of each rank, the pivot rows [A | b] right of the tile, and the sums of the
/// substitution.
constexpr Index received_by_solve(Index n, Index r, Index ranks, Index h) {
  return 8 * (ranks - 1) * n * h + all_reduced(n * (n - h) / 2 + n * r, ranks) + all_reduced(n * r, ranks);
}
static_assert(solved<4>.received_bytes() == received_by_solve(1024, 3, 4, 32));
static_assert(solved<8>.received_bytes() == received_by_solve(1024, 3, 8, 16));

}  // namespace
}  // namespace shardwise
