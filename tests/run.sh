#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Builds and runs all tests, from a bare machine: installs what is missing (see examples/setup.sh), configures and builds
# into build/, runs ctest. Arguments go to ctest, and only what the tests that they choose need is built:
#
#   ./tests/run.sh -R mpi.redistribute.2
#   ./tests/run.sh -L compile_fail

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/../examples/setup.sh"

shardwise_setup tests
tests=(ctest --test-dir "$shardwise_build")
if (($# == 0)); then
  shardwise_build all
else
  # Each test brings the tests that build what it needs; here that is built at once.
  shardwise_configure
  chosen=$("${tests[@]}" -N "$@")
  targets=$(sed -n 's/^ *Test *#[0-9]*: build\.//p' <<<"$chosen")
  if [[ -n $targets ]]; then
    # shellcheck disable=SC2086  # the names of targets are words
    cmake --build "$shardwise_build" --parallel "$(shardwise_cores)" --target $targets
  fi
fi
exec "${tests[@]}" --output-on-failure --no-tests=error --no-label-summary --label-exclude '^build$' \
  --fixture-exclude-setup '^build\.' --parallel "$((3 * $(shardwise_cores)))" "$@"
