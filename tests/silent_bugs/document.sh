#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Writes docs/reference/silent-bugs.md from the tests in this folder. Each *.cpp is a case:
#
#   // title: its heading
#   // thread: owner/repository #number (note)     one or more: each is a published bug, and is in no other case
#   // there: the mistake there, in short sentences
#   // here: does not compile                      or another of the kinds below
#   // about: mixtures of experts                   of a case whose bugs are also counted apart
#   // tour: 1                                     of the three cases that the page begins with: their order
#   /// explanation
#   // expect: regex                               of a case with a mistake that the compiler refuses: see ../compile_fail/check.cmake
#   #include …
#   using namespace shardwise;
#   #ifdef SHOULD_FAIL
#     the mistake, as it would be here
#   #else
#     the right program, with TEST_CASEs, which run on 2, 3 and 4 ranks (many cases are one unit: ../CMakeLists.txt)
#   #endif
#
#   cmake --build build --target silent_bugs_page                     writes the page
#   document.sh g++=PATH flags=FILE [said_g++=FOLDER] [check]         or clang++=…, said_clang++=…
#
# With `check` nothing is written: the page must be what would be written, if the compiler is the one that it was written
# with; with another one, all but the compiler's texts.

set -euo pipefail
export LC_ALL=C
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
page=../../docs/reference/silent-bugs.md

declare -A option=([g++]="" [clang++]="" [said_g++]="" [said_clang++]="" [flags]="")
check=false
for argument in "$@"; do
  if [[ $argument == check ]]; then check=true; else option[${argument%%=*}]=${argument#*=}; fi
done
source ../compile_fail/page.sh
compiler=g++
[[ -n ${option[g++]} ]] || compiler=clang++
described="$compiler $(version $compiler)"

kinds=("does not compile" "cannot be written" "the plan differs" "refused when called" "numerics only" "not covered")
stopped=4       # the first kinds, which never give a number
compile_time=2  # of these, the kinds that the compiler refuses
declare -A meaning=(
  ["does not compile"]="the compiler refuses the smallest program with the mistake"
  ["cannot be written"]="tensors and \`redistribute\` have no call for the mistake"
  ["the plan differs"]="the compiler counts the messages of the program, and a \`static_assert\` of the user refuses it"
  ["refused when called"]="the call throws on all ranks, and returns nothing"
  ["numerics only"]="types do not show the mistake; tests of the library do"
  ["not covered"]="a program can have the mistake, without any report"
)

declare -A lines  # by a file and a field
while IFS=$'\t' read -r file field text; do
  lines[$file $field]+=${lines[$file $field]+$'\n'}$text
done < <(awk '/^\/\/ (title|thread|there|here): / {
  field = $2
  sub(/^\/\/ [a-z]+: /, "")
  print FILENAME "\t" substr(field, 1, length(field) - 1) "\t" $0
}' *.cpp)
of_kind() { grep -l "^// here: $1\$" *.cpp; }
threads() { xargs grep -h '^// thread: ' | sed 's|^// thread: ||'; }

# The tests must be what their headers say: each case has one kind, and what that kind takes; a thread is in one case.
wrong=""
for file in *.cpp; do
  kind=${lines[$file here]-}
  [[ -n ${meaning[$kind]-} ]] || wrong+="$file: '// here: $kind' is none of the kinds"$'\n'
  for field in title thread there; do
    [[ -n ${lines[$file $field]-} ]] || wrong+="$file has no line '// $field: …'"$'\n'
  done
  grep -q '^TEST_CASE' "$file" || wrong+="$file has no TEST_CASE that runs the right program"$'\n'
  case $kind in
    "does not compile" | "the plan differs") needs='^// expect: ' ;;
    "refused when called") needs='CHECK_THROWS_AS' ;;
    "not covered") needs='// the mistake' ;;
    *) needs='' ;;
  esac
  grep -q "$needs" "$file" || wrong+="$file: a case that $kind has '$needs'"$'\n'
done
twice=$(ls *.cpp | threads | sed 's/\( #[0-9]*\( (finding [0-9]*\)\?\).*/\1/' | sort | uniq -d)
[[ -z $twice ]] || wrong+="in several cases: $twice"$'\n'
if [[ -n $wrong ]]; then
  printf '%s' "$wrong" >&2
  exit 1
fi

# The program in FILE after its `using namespace`: the lines that `mistake` or `right` names; a case without a mistake is
# right.
program() {
  awk -v wanted="$1" '
    /^#ifdef SHOULD_FAIL/ { part = "mistake"; next }
    /^#ifndef SHOULD_FAIL/ { part = "right"; blank = 1; next }
    /^#else/ { part = "right"; next }
    /^#endif/ { part = ""; blank = 1; next }
    begun && (part == wanted || (part == "" && wanted == "all") || (part == "" && wanted == "mistake")) {
      if (NF) { if (blank && some) print ""; print; some = 1; blank = 0 } else blank = 1
    }
    /^using namespace/ { begun = 1 }' "$2"
}

