# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""support_table.py PAGE RESULTS [--check]: writes the table of .ci/matrix's results into PAGE, between two comments; with
--check, fails if PAGE has another one. A line of RESULTS: name, "passed" or "failed", number of tests, date, commit."""

import pathlib
import sys

BEGIN, END = "<!-- support: written by .ci/matrix -->\n", "<!-- support: end -->\n"
MPI = {"openmpi": "Open MPI 4.1", "mpich": "MPICH 4.0"}
COLUMNS = [(mpi, standard) for mpi in MPI for standard in ("20", "23")]


def table(lines):
    results = {name: rest for name, *rest in (line.split("\t") for line in lines)}

    def cell(name):
        if name not in results:
            return "not run"
        outcome, count, date, _ = results[name]
        return f"{count} tests, {date}" if outcome == "passed" else f"**fails**, {date}"

    compilers = sorted({name.split("_")[0] for name in results if name.count("_") == 2},
                       key=lambda name: (name.startswith("c"), name))
    rows = ["| | " + " | ".join(f"{MPI[mpi]}, C++{standard}" for mpi, standard in COLUMNS) + " |",
            "|---" * (len(COLUMNS) + 1) + "|"]
    rows += [f"| {compiler} | " + " | ".join(cell(f"{compiler}_{mpi}_{standard}") for mpi, standard in COLUMNS) + " |"
             for compiler in compilers]
    others = [f"{name}: {cell(name)}." for name in sorted(results) if name.count("_") != 2]
    return "\n".join(rows) + "\n" + ("\n" + " ".join(others) + "\n" if others else "")


def main(page, results, check=False):
    page = pathlib.Path(page)
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    text = before + BEGIN + table(pathlib.Path(results).read_text().splitlines()) + END + after
    if not check:
        page.write_text(text)
    elif text != page.read_text():
        sys.exit(f"{page}: the support table differs from {results}: run .ci/matrix --table")


if __name__ == "__main__":
    main(*sys.argv[1:3], check="--check" in sys.argv)
