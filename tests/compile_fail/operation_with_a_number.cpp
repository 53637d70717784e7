// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::put_the_number_into_the_operation_as_in_Function_Op_number>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
struct TimesOp {
  double factor;
  static constexpr Signature signature = Signature::of("... -> ...").linear_in_each();
  static constexpr Saved saved{};
  void forward(auto y, void*, auto x) const {
    for (Index i = 0; i < x.elements(); ++i) y.data[i] = static_cast<float>(factor) * x.data[i];
  }
  void pull_back(auto dy, auto, const void*, auto x) const {
    for (Index i = 0; i < x.elements(); ++i) x.gradient[i] = static_cast<float>(factor) * dy.data[i];
  }
};

#ifdef SHOULD_FAIL
auto times_3(const Tensor<float, 1, Mesh<tp>, Replicate>& x) {
  constexpr Function<TimesOp> times;
  return times(x, 3.0);
}
#else
auto times_3(const Tensor<float, 1, Mesh<tp>, Replicate>& x) {
  constexpr Function times{TimesOp{3.0}};
  return times(x);
}
#endif
