// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: 0 >= 1|Rank >= 1

#include <shardwise/parallel/lora.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
using Style = Lora<ColwiseParallel<tp>, 0>;
#else
using Style = Lora<ColwiseParallel<tp>, 1>;
#endif
