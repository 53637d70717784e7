#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""No room of include/shardwise has more lines, and no umbrella reads more, than budget.tsv grants.

    budget.py ROOT          compares; `write` behind it grants what there is, rounded up to 50 lines

A budget is raised only with a page in docs/decisions/ that says what is worth its lines."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
INCLUDE = ROOT / "include"
BUDGET = ROOT / "tests/budget.tsv"


def lines(header):
    return len((INCLUDE / header).read_text(encoding="utf-8").splitlines())


def reached(header, seen):
    """The headers of ours that one reads, and itself."""
    if header not in seen and (INCLUDE / header).exists():  # CMake makes one
        seen.add(header)
        for other in re.findall(r"(?m)^#include <(shardwise/.*?)>", (INCLUDE / header).read_text(encoding="utf-8")):
            reached(other, seen)
    return seen


def counted():
    counts = {}
    for path in INCLUDE.rglob("*.hpp"):
        header = path.relative_to(INCLUDE).as_posix()
        room = re.match(r"shardwise/((?:llm/)?\w+)/", header)
        if room:
            counts[room[1]] = counts.get(room[1], 0) + lines(header)
        else:
            counts[header] = sum(map(lines, reached(header, set())))
    return counts


found = counted()
if "write" in sys.argv:
    text = "".join("%s\t%d\n" % (name, -(-found[name] // 50) * 50) for name in sorted(found, key=lambda n: (n.endswith("hpp"), n)))
    BUDGET.write_text("room, or umbrella with all that it reads\tlines\n" + text, encoding="utf-8")
budget = dict(line.split("\t") for line in BUDGET.read_text(encoding="utf-8").splitlines()[1:])
wrong = ["%s: %s lines, expected at most %s" % (name, found.get(name, "no"), budget.get(name, 0))
         for name in sorted({*found, *budget}) if name not in found or found[name] > int(budget.get(name, 0))]
print("\n".join(wrong) or "%d lines in %d rooms" % (sum(n for name, n in found.items() if not name.endswith("hpp")),
                                                  sum(not name.endswith("hpp") for name in found)))
sys.exit(bool(wrong))
