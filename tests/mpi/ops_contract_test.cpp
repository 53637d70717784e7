// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `contract` and `matmul`: sums over all indices as the einsum text says, in every legal layout, and their gradients.

#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/linear.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_contract {
namespace {

/// The product that a signature describes, one term at a time.
Dense einsum(const Signature& op, const Dense& a, const Dense& b) {
  std::string letters;
  std::vector<Index> extents;
  const Dense* operands[]{&a, &b};
  for (int i = 0; i < 2; ++i) {
    for (int dim = 0; dim < op.operands[i].rank; ++dim) {
      if (letters.find(op.operands[i][dim]) != std::string::npos) continue;
      letters += op.operands[i][dim];
      extents.push_back(operands[i]->shape[static_cast<std::size_t>(dim)]);
    }
  }
  const auto place = [&](const Indices& of, const std::vector<Index>& at) {
    Index offset = 0;
    for (int dim = 0; dim < of.rank; ++dim) {
      const std::size_t letter = letters.find(of[dim]);
      offset = offset * extents[letter] + at[letter];
    }
    return offset;
  };
  std::vector<Index> shape;
  for (int dim = 0; dim < op.result.rank; ++dim) shape.push_back(extents[letters.find(op.result[dim])]);
  Dense y(shape);
  std::vector<Index> at(letters.size());
  const auto add_terms = [&](auto&& self, std::size_t i) -> void {
    if (i == letters.size()) {
      y[place(op.result, at)] += a[place(op.operands[0], at)] * b[place(op.operands[1], at)];
      return;
    }
    for (at[i] = 0; at[i] < extents[i]; ++at[i]) self(self, i + 1);
  };
  add_terms(add_terms, 0);
  return y;
}

template <int Rank>
auto whole(const auto& mesh, const Shape<Rank>& shape, std::uint64_t seed) {
  using X = Tensor<double, Rank, std::remove_cvref_t<decltype(mesh)>, Replicate>;
  return place<X>(mesh, random_dense({shape.begin(), shape.end()}, seed));
}

template <class Op, int A, int B>
void check_product(const Op& op, const Shape<A>& a, const Shape<B>& b) {
  const auto mesh = line();
  check([&](const auto& x, const auto& y) { return apply(op, x, y); },
        [](const Dense& x, const Dense& y) { return einsum(detail::signature_of<Op, A, B>, x, y); },
        whole(mesh, a, 1), whole(mesh, b, 2));
  check_operation(mesh, op, a, b);
}

TEST_CASE("contract: matrices, either of which may be stored as its transpose") {
  check_product(ContractOp<"mk, kn -> mn">(), Shape<2>{5, 7}, Shape<2>{7, 3});
  check_product(ContractOp<"mk, nk -> mn">(), Shape<2>{5, 7}, Shape<2>{3, 7});
  check_product(ContractOp<"km, kn -> mn">(), Shape<2>{7, 5}, Shape<2>{7, 3});
  check_product(ContractOp<"km, nk -> mn">(), Shape<2>{7, 5}, Shape<2>{3, 7});
}
TEST_CASE("contract: the result's rows are the second operand's") {
  check_product(ContractOp<"mk, kn -> nm">(), Shape<2>{5, 7}, Shape<2>{7, 3});
  check_product(ContractOp<"km, nk -> nm">(), Shape<2>{7, 5}, Shape<2>{3, 7});
}
TEST_CASE("contract: batches, several dimensions, products of vectors") {
  check_product(ContractOp<"bmk, bkn -> bmn">(), Shape<3>{3, 5, 4}, Shape<3>{3, 4, 2});
  check_product(ContractOp<"bcmk, bcnk -> bcmn">(), Shape<4>{3, 2, 5, 4}, Shape<4>{3, 2, 3, 4});
  check_product(ContractOp<"bkm, bkn -> bnm">(), Shape<3>{3, 4, 5}, Shape<3>{3, 4, 2});
  check_product(ContractOp<"mjk, jkn -> mn">(), Shape<3>{5, 2, 3}, Shape<3>{2, 3, 4});
  check_product(ContractOp<"mnk, k -> mn">(), Shape<3>{5, 2, 3}, Shape<1>{3});
  check_product(ContractOp<"k, kn -> n">(), Shape<1>{7}, Shape<2>{7, 3});
  check_product(ContractOp<"k, k -> ">(), Shape<1>{7}, Shape<1>{7});
  check_product(ContractOp<"m, n -> mn">(), Shape<1>{5}, Shape<1>{7});
  check_product(ContractOp<"bk, bk -> b">(), Shape<2>{5, 7}, Shape<2>{5, 7});
  check_product(LinearOp<2>(), Shape<3>{5, 2, 3}, Shape<4>{4, 2, 2, 3});
}
TEST_CASE("matmul: of matrices, batches, rows by a matrix, rows by a vector") {
  check_product(MatmulOp(), Shape<2>{5, 7}, Shape<2>{7, 3});
  check_product(MatmulOp(), Shape<3>{3, 5, 4}, Shape<3>{3, 4, 2});
  check_product(MatmulOp(), Shape<4>{2, 3, 5, 4}, Shape<2>{4, 2});
  check_product(MatmulOp(), Shape<2>{5, 4}, Shape<1>{4});
  check_product(MatmulOp(), Shape<1>{4}, Shape<2>{4, 3});
  check_product(MatmulOp(), Shape<1>{4}, Shape<1>{4});
}
TEST_CASE("contract: extents of 0 and 1") {
  const auto mesh = line();
  for (const Index k : {0, 1}) {
    const auto c =
        matmul(random<double, Reduced>(mesh, {3, k}, 1), random<double, Shard<1>>(mesh, {k, 2}, 2));
    static_assert(
        std::is_same_v<decltype(c), const Tensor<double, 2, std::remove_const_t<decltype(mesh)>, Shard<1>>>);
    if (k == 0) CHECK(full_tensor(c).isZero());
  }
  CHECK(full_tensor(matmul(random<float, Shard<0>>(mesh, {0, 4}, 1), random<float, Reduced>(mesh, {4, 2}, 2)))
            .size() == 0);
}
TEST_CASE("contract: an error names the text and the extents") {
  const auto mesh = line();
  CHECK(message_of<std::invalid_argument>([&] {
          contract<"mk, kn -> mn">(random<double, Reduced>(mesh, {5, 7}, 1),
                                   random<double, Reduced>(mesh, {6, 2}, 1));
        }) ==
        "mk, kn -> mn: the operands [5 x 7] and [6 x 2] do not fit: dimension 1 of operand 0 has 7 elements, "
        "dimension 0 of operand 1 has 6");
}

}  // namespace
}  // namespace shardwise::testing::ops_contract
