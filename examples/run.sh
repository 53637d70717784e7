#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/setup.sh"

usage() {
  cat <<'END'
Usage: examples/run.sh [--ranks N] [--text PATH]... [other options of `train`]

Builds the examples (and first installs what is missing) and runs them on N ranks: the MLP, the attention block, and the
training of a small Llama on text, which is saved, and then writes the same text on N ranks and on another number of
them.

  --ranks N      processes, 1 to 64 (default 2)
  --text PATH    what to learn: a file or a folder (default: this project's include/ and docs/)
  --help         this text; `build/examples/train --help` lists the options of the training
END
}

fail() {
  echo "examples/run.sh: $1" >&2
  exit 2
}

ranks=2
texts=()
others=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --ranks | --text) (($# > 1)) || fail "$1 needs a value" ;;&
    --ranks) ranks=$2 && shift 2 ;;
    --ranks=*) ranks=${1#*=} && shift ;;
    --text) texts+=("$2") && shift 2 ;;
    --text=*) texts+=("${1#*=}") && shift ;;
    *) others+=("$1") && shift ;;
  esac
done
[[ $ranks =~ ^([1-9]|[1-5][0-9]|6[0-4])$ ]] || fail "--ranks $ranks: choose a number from 1 to 64"
if ((${#texts[@]} == 0)); then
  texts=("$shardwise_root/include")
  if [[ -d $shardwise_root/docs ]]; then texts+=("$shardwise_root/docs"); fi
fi
text_options=()
for text in "${texts[@]}"; do
  [[ -e $text ]] || fail "--text $text: there is no such file or folder"
  [[ -r $text ]] || fail "--text $text: not readable"
  text_options+=(--text "$(cd -- "$(dirname -- "$text")" && pwd -P)/$(basename -- "$text")")
done

shardwise_setup
shardwise_build examples

run() {
  local program=$1
  shift
  shardwise_mpi_environment "$ranks"
  echo
  echo "==== $program on $ranks rank$( ((ranks == 1)) || echo s)"
  mpirun -n "$ranks" "$shardwise_build/examples/$program" "$@" || {
    local code=$?
    echo "examples/run.sh: $program ended with exit code $code" >&2
    exit "$code"
  }
}
progress=plain
if [[ -t 1 ]]; then progress=line; fi
run mlp
run attention
model="$shardwise_build/llama-model" log="$shardwise_build/train.jsonl"
run train --progress "$progress" --export "$model" --log "$log" "${text_options[@]}" "${others[@]}"
if type -P python3 > /dev/null; then
  python3 "$shardwise_root/examples/plot_log.py" "$log" -o "$shardwise_build/train.svg"
fi
written() {
  run llama --weights "$model" --prompt "/// @file" --seed 7 | tee >(cat >&2) |
    sed -n '/^---- text/,/^----$/p'
}
text_here=$(written)
ranks=$((ranks == 1 ? 2 : ranks - 1))
text_there=$(written)
if [[ -z $text_here || $text_here != "$text_there" ]]; then
  echo "examples/run.sh: the text is not the same" >&2
  exit 1
fi
echo
echo "The Llama wrote the same text on both numbers of ranks."
