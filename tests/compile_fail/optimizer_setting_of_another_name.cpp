// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The names of settings are `rate`, `beta1`, `beta2`, `epsilon`, `momentum` and
/// `weight_decay`.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::name_settings_rate_beta1_beta2_epsilon_momentum_weight_decay>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
AdamW made() {
  return AdamW({.lr = 1e-3, .betas = {0.9, 0.95}, .weight_decay = 0.1});
}
#else
AdamW made() {
  return AdamW({.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1});
}
AdamW decayed() {
  return AdamW({.weight_decay = 0.1});
}
#endif
