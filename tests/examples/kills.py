#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Kills a training run again and again, at random moments, also while it saves: the whole job, or one rank. Each time it
must be gone within 30 seconds; resumed, it must go on as a run that nobody disturbs: to the last bit on the same mesh, and
within 1e-4 where each part runs on another mesh than the one before. With --stop it is asked to stop, mpirun by SIGUSR1 or one
rank by SIGTERM or SIGINT, and no step may be lost.

    kills.py build/examples/train [--kills 20] [--ranks 2] [--other-mesh] [--stop] [--seed 1] [--folder DIR]
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SMALL = "--layers 2 --features 32 --heads 4 --kv-heads 4 --hidden 48 --context 32 --batch 12 --steps {steps}".split()
WAYS = [["--zero", "3"], ["--zero", "1"], ["--zero", "0"], ["--zero", "2"]]


def command(options, ranks, steps, way, text, extra):
    words = ["mpirun", "--oversubscribe", "-n", str(ranks), options.program, "--text", text]
    return words + [word.format(steps=steps) for word in SMALL] + way + extra


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry))
    return found


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def losses(log):
    steps = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if "step" in entry:
            if entry["step"] in steps:
                sys.exit(f"{log}: step {entry['step']} is there twice")
            steps[entry["step"]] = entry["loss"]
    return steps


def run_to_the_end(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def disturbed(words, delay, whole_job):
    """Kills the run after a delay. Returns whether it was still running."""
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        job.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        pass
    if job.poll() is not None:
        output = job.communicate()[0]
        if job.returncode != 0:
            sys.exit(f"the run ended by itself with {job.returncode}:\n{output}")
        return False
    ranks = children_of(job.pid)
    for pid in ([job.pid] + ranks) if whole_job else random.sample(ranks, min(1, len(ranks))):
        send(pid, signal.SIGKILL)
    begin = time.monotonic()
    while job.poll() is None or any(alive(pid) for pid in ranks):
        if time.monotonic() - begin > 30:
            sys.exit("the job is still there after 30 seconds")
        time.sleep(0.05)
    output = job.communicate()[0]
    if job.returncode == 0 and ranks:
        sys.exit(f"a killed run ended with 0:\n{output}")
    if not whole_job and ranks and "killed" not in output.lower() and "signal 9" not in output.lower():
        sys.exit(f"a rank was killed, and nobody says so:\n{output}")
    return True


def lines_in(log):
    return log.read_text().count("\n") if log.exists() else 0


def stopped(words, delay, log, saved, number):
    """Asks the run to stop, a delay after its first step. Returns whether it was still running."""
    before = lines_in(log)
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while job.poll() is None and lines_in(log) < before + 2:
        time.sleep(0.01)
    time.sleep(delay)
    ranks = children_of(job.pid)
    if number % 3 == 0:
        job.send_signal(signal.SIGUSR1)  # which mpirun passes on
    elif ranks:
        send(random.choice(ranks), [signal.SIGTERM, signal.SIGINT][number % 2])
    try:
        output = job.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        sys.exit("the job is still there after 30 seconds")
    if "the last training step" in output:
        return False
    found = re.search(r"stopped by a signal after step (\d+)", output)
    if not found:
        sys.exit(f"a run was asked to stop, and does not say that it did:\n{output}")
    steps, last = int(found[1]), max(losses(log)) + 1
    if steps != last or not (saved / f"step-{steps:08}" / "manifest.json").exists():
        sys.exit(f"stopped after step {steps}, but {last} are in the log, and saved are {sorted(saved.iterdir())}")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--other-mesh", action="store_true")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    options = parser.parse_args()
    random.seed(options.seed)
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.geteuid() == 0:  # in a container, perhaps
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    text = str(root / "include" / "shardwise" / "layout")
    folder = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="shardwise-kills-"))
    folder.mkdir(parents=True, exist_ok=True)
    steps = (200 if options.stop else 40) * (options.kills + 2)

    undisturbed = folder / "undisturbed.jsonl"
    begin = time.monotonic()
    run_to_the_end(command(options, options.ranks, steps, WAYS[0], text, ["--log", str(undisturbed)]))
    per_part = (time.monotonic() - begin) / (options.kills + 1)

    log, saved = folder / "disturbed.jsonl", folder / "checkpoints"
    extra = ["--log", str(log), "--save", str(saved), "--save-every", "3", "--resume"]

    def words(part):
        if not options.other_mesh:
            return command(options, options.ranks, steps, WAYS[0], text, extra)
        ranks = 1 + part % options.ranks if options.ranks > 1 else 1
        return command(options, ranks, steps, WAYS[part % len(WAYS)], text, extra)

    kills = 0
    for part in range(4 * options.kills):
        if kills == options.kills:
            break
        if options.stop:
            running = stopped(words(part), random.uniform(0, per_part / 2), log, saved, part)
        else:
            # From before the first step to well after many: a start takes about as long as some steps.
            delay = random.uniform(0.2, 1.0) + random.uniform(0, per_part)
            running = disturbed(words(part), delay, part % 2 == 0)
        if not running:
            break
        kills += 1
    run_to_the_end(words(options.kills))
    leftovers = [p.name for p in saved.iterdir() if ".tmp-" in p.name]
    if leftovers:
        sys.exit(f"unfinished checkpoints are left: {leftovers}")

    expected, found = losses(undisturbed), losses(log)
    if sorted(found) != list(range(steps)):
        sys.exit(f"{log}: steps are missing")
    worst = max(abs(found[i] - expected[i]) / abs(expected[i]) for i in range(steps))
    bound = 1e-4 if options.other_mesh else 0
    print(f"{kills} {'stops' if options.stop else 'kills'} in {steps} steps; largest relative difference of the loss {worst:.1e}, allowed {bound:.0e}")
    if worst > bound or kills == 0:
        sys.exit(1)
    if not options.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
