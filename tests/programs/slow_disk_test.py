#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""A rank whose disk takes longer to flush a file than the watchdog lets ranks wait: the others wait for it, whatever it writes. If it
takes for ever, the job ends, and says which file that was.  slow_disk_test.py SHARDWISE_TRAIN SLOW_DISK"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from tiers import all_tests

TRAIN, SLOW_DISK = sys.argv[1:3]
TEXT = str(pathlib.Path(__file__).resolve().parent.parent.parent / "include" / "shardwise" / "mesh")
SMALL = f"--text {TEXT} --layers 1 --features 32 --heads 4 --kv-heads 4 --hidden 48 --context 16 --batch 4 --steps 4 --timeout 1".split()
# The rank whose disk is slow, a part of the names of its files, and what writes them.
KINDS = {
    "in the background": (1, "rank-00001.bin", "--save @ --save-every 2"),
    "in the foreground": (1, "rank-00001.bin", "--save @ --save-every 2 --save-in-foreground"),
    "manifest": (0, "manifest.json", "--save @ --save-every 2"),
    "export": (1, "model.safetensors", "--export @ --tp 2"),
    "PyTorch export": (0, "pytorch_model.bin", "--export @ --format pytorch"),
    "best export": (0, "model.safetensors", "--export-best @ --held-out 0.2 --evaluate-every 2"),
    "cache of tokens": (0, "tokens", "--cache @/tokens"),
}


def run(kind, seconds):
    rank, name, options = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="shardwise-slow-") as folder:
        words = ["mpirun", "-n", "2", "-x", f"LD_PRELOAD={SLOW_DISK}", "-x", f"SLOW_RANK={rank}", "-x", f"SLOW_NAME={name}", "-x",
                 f"SLOW_SECONDS={seconds}", TRAIN, *SMALL, *options.replace("@", folder).split()]
        begin = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=100)
        took = time.monotonic() - begin
    said = f"{kind}, {seconds} s: exit code {done.returncode} after {took:.1f} s\n{done.stdout[-1000:]}{done.stderr}"
    if seconds < 100:
        return None if done.returncode == 0 and took > seconds else said
    report = rf"no progress for 1 s: .*rank {rank} .*, and flushes \S*{name}\S* since 1\d s"
    return None if done.returncode == 69 and re.search(report, done.stderr) and took < 60 else said


for_ever = ("in the background", "export", "cache of tokens") if all_tests() else ("in the background",)
jobs = [(kind, 1000) for kind in for_ever] + [(kind, 3) for kind in KINDS]
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    problems = [said for said in pool.map(lambda job: run(*job), jobs) if said]
print("\n\n".join(problems))
sys.exit(1 if problems else 0)
