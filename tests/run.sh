#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Builds and runs tests, from a bare machine: installs what is missing (see examples/setup.sh), configures, builds, runs
# ctest. By default each behaviour is tested once, in build-tests/, by clang++ if it is there. With --full, which comes first,
# all combinations are, in build/, by the default compiler: see tests/CMakeLists.txt. Other arguments go to ctest, and only what
# the tests that they choose need is built:
#
#   ./tests/run.sh -R mpi.redistribute.3
#   ./tests/run.sh --full -L compile_fail

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/../examples/setup.sh"

if [[ ${1:-} == --full ]]; then
  shift
  shardwise_setup full
else
  shardwise_setup tests
  shardwise_build="$shardwise_root/build-tests"
  SHARDWISE_CMAKE_OPTIONS="-DSHARDWISE_ALL_TESTS=OFF ${SHARDWISE_CMAKE_OPTIONS:-}"
  if [[ -z ${CXX:-} ]] && command -v clang++ >/dev/null; then export CXX=clang++; fi
fi
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
