// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The constructor of a module takes its mesh as the first argument.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_mesh_first>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void make(const Mesh<tp>&) {
  Linear layer(4, 4);
}
#else
void make(const Mesh<tp>& mesh) {
  Linear layer(mesh, 4, 4);
}
#endif
