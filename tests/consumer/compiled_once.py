# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""What shardwise::compiled compiles once is not compiled again by each program that links it.

compiled_once.py NM OBJECT MOST_KIB: lists the functions that OBJECT, a program that links the target, defines itself.
Fails if one of the library depends on nothing of the program, neither a mesh nor a tensor nor a type of its own, and is
larger than a few instructions; or if all functions together have more than MOST_KIB KiB.
"""
import re
import subprocess
import sys

A_FEW = 160  # bytes
OF_THE_PROGRAM = re.compile(r"\b(main|Mlp)\b|\bMesh<|\bTensor<|\bAxisList<")
# A defaulted destructor cannot be compiled elsewhere.
ALLOWED = {"shardwise::Optimizer<shardwise::AdamWUpdate>::~Optimizer()"}


def functions(nm, path):
    """Name and size of each function that an object defines; a constructor has several symbols and counts once."""
    lines = subprocess.run([nm, "-S", "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^[0-9a-f]+ ([0-9a-f]+) [tTwW] (.*)$", lines, re.MULTILINE)
    return {(name, int(size, 16)) for size, name in found}


def main(nm, path, most_kib):
    defined = functions(nm, path)
    if not any("Mlp" in name for name, _ in defined):
        sys.exit(f"{path} defines nothing of the program: is it an object, and not a library?")
    again = []
    for name, size in sorted(defined, key=lambda each: -each[1]):
        plain = re.sub(r" \[clone .*", "", name)
        if "shardwise::" not in plain or re.match(r"(\S+ )?(std|Eigen|__gnu_cxx)::", plain):
            continue
        if size > A_FEW and not OF_THE_PROGRAM.search(plain) and plain not in ALLOWED:
            again.append(f"{size:6} bytes: {plain}")
    total = sum(size for _, size in defined)
    print(f"{len(defined)} functions, {total / 1024:.1f} KiB")
    if again:
        print("\n".join(again))
        sys.exit("these depend on nothing of the program: compile them once (docs/decisions/bodies-compiled-once.md)")
    if total > 1024 * most_kib:
        sys.exit(f"that is more than {most_kib} KiB")


main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
