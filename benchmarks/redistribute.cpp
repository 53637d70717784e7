// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every change of layout along one axis, against the bare MPI call on the same bytes, or memcpy and memset where
/// nothing is sent. Bare calls get their data in the order that they want; between dimensions, and where the
/// columns of a matrix are cut, Shardwise must also put it in order. Those lines say "packs", and their last
/// column is the share of the time in which the bare call's buffers could be read and written once more each.

#include <cstring>
#include <string>

#include "support.hpp"

namespace sw = shardwise;
using sw::Index, sw::Replicate, sw::Shard;
using Pending = sw::Partial<sw::Sum>;

namespace {

using Mesh = sw::Mesh<sw::tp>;

struct Options {
  std::vector<Index> kib{64, 4096, 32768};
  Index columns = 1024;
  int repetitions = 100;
};
