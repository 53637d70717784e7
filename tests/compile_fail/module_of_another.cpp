// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The base of a module is told its name, and calls its `forward`: with the name of another, copied with the line, it would
/// call the other's.
// expect: LayoutError<Reason::module_has_the_base_of_another, Got<Decoder, Encoder>, Cure<Hint::derive_it_from_Module_of_itself>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct Encoder : Module<Encoder> {
  void visit(auto&&) {
  }
};

#ifdef SHOULD_FAIL
struct Decoder : Module<Encoder> {
  void visit(auto&&) {
  }
};
void begin(Decoder& decoder) {
  initialize(decoder, 1);
}
#else
struct Decoder : Module<Decoder> {
  void visit(auto&&) {
  }
};
void begin(Decoder& decoder) {
  initialize(decoder, 1);
}
#endif
