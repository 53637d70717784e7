#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Builds and runs all tests, from a bare machine: installs what is missing (see examples/setup.sh), configures and builds
# into build/, runs ctest. Arguments go to ctest: ./tests/run.sh -L mpi

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/../examples/setup.sh"

shardwise_setup tests
shardwise_build all
exec ctest --test-dir "$shardwise_build" --output-on-failure --no-tests=error --no-label-summary \
  --parallel "$(nproc 2>/dev/null || echo 2)" "$@"
