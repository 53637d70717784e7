// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A launcher that started several processes of which MPI leaves each alone, as with the mpirun of another MPI.

#include <cstdlib>

#include <shardwise/layout/text.hpp>

namespace shardwise::detail {

/// Throws `std::runtime_error` in a process that is alone in its world if its innermost launcher has started several: each would do
/// the work of all. (A batch script of Slurm is no task of a step, and may run one process.)
template <class = void>
void check_alone() {
  const auto is = [](const char* name, std::string_view expected) {
    const char* value = std::getenv(name);
    return value && value == expected;
  };
  for (const std::string_view name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE",
        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name.data());
    if (!value || (name == "SLURM_NTASKS" && is("SLURM_PROCID", "0") && is("ENVIRONMENT", "BATCH"))) continue;
    if (std::atoi(value) < 2 || (name == "SLURM_NTASKS" && !std::getenv("SLURM_PROCID"))) return;
    fail<std::runtime_error>({"MPI knows 1 process, but ", name, " says that the launcher started ", value,
                              ": use the mpirun of the MPI that the program was built with, or srun ",
                              "--mpi=pmix; to run one process alone, unset ", name});
  }
}

}  // namespace shardwise::detail
