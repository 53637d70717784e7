#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Looks for files that a reader does not survive: ./tests/fuzz/run.sh MINUTES [TARGET…]
#
# Builds the targets with clang and libFuzzer, and runs each for so many minutes (all of them, if none is named), as many
# at once as there are cores. Inputs that reach something new are kept in build/fuzz/corpus/, and those that a reader
# does not survive in build/fuzz/found/: each is shown by  build/tests/fuzz/fuzz TARGET FILE.

set -euo pipefail
source "$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/../../examples/setup.sh"

minutes=${1:?usage: run.sh MINUTES [TARGET…]}
shift
targets=("$@")
if ((${#targets[@]} == 0)); then targets=(safetensors gguf index llama_config tokenizer manifest token_file schedule chat_template openai_request); fi
shardwise_setup tests
if [[ ! -f "$shardwise_build/build.ninja" && ! -f "$shardwise_build/Makefile" ]]; then shardwise_build help; fi
ctest --test-dir "$shardwise_build" --output-on-failure --no-tests=error -R '^fuzz\.build$'

fuzz() {
  local target=$1 folder="$shardwise_build/fuzz"
  mkdir -p "$folder/corpus/$target" "$folder/found/$target"
  nice -n 5 "$shardwise_build/tests/fuzz/fuzz" "$target" --seeds="$folder/corpus/$target" >/dev/null
  nice -n 5 "$shardwise_build/tests/fuzz/fuzz" "$target" -max_total_time=$((minutes * 60)) \
    -dict="$shardwise_root/tests/fuzz/json.dict" -max_len=16384 -malloc_limit_mb=32 -rss_limit_mb=1024 -timeout=10 \
    -artifact_prefix="$folder/found/$target/" "$folder/corpus/$target" >"$folder/$target.log" 2>&1 ||
    { echo "$target: FOUND, see $folder/$target.log" && return 1; }
  echo "$target: $(grep -E '^Done' "$folder/$target.log")"
}
failed=0 running=0
for target in "${targets[@]}"; do
  if ((running == $(shardwise_cores))); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit "$failed"
