// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Documents and windows, forgotten where sequences are cut
// thread: axolotl-ai-cloud/axolotl #3608 (mended by #4002)
// thread: huggingface/trl #6843
// thread: huggingface/accelerate #4177
// thread: hiyouga/LlamaFactory #10787
// there: Attention over a cut sequence was another function than attention over a whole one. It took no borders of documents, or replaced a sliding window by "causal". Tokens saw other documents: a first loss of 5.81 instead of 3.17.
// here: cannot be written
/// A style of one module decides how attention runs over ranks. With every style it
/// takes the same options and documents, and positions are those of the whole sequence.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/tensor/distribute.hpp>

#include <array>

using namespace shardwise;

template <class Style>
Eigen::MatrixXd seen(const Mesh<cp>& mesh, const AttentionOptions& options) {
  const auto x = randn<double, Shard<1>>(mesh, {1, 12, 3, 4}, 1);
  const std::array<std::int32_t, 12> numbers{0, 0, 0, 0, 0, 1,
                                             1, 2, 2, 2, 2, -1};  // three documents, and padding
  const auto documents = distribute<Replicate>(mesh, Shape<2>{1, 12}, std::span<const std::int32_t>(numbers));
  const styled<InnerAttention, Style> attention;
  const auto o = full_tensor(attention(x, x, x, documents, options));
  return Eigen::Map<const Eigen::MatrixXd>(o.data(), 12, 12);
}

TEST_CASE("documents and a window mean the same on any number of ranks") {
  const Mesh<cp> mesh(world(), {any}), alone(self(), {1});
  const AttentionOptions options{.window = 3};
  const auto whole = seen<Ring<cp>>(alone, options);
  CHECK(seen<Ring<cp>>(mesh, options).isApprox(whole));
  CHECK(seen<GatherKeys<cp>>(mesh, options).isApprox(whole));
}
