// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `for_each_parameter(model, f)` calls f(parameter) for each, and `for_each_named_parameter` calls f(name, parameter).
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_model_or_call_for_each_parameter>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto count(Linear<Mesh<tp>>& model) {
  return model.parameters();
}
#else
auto count(Linear<Mesh<tp>>& model) {
  int parameters = 0;
  for_each_parameter(model, [&](auto&) { ++parameters; });
  return parameters;
}
#endif
