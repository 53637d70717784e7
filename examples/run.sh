#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/setup.sh"

usage() {
  cat <<'END'
Usage: examples/run.sh [--ranks N]

Builds the examples one by one (and first installs what is missing) and runs each on N ranks: a product of matrices, least
squares, an MLP, attention, data parallelism with ZeRO, a small Llama that is trained on what it generates, and one that
learns this project's documentation, is saved, and then writes the same text on N ranks and on another number of them.

  --ranks N      processes, 1 to 8 (default 2)
  --help         this text
END
}

fail() {
  echo "examples/run.sh: $1" >&2
  exit 2
}

ranks=2
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --ranks) (($# > 1)) || fail "$1 needs a value" ;;&
    --ranks) ranks=$2 && shift 2 ;;
    --ranks=*) ranks=${1#*=} && shift ;;
    *) fail "$1: no such option; see --help" ;;
  esac
done
[[ $ranks =~ ^[1-8]$ ]] || fail "--ranks $ranks: choose a number from 1 to 8"

log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
# The first result counts, so only what is run next is built.
build() {
  echo
  echo "==== building $*"
  shardwise_build "$@" > "$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
}
run() {
  local program=$1
  shift
  shardwise_mpi_environment "$ranks"
  echo "==== $program on $ranks rank$( ((ranks == 1)) || echo s)"
  mpirun -n "$ranks" "$shardwise_build/examples/$program" "$@" || {
    local code=$?
    echo "examples/run.sh: $program ended with exit code $code" >&2
    exit "$code"
  }
}

shardwise_setup
for program in matrix_product least_squares gaussian_process mlp attention data_parallel reinforce; do
  build "$program"
  run "$program"
done
model="$shardwise_build/llama-model" text="$shardwise_root/docs"
[[ -d $text ]] || text="$shardwise_root/include"
build train_llama generate
run train_llama "$text" "$model"
written=$(run generate "$model" "The ")
echo "$written"
ranks=$((ranks == 1 ? 2 : ranks - 1))
elsewhere=$(run generate "$model" "The ")
echo "$elsewhere"
if [[ ${written#*$'\n'} != "${elsewhere#*$'\n'}" ]]; then
  echo "examples/run.sh: the text is not the same" >&2
  exit 1
fi
echo
echo "The Llama wrote the same text on both numbers of ranks."
