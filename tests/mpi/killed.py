#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Kills one rank of three, or all of the job, at random moments while they exchange data: through shared memory, or across `hosts`.
Each time the job must be gone within 20 seconds; and no file that was not there may be left in /dev/shm.

    killed.py PROGRAM MPIEXEC -n memory|hosts
"""

import atexit
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

PROGRAM, MPIEXEC, NUMBER, *WAY = sys.argv[1:]
RANKS = 3


def pids_of_ranks():
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == os.path.realpath(PROGRAM):
                found.append(int(entry))
        except OSError:
            pass
    return found


def files():
    # MPI has segments of its own, which mpirun removes unless it is killed too.
    return {path for path in pathlib.Path("/dev/shm").rglob("*") if not path.name.startswith("vader_segment.")}


@atexit.register
def kill_what_is_left():
    for pid in pids_of_ranks():
        os.kill(pid, signal.SIGKILL)


random.seed(1)
before = files()
for kill in range(10):
    job = subprocess.Popen([MPIEXEC, NUMBER, str(RANKS), PROGRAM, *WAY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True)
    if job.stdout.readline() != "ready\n":
        sys.exit("the job has not begun")
    time.sleep(random.uniform(0, 0.1))
    ranks = pids_of_ranks()
    if len(ranks) != RANKS:
        sys.exit(f"{len(ranks)} ranks are there, expected {RANKS}")
    all_of_it = kill % 5 == 4
    for pid in ranks + [job.pid] if all_of_it else [random.choice(ranks)]:
        os.kill(pid, signal.SIGKILL)
    try:
        job.wait(20)
    except subprocess.TimeoutExpired:
        job.kill()
        sys.exit("mpirun is still there")
    until = time.monotonic() + 10
    while pids_of_ranks():
        if time.monotonic() > until:
            sys.exit(f"still there: {pids_of_ranks()}")
        time.sleep(0.05)
    if left := files() - before:
        sys.exit(f"left behind: {sorted(map(str, left))}")
print("10 kills; nothing hangs, nothing is left")
