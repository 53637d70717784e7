// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `settings().rate` is the learning rate; `set_rate` also sets that of groups.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_settings_dot_rate_or_set_rate>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void slow_down(AdamW& optimizer) {
  optimizer.lr = 1e-4;
}
#else
void slow_down(AdamW& optimizer) {
  optimizer.set_rate(1e-4);
}
#endif
