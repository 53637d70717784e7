#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""`shardwise-train --stream`: losses are those of a corpus in memory, digit for digit, on several meshes and in a run that
is resumed on another; a file that is cut is named. The order of the text is computed here a second time.

    stream_test.py TRAIN     the program
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from tiers import all_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = "--layers 1 --features 16 --heads 2 --hidden 24 --context 16 --batch 16 --rate-schedule constant --warmup 2".split()
PIECE = 16 * 16  # bytes: 16 for each token of a sequence
SEED = 11
TRAIN = sys.argv[1]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def permuted(n, epoch):
    low = next(r for r in range(n + 1) if r * r >= n)
    high = -(-n // low)

    def at(place):
        left, right = place % low, place // low
        for i in range(16):
            word = philox([right, epoch, 0, 1 + i], [SEED, 0])
            left, right = right, (left + (word[0] << 31 ^ word[1])) % (high if i % 2 else low)
        value = right * low + left
        return value if value < n else at(value)

    return [at(place) for place in range(n)]


def pieces(text):
    cuts = [0]
    for place in range(PIECE, len(text), PIECE):
        end = min(place + PIECE, len(text))
        lines = (i for i in range(place, end) if text[i - 1] == 10 and text[i] not in b" \t\r\n")
        cuts.append(next(lines, len(text) if end == len(text) else place))
    cuts.append(len(text))
    return [text[a:b] for a, b in zip(cuts, cuts[1:])]


def run(ranks, text, options, code=0):
    command = ["mpirun", "--oversubscribe", "-n", str(ranks), TRAIN, "--text", str(text)] + MODEL + [str(o) for o in options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    if (done.returncode != 0) != (code != 0):
        sys.exit(f"exit code {done.returncode} of {command}:\n{done.stdout}")
    return done.stdout


def losses(log):
    return [(s["step"], s["loss"], s["gradient_norm"]) for s in map(json.loads, log.read_text().splitlines()) if "loss" in s]


def main(folder):
    files = sorted((ROOT / "include" / "shardwise" / "layout").glob("*.hpp"))[:6]
    text = folder / "text"
    text.mkdir()
    for file in files:
        (text / file.name).write_bytes(file.read_bytes().decode("ascii", "ignore").encode())
    parts = [part for file in files for part in pieces((text / file.name).read_bytes())]
    memory = folder / "memory"
    memory.write_bytes(b"".join(parts[i] for epoch in range(3) for i in permuted(len(parts), epoch)))
    steps = -(-sum(map(len, parts)) * 3 // 2 // 256)  # an epoch and a half, rounded up, whatever the files are
    streamed = ["--stream", "--seed", SEED]
    # `in_order` of a text in another order, from memory, against a stream.
    meshes = [(1, []), (2, ["--tp", 2]), (4, ["--tp", 2, "--zero", 1, "--micro-batches", 2])]
    for ranks, mesh in meshes if all_tests() else meshes[2:]:
        found = []
        for name, data, how in ("memory", memory, ["--in-order", "--seed", SEED]), ("stream", text, streamed):
            log = folder / f"{name}{ranks}.jsonl"
            said = run(ranks, data, how + mesh + ["--steps", steps, "--log", log])
            found.append(losses(log))
        assert len(found[0]) == steps and found[0] == found[1], (ranks, found)
        assert re.search(r"epoch 1\.[45]\d\n", said) and "steps have waited" in said, said
        assert all(json.loads(line)["waited"] >= 0 for line in log.read_text().splitlines()[1:])
    # Stopped in the middle, and resumed on another mesh.
    found = []
    for name, data, how in ("memory", memory, ["--in-order", "--seed", SEED]), ("stream", text, streamed):
        log = folder / f"{name}-resumed.jsonl"
        saved = how + ["--log", log, "--save", folder / f"{name}-saved"]
        run(2, data, saved + ["--steps", steps // 2])
        run(4 if all_tests() else 1, data, saved + ["--steps", steps, "--resume", "--pp", 1])
        found.append(losses(log))
    assert len(found[0]) == steps and found[0] == found[1], found
    said = run(1, text, ["--seed", SEED, "--save", folder / "stream-saved", "--resume"], code=1)
    assert 'of another run: "stream" was true, and is null' in said, said
    # A file is cut while the job runs.
    log = folder / "cut.jsonl"
    job = subprocess.Popen(
        ["mpirun", "--oversubscribe", "-n", "2", TRAIN, "--text", str(text)] + MODEL + ["--stream", "--steps", "1000000",
                                                                                      "--log", str(log)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begin = time.monotonic()
    while not log.exists() or len(losses(log)) < 5:
        assert job.poll() is None and time.monotonic() - begin < 60, job.communicate()[0]
        time.sleep(0.01)
    cut = text / files[0].name
    size = cut.stat().st_size
    os.truncate(cut, size // 2)
    said = job.communicate(timeout=60)[0]
    assert job.returncode != 0 and f"{cut}: it had {size} bytes when the run began, and has {size // 2}" in said, said


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
