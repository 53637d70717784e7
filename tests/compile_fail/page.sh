# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

# What pages that are made of compiler errors share. To be sourced by a script that has set option[g++], option[clang++],
# option[said_g++], option[said_clang++] and option[flags], and is in the folder of its programs.

version() { [[ -z ${option[$1]} ]] || "${option[$1]}" -dumpfullversion -dumpversion; }

# What a compiler says to a mistake; `compile g++ file.cpp`.
compile() {
  if [[ -n ${option[said_$1]} ]]; then
    sed "s,$PWD/,,g" "${option[said_$1]}/${2%.cpp}.txt"
  else
    "${option[$1]}" "@${option[flags]}" -DSHARDWISE_COMPILED -fsyntax-only -DSHOULD_FAIL "$2" 2>&1 || true
  fi
}

# The part of it that speaks of the user's file, and not of our headers.
at_the_user() {
  awk '/^In file included from|^ +from / { next }
       /^[0-9]+ errors? generated/ { next }
       /^[^ ]+\.hpp:/ { ours = 1 }
       /^[^ ]+\.cpp:/ { ours = 0 }
       !ours' | sed 's/\bauto:[0-9]*/auto/g'
}

# Our own words, the same from every compiler: without `shardwise::`, on one line.
words() {
  tr '\n' ' ' | sed 's/shardwise:://g; :again; s/> >/>>/g; t again; s/Partial<Sum>/Partial<>/g
       s/FixedString<[0-9]*>{"\([^"]*\)"}/\1/g; '"s/'\([A-Za-z0-9_.*]\)'\(, \)\?/\1/g"
}
error_in() { words | grep -o 'LayoutError<Reason::[^'"'"';]*' | head -1 | sed 's/\]\( .*\)\?$//'; }
