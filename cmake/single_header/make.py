#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""make.py OUTPUT [HEADER…]: writes shardwise/shardwise.hpp, or other headers, and all of Shardwise that they include, as one
header. Where SHARDWISE_WITHOUT_MPI is defined, it has one process and no MPI library."""

import argparse
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"


def text_of(name, seen):
    """The text of a header and of those that it includes, each once."""
    if name in seen:
        return ""
    seen.add(name)
    lines = []
    for line in (INCLUDE / name).read_text(encoding="utf-8").split("\n"):
        ours = re.match(r"#include <(shardwise/[^>]+)>", line)
        if ours:
            lines.append(text_of(ours.group(1), seen))
        elif line == "#include <mpi.h>":
            stand_in = (HERE / "one_process_mpi.h").read_text(encoding="utf-8")
            lines.append(f"#ifdef SHARDWISE_WITHOUT_MPI\n{stand_in}#else\n{line}\n#endif\n")
        elif not line.startswith(("// SPDX-", "#pragma once", "///")):
            lines.append(line + "\n")
    return re.sub(r"\n{3,}", "\n\n", "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", metavar="OUTPUT", help="the file to write")
    parser.add_argument("headers", nargs="*", metavar="HEADER", default=["shardwise/shardwise.hpp"])
    options = parser.parse_args()
    seen = set()
    text = "".join(text_of(name, seen) for name in options.headers)
    license = (HERE / "one_process_mpi.h").read_text(encoding="utf-8").split("\n")[:2]
    pathlib.Path(options.output).write_text(
        "\n".join(license) + "\n"
        "// Generated from Shardwise's headers by cmake/single_header/make.py. With -DSHARDWISE_WITHOUT_MPI it needs no MPI.\n"
        f"#pragma once\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
