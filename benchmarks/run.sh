#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Builds the benchmarks (and first installs what is missing, see examples/setup.sh) and runs them on 2 ranks, each bound
# to a core of its own. Run it on a machine that does nothing else.

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/../examples/setup.sh"

if (($# > 0)); then
  echo "Usage: benchmarks/run.sh"
  echo "Builds the benchmarks, and runs all but context_length, decoding, linear_algebra, muon and pipeline_step on 2 ranks. Each has options of its own: build/benchmarks/overhead --help"
  [[ $1 == -h || $1 == --help ]] && exit 0
  exit 2
fi

shardwise_setup
shardwise_build benchmarks

shardwise_mpi_environment 2
binding=(--bind-to core)
if (($(shardwise_cores) < 2)); then binding=(--bind-to none); fi
for program in overhead masked_attention experts block_product redistribute collectives checkpoint; do
  echo
  mpirun -n 2 "${binding[@]}" "$shardwise_build/benchmarks/$program"
done
echo
python3 "$shardwise_root/benchmarks/llama_step.py" "$shardwise_build/benchmarks/llama_step"
echo
python3 "$shardwise_root/benchmarks/experts.py" "$shardwise_build/benchmarks/experts"
echo
python3 "$shardwise_root/benchmarks/network.py" "$shardwise_build/benchmarks"
echo
"$shardwise_build/benchmarks/compile_time"
