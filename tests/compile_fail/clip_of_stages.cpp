// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_clip_gradients_of_the_pipeline>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Part = Mlp<Mesh<tp>>;

#ifdef SHOULD_FAIL
double clip(Stages<Part>& stages) {
  return clip_gradients(stages, 1);
}
#else
double clip(const Pipeline<Mesh<pp, tp>>& pipeline, Stages<Part>& stages) {
  return pipeline.clip_gradients(stages, 1);
}
#endif
