// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A mesh takes a `Communicator`: `world()`, or a duplicate of an MPI communicator.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_Communicator_duplicate_of_this>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto made() {
  return Mesh<tp>(MPI_COMM_WORLD, {any});
}
#else
auto made() {
  return Mesh<tp>(Communicator::duplicate(MPI_COMM_WORLD), {any});
}
#endif
