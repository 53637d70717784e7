#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# Writes docs/reference/errors.md from the tests in this folder: those with an explanation in `///` lines, in the order of
# the reasons in diagnosis.hpp, with the texts of the compilers. `// page: clang++ too` shows clang++'s text as well.
#
#   cmake --build build --target errors_page           writes the page
#   document.sh flags=FILE [g++=PATH] [clang++=PATH] [said_g++=FOLDER] [said_clang++=FOLDER] [check]
#
# What a compiler said when a test ran is in its folder, NAME.txt for NAME.cpp; without a folder, it is asked.
#
# With `check` nothing is written: the page must be what would be written, if the compilers are those that it was
# written with; with any other, it must have the same words of ours (LayoutError<…>). In any case every reason and every
# hint must be expected by a test, and every reason explained on the page.

set -euo pipefail
export LC_ALL=C
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
page=../../docs/reference/errors.md
diagnosis=../../include/shardwise/layout/diagnosis.hpp

declare -A option=([g++]="" [clang++]="" [said_g++]="" [said_clang++]="" [flags]="")
check=false
for argument in "$@"; do
  if [[ $argument == check ]]; then check=true; else option[${argument%%=*}]=${argument#*=}; fi
done
source page.sh
described="g++ $(version g++) and clang++ $(version clang++)"

enumerators() { awk "/^enum class $1 \{/ { on = 1; next } /^\};/ { on = 0 } on && /^  [a-z]/ { sub(/,.*/, \"\"); print \$1 }" $diagnosis | grep -vx none; }
common() { awk '/^#ifdef SHOULD_FAIL/ { exit } on && (NF || text) { text = text $0 "\n" } /^using namespace/ { on = 1 } END { printf "%s", text }' "$1"; }
mistake() { awk '/^#else/ { exit } on; /^#ifdef SHOULD_FAIL/ { on = 1 }' "$1"; }
cure() { awk '/^#endif/ { exit } on; /^#else/ { on = 1 }' "$1"; }

declare -A expected explained  # Reason::… and Hint::… that tests expect; by them, the tests that explain one
while read -r name file explains; do
  expected[$name]=yes
  [[ $explains == no ]] || explained[$name]+="$file "
done < <(awk '
  /^\/\/\/ / { explains[FILENAME] = 1 }
  /^\/\/ expect: / {
    while (match($0, /(Reason|Hint)::[A-Za-z0-9_]+/)) {
      pair = substr($0, RSTART, RLENGTH) " " FILENAME
      if (!seen[pair]++) pairs[++count] = pair
      $0 = substr($0, RSTART + RLENGTH)
    }
  }
  END {
    for (i = 1; i <= count; ++i) { split(pairs[i], part, " "); print pairs[i], part[2] in explains ? "yes" : "no" }
  }' *.cpp)

wrong=""
for kind in Reason Hint; do
  for name in $(enumerators $kind); do
    [[ -n ${expected[$kind::$name]-} ]] || wrong+="no test expects $kind::$name"$'\n'
    [[ $kind == Hint || -n ${explained[$kind::$name]-} ]] ||
      wrong+="no test explains $kind::$name: give one a line '/// …'"$'\n'
  done
done
if [[ -n $wrong ]]; then
  printf '%s' "$wrong" >&2
  exit 1
fi

write_page() {
  cat << EOF
<!-- Written by tests/compile_fail/document.sh from the tests in that folder; change those. -->

# Compile errors

A layout that does not fit gives one error, at your line. The error is a type, and its last part says what to do:

\`\`\`
LayoutError<Reason::…,            what is wrong, in words
            On<tp>,               on which mesh axis
            Expected<Shard<1>>,   the nearest placements that fit, one per operand
            Got<Reduced>,         the given placements
            Cure<Hint::…>,        what to do
            Of<AddOp>,            in a module: the operation that does not fit,
            InA<Layer>, In<Gpt>>  and the modules that call it, the innermost first
\`\`\`

The type has no definition. So g++ begins with "invalid use of incomplete type", and clang++ with "implicit instantiation of
undefined template". \`Expected\` is the cheapest change of layout that makes the call legal; other changes may be legal too. Inside
a template, \`requires { linear(x, w); }\` is false where the call would be such an error.

\`InA\` names a class template without its arguments. The error does not name members, but the type of a layer contains its style.
g++'s texts repeat the type of a model with its plan. Write \`struct MyPlan : Plan<…> {};\` instead of \`using MyPlan = Plan<…>;\` to
keep them short.

"No match for call to \`(Own)\`" means that \`Own\` lacks its base, \`Module<Own>\`. With \`using namespace Eigen\`, \`Replicate\` is
ambiguous, and g++ may report a parse error: write \`shardwise::Replicate\`.

After the error in \`gelu(up(x))\` g++ may add that \`gelu\` was not declared: its argument has no type, so g++ does not know in which
namespace to look. Only the first error counts.

The texts are those of $described. A note that points into a header of Shardwise follows each; this page
omits it.

EOF
  local reason file before
  for reason in $(enumerators Reason); do echo "- [${reason//_/ }](#$reason)"; done
  for reason in $(enumerators Reason); do
    printf '\n## %s\n' "$reason"
    for file in ${explained[Reason::$reason]}; do
      printf '\n%s\n\n```cpp\n' "$(sed -n 's|^/// ||p' "$file")"
      before=$(common "$file")
      if [[ -n $before ]]; then printf '%s\n\n' "$before"; fi
      printf '%s\n```\n```\n%s\n```\n' "$(mistake "$file")" "$(compile g++ "$file" | at_the_user)"
      if grep -q '^// page: clang++ too' "$file"; then
        printf 'clang++:\n```\n%s\n```\n' "$(compile clang++ "$file" | at_the_user)"
      fi
      printf 'So:\n```cpp\n%s\n```\n' "$(cure "$file")"
    done
  done
}

if ! $check; then
  mkdir -p "${page%/*}"
  write_page > "$page.new"
  mv "$page.new" "$page"
elif grep -q "^The texts are those of $described\." "$page"; then
  write_page | diff -u "$page" - || { echo "docs/reference/errors.md is not up to date: build the target errors_page" >&2; exit 1; }
else
  on_page=$(words < "$page")
  for file in $(grep -l '^/// ' *.cpp); do
    for compiler in g++ clang++; do
      [[ -n ${option[$compiler]} ]] || continue
      error=$(compile $compiler "$file" | error_in)
      if [[ -z $error || $on_page != *"$error"* ]]; then
        echo "docs/reference/errors.md does not have what $compiler says to $file: $error" >&2
        wrong=yes
      fi
    done
  done
  [[ -z $wrong ]]
fi
