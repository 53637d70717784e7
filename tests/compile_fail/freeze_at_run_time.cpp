// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A visitor is instantiated for each type of parameter, but the error comes once.
// in a header
// expect: give its layer the style Frozen

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void freeze(Linear<Mesh<tp>>& up) {
  for_each_parameter(up, [](auto& parameter) { parameter.frozen = true; });
}
#else
void freeze(Linear<Mesh<tp>, Frozen>& up) {
  for_each_parameter(
      up, [](auto& parameter) { static_assert(std::remove_reference_t<decltype(parameter)>::frozen); });
}
#endif
