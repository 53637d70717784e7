// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What everybody pays who multiplies matrices over MPI: the two includes.

#include <mpi.h>

#include <Eigen/Core>
