// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `shardwise::llm` finds `detail::` and `kernel::` of the library in its own namespaces of those names.

namespace shardwise {

namespace kernel::detail {}
namespace detail {}

namespace llm {
namespace kernel {
using namespace shardwise::kernel;
namespace detail {
using namespace shardwise::kernel::detail;
}
}  // namespace kernel
namespace detail {
using namespace shardwise::detail;
}
}  // namespace llm

}  // namespace shardwise
