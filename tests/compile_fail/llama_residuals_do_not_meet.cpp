// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Replicate>, Cure<Hint::give_it_RowwiseParallel_with_the_output_that_tokens_and_the_other_sums_have>, Of<Name<layers.\*.mlp.down>>, InA<llm::LlamaLayer>, In<detail::Repeat>, InA<llm::Llama>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Ids = Tensor<int, 2, Mesh<dp, tp>, Shard<0>, Replicate>;
template <class Down>
using With =
    Plan<Use<"tokens", RowwiseParallel<tp, output<Shard<1>>>>,
         Use<"*.*.attention_norm", SequenceParallel<tp>>, Use<"*.*.attention.wq", ColwiseParallel<tp>>,
         Use<"*.*.attention.wk", ColwiseParallel<tp>>, Use<"*.*.attention.wv", ColwiseParallel<tp>>,
         Use<"*.*.attention.wo", RowwiseParallel<tp, output<Shard<1>>>>,
         Use<"*.*.mlp_norm", SequenceParallel<tp>>, Use<"*.*.mlp.gate", ColwiseParallel<tp>>,
         Use<"*.*.mlp.up", ColwiseParallel<tp>>, Use<"*.*.mlp.down", Down>, Use<"norm", SequenceParallel<tp>>,
         Use<"head", ColwiseParallel<tp>>>;

#ifdef SHOULD_FAIL
auto logits(const llm::Llama<Mesh<dp, tp>, With<RowwiseParallel<tp>>>& model, const Ids& ids) {
  return model(ids);
}
#else
auto logits(const llm::Llama<Mesh<dp, tp>, With<RowwiseParallel<tp, output<Shard<1>>>>>& model,
            const Ids& ids) {
  return model(ids);
}
#endif
