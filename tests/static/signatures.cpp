// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Signatures as einsum text: the letters that `...` and letters with a star get from ranks, ranks that do not fit, and the
/// extents of a result.

#include <shardwise/ops/add.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/embedding.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/transpose.hpp>

using namespace shardwise;

namespace {

constexpr bool is(const Indices& indices, std::string_view letters) {
  bool same = indices.rank == static_cast<int>(letters.size());
  for (int i = 0; same && i < indices.rank; ++i) same = indices[i] == letters[static_cast<std::size_t>(i)];
  return same;
}
/// Are these the letters of the operands, then of the result?
template <class... Text>
constexpr bool reads(const Signature& signature, const Text&... letters) {
  const std::string_view expected[]{letters...};
  bool same = signature.count + 1 == static_cast<int>(sizeof...(Text));
  for (int i = 0; same && i < signature.count; ++i) same = is(signature.operands[i], expected[i]);
  return same && is(signature.result, expected[sizeof...(Text) - 1]);
}

static_assert(reads(Signature::of("rk, ok -> ro"), "rk", "ok", "ro"));
static_assert(reads(Signature::of("rk,ok->"), "rk", "ok", ""));
static_assert(reads(Signature::of("rk, ok -> ro").of_ranks({2, 2}, 2), "rk", "ok", "ro"));
static_assert(Signature::of("rk, ok -> ro").of_ranks({2, 3}, 2).count == 0);
static_assert(Signature::of("rk, ok -> ro").of_ranks({2}, 1).count == 0);

static_assert(Signature::of("rk, ok").unreadable && Signature::of("[r] -> [r]").unreadable);
static_assert(Signature::of("r -> r -> r").unreadable && Signature::of("r -> r, r").unreadable);
static_assert(Signature::of("a, b, c, d, e, f -> a").unreadable && Signature::of("abcdefghi -> ").unreadable);

constexpr Signature product = Signature::of("...k, ok -> ...o").linear_in_each();
static_assert(reads(product.of_ranks({1, 2}, 2), "k", "ok", "o"));
static_assert(reads(product.of_ranks({3, 2}, 2), "ABk", "ok", "ABo"));
static_assert(product.of_ranks({0, 2}, 2).count == 0 && product.of_ranks({3, 3}, 2).count == 0);
static_assert(product.of_ranks({3, 2}, 2).linearity == Linearity::in_each);
// The same dimensions in each operand; they get letters that are free.
static_assert(reads(Signature::of("...A, ... -> ...").of_ranks({3, 2}, 2), "BCA", "BC", "BC"));
static_assert(Signature::of("..., ... -> ...").of_ranks({3, 2}, 2).count == 0);
static_assert(reads(Signature::of("..., ... -> ...").of_ranks({0, 0}, 2), "", "", ""));

// An operand may tell what another needs, whichever comes first.
static_assert(reads(Signature::of("r*c*, c* -> r*c*").of_ranks({3, 2}, 2), "CAB", "AB", "CAB"));
static_assert(Signature::of("r*c*, c* -> r*c*").of_ranks({1, 2}, 2).count == 0);
static_assert(Signature::of("r*c* -> r*").of_ranks({3}, 1).count == 0);  // 1 and 2, or 2 and 1?
static_assert(reads(LinearOp<2>::signature.of_ranks({3, 4}, 2), "CAB", "DEAB", "CDE"));
static_assert(reads(detail::signature_of<LinearBiasOp<1>, 3, 2, 1>, "BCA", "DA", "D", "BCD"));
static_assert(detail::signature_of<LinearBiasOp<1>, 3, 2, 2>.count == 0);
static_assert(reads(detail::signature_of<AttentionOp, 4, 4, 4, 2>, "bshd", "bthd", "bthe", "bt", "bshe"));
static_assert(detail::signature_of<AttentionOp, 4, 4, 3>.count == 0);

template <class Op, int... Ranks>
constexpr auto shape =
    [](const Op& op, const Shape<Ranks>&... shapes) { return detail::shape_of_result(op, shapes...); };
static_assert(shape<LinearOp<1>, 3, 2>({}, {2, 3, 5}, {7, 5}) == Shape<3>{2, 3, 7});
static_assert(shape<LinearOp<2>, 3, 4>({}, {2, 3, 5}, {7, 1, 3, 5}) == Shape<3>{2, 7, 1});
static_assert(shape<AddOp, 3, 1>({}, {2, 3, 5}, {5}) == Shape<3>{2, 3, 5});
static_assert(shape<EmbeddingOp, 2, 2>({}, {2, 3}, {11, 5}) == Shape<3>{2, 3, 5});
static_assert(shape<ReductionOp<detail::SumOf, 1>, 3>({}, {2, 3, 5}) == Shape<2>{2, 5});
static_assert(shape<TransposeOp<0, -1>, 3>({}, {2, 3, 5}) == Shape<3>{5, 3, 2});

}  // namespace