entry() {
  local file=$1 heading=$2 links
  links=$(sed 's|^\([^ ]*\) #\([0-9]*\)|[\1 #\2](https://github.com/\1/issues/\2)|' <<<"${lines[$file thread]}")
  links=${links//$'\n'/, }
  printf '\n%s %s\n\n**There** (%s): %s\n\n**Here:** %s.\n' "$heading" "${lines[$file title]}" "$links" \
    "${lines[$file there]}" "${lines[$file here]}"
  sed -n 's|^/// ||p' <(sed '/^#include/q' "$file")
  printf '\n'
  if grep -q '^// expect: ' "$file"; then
    printf '```cpp\n%s\n```\n```\n%s\n```\nRight, and run on 2, 3 and 4 ranks:\n```cpp\n%s\n```\n' "$(program mistake "$file")" \
      "$(compile $compiler "$file" | at_the_user)" "$(program right "$file")"
  else
    printf '```cpp\n%s\n```\n' "$(program all "$file")"
  fi
}

percent() { echo $(((100 * $1 + $2 / 2) / $2)); }

write_page() {
  local i kind cases bugs never=0 compiled=0 with_plans=0 all_cases all_bugs of_experts no_program
  all_cases=$(ls *.cpp | wc -l)
  all_bugs=$(ls *.cpp | threads | wc -l)
  cat << EOF
<!-- Written by tests/silent_bugs/document.sh from the tests in that folder; change those. -->

# Silent bugs

This page lists published bugs of distributed training. Most of the programs ran, printed plausible losses, and were wrong. For each
bug it shows the smallest Shardwise program with the same mistake, if there is one, and its result. Beside it stands the right
program, which a test runs on 2, 3 and 4 ranks. (\`TEST_CASE\` and \`CHECK\` come from doctest; each program follows
\`using namespace shardwise;\`.)

| here | cases | published bugs | |
|---|---|---|---|
EOF
  of_experts=$(grep -l "^// about: mixtures of experts$" *.cpp)
  no_program=$(xargs grep -lE "^// here: (${kinds[0]}|${kinds[1]})$" <<< "$of_experts" | threads | wc -l)
  for i in "${!kinds[@]}"; do
    kind=${kinds[i]}
    cases=$(of_kind "$kind" | wc -l)
    bugs=$(of_kind "$kind" | threads | wc -l)
    ((i >= compile_time)) || compiled=$((compiled + bugs))
    ((i > compile_time)) || with_plans=$((with_plans + bugs))
    ((i >= stopped)) || never=$((never + bugs))
    printf '| [%s](#%s) | %s | %s | %s |\n' "$kind" "${kind// /-}" "$cases" "$bugs" "${meaning[$kind]}"
  done
  printf '| all | %s | %s | |\n' "$all_cases" "$all_bugs"
  cat << EOF

**Of $all_bugs bugs, $never ($(percent $never $all_bugs) %) cannot produce a wrong number here:** the first four kinds. $compiled ($(percent $compiled $all_bugs) %) cannot become a
program at all: the first two kinds. If the user states what a step communicates, the third kind joins them: $with_plans ($(percent $with_plans $all_bugs) %). Of
$(threads <<< "$of_experts" | wc -l) bugs of [mixtures of experts](../learn/experts.md), $no_program cannot become a program. The tests
give these counts. We collected the list from threads of PyTorch, Megatron-LM, torchtitan and others, most of them of the last years.

- A bug is a thread. Several threads of one repository about one bug count as one, as do an issue and its fix. Megatron-LM #7452 has
  eleven findings, and each counts as one; the sixth is not here.
- A case stands for all threads with the same mistake.
- The list has no bugs in parts that Shardwise lacks, such as the kernels of a GPU.
- "Cannot be written" refers to tensors and \`redistribute\`. A program can always take the blocks out, sum them by a \`Communicator\` and
  bring them back by \`from_local\`, or do this with plain numbers. Then it can make any mistake.
- [Simulations, checks and comparisons of ranks](../learn/finding-mistakes.md) may find mistakes that types do not show. They do not
  count here.

The texts of the compiler are those of $described; a note that points into a header of Shardwise may follow, and this page
omits it. [Compile errors](errors.md) explains the reasons. A layout is part of a tensor's type: [layouts](layouts.md).

## Three of them
The compiler refuses two of these bugs, and not the third.

A tensor's type ends with its layout on the ranks of a mesh:
- \`Shard<0>\`: each rank has some of the rows.
- \`Replicate\`: all ranks have the whole tensor, and do the same with it.
- \`Reduced\`: all ranks have the whole tensor, and each does something else with it.
- \`Partial<>\`: each rank has a term, and the value is the sum.

Operations work on the block of a rank, and send nothing. \`redistribute\` changes one layout into another. The two layouts determine
its communication, forward and backward.
EOF
  local file
  for i in 1 2 3; do entry "$(grep -l "^// tour: $i\$" *.cpp)" '###'; done
  for kind in "${kinds[@]}"; do
    printf '\n## %s\n' "${kind^}"
    for file in $(of_kind "$kind"); do
      if grep -q '^// tour: ' "$file"; then
        local title=${lines[$file title]}
        printf '\n[%s](#%s) is shown above.\n' "$title" "$(tr 'A-Z ' 'a-z-' <<< "$title" | tr -cd 'a-z0-9_-')"
      else
        entry "$file" '###'
      fi
    done
  done
}

# All but what compilers say: the blocks of code without a language.
ours() { awk '/^```$/ && !in_cpp { said = !said; next } /^```cpp$/ { in_cpp = 1 } /^```$/ { in_cpp = 0 } !said && !/^The texts of/'; }

if ! $check; then
  write_page > "$page.new"
  mv "$page.new" "$page"
elif grep -q "^The texts of the compiler are those of $described;" "$page"; then
  write_page | diff -u "$page" - || { echo "docs/reference/silent-bugs.md is not up to date: build the target silent_bugs_page" >&2; exit 1; }
else
  diff -u <(ours < "$page") <(write_page | ours) ||
    { echo "docs/reference/silent-bugs.md is not up to date: build the target silent_bugs_page" >&2; exit 1; }
fi
