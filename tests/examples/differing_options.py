#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Gives one of two ranks another value of an option, or one of more ranks an option that the others lack, for each that a
program's --help lists: the job must end within 5 seconds, with one message that names the first such rank and the option.

    differing_options.py RANKS build/examples/tools/shardwise-train [OPTION...]     the options of all ranks
"""

import concurrent.futures
import re
import subprocess
import sys
import time

APART = ("--help", "--version", "--config", "--print-config")


def options_of(program):
    """Those of --help, as [name, whether it takes a value]."""
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ +(?:-\w,)?(--[\w-]+)(?:,--[\w-]+)*( +(?:[A-Z]+\b|\{))?", text, re.MULTILINE)
    return [(name, bool(value)) for name, value in found if name not in APART]


def run(program, ranks, common, name, values):
    """Rank 1 has the option with the second value, the others with the first; none: not at all."""
    words = ["mpirun"]
    for rank in range(ranks):
        value = values[1] if rank == 1 else values[0]
        own = [] if value is None else [name] + value
        words += [":"] * (rank > 0) + ["-n", "1", program] + common + own
    begin = time.monotonic()
    job = subprocess.run(words, capture_output=True, text=True, timeout=60)
    seconds = time.monotonic() - begin
    messages = re.findall(r"^shardwise: .*$", job.stdout + job.stderr, re.MULTILINE)
    said = [" ".join([name] + v) if v is not None else f"no {name}" for v in values]
    expected = f": programs differ: rank 1: {said[1]}, rank 0: {said[0]}"
    if job.returncode != 0 and len(messages) == 1 and messages[0].endswith(expected) and seconds < 5:
        return None
    return f"{name}: {seconds:.1f} s, exit code {job.returncode}, {messages}, expected '{expected}'"


def main():
    ranks, program, common = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    options = options_of(program)
    if len(options) < 5:
        sys.exit(f"--help lists {len(options)} options")
    jobs = [("--wat", (None, []))]  # what rank 1 alone would refuse
    for name, takes_value in options:
        if ranks == 2:
            jobs.append((name, (["1"], ["2"]) if takes_value else (None, [])))
        else:
            jobs.append((name, (None, ["2"]) if takes_value else ([], None)))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems = [p for p in pool.map(lambda job: run(program, ranks, common, *job), jobs) if p]
    print(f"{len(options)} options, {len(jobs)} jobs of {ranks} ranks")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
