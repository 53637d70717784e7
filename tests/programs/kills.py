#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Kills a training run again and again, at random moments, also while it saves: the whole job, or one rank. Each time it
must be gone within 30 seconds; resumed, it must go on as a run that nobody disturbs: to the last bit on the same mesh, and
within 1e-4 where each part runs on another mesh than the one before. With --stop it is asked to stop, by a signal to mpirun or to
one rank, and no step may be lost.

    kills.py build/examples/programs/shardwise-train [--kills 20] [--ranks 2] [--mesh="--zero 3"] [--other-mesh] [--stop] [--seed 1] [--folder DIR]
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

SMALL = "--layers 2 --features 32 --heads 4 --kv-heads 4 --hidden 48 --context 32 --batch 12".split()
# No step depends on how many there will be, and rounding, which another mesh does in another order, is not amplified: at a rate
# of 3e-3 runs that nobody disturbs differ by 1e-3 after a thousand steps.
SMALL += "--rate-schedule constant --warmup 10 --rate 3e-4".split()
WITHOUT_END = 10**7  # steps
STOPS = [("mpirun", signal.SIGTERM), ("rank", signal.SIGTERM), ("mpirun", signal.SIGUSR1),
         ("mpirun", signal.SIGINT), ("rank", signal.SIGINT)]
# With --other-mesh, those that need no more than --ranks.
MESHES = [(2, "--zero 3"), (1, "--zero 0"), (2, "--tp 2"), (3, "--zero 3"), (4, "--tp 2 --zero 3"), (2, "--zero 1"),
          (4, "--tp 4"), (3, "--zero 2"), (4, "--zero 1 --tp 2 --sp"), (2, "--pp 2 --schedule zb-v --micro-batches 4"),
          (4, "--pp 2 --tp 2 --micro-batches 2")]


def command(options, ranks, mesh, steps, text, extra):
    words = ["mpirun", "--oversubscribe", "-n", str(ranks)]
    if options.stop:  # mpirun grants its ranks a second, which may be too little where much else runs
        words += ["--mca", "odls_base_sigkill_timeout", "3"]
    return words + [options.program, "--text", text, "--steps", str(steps)] + SMALL + mesh.split() + extra


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


def last_step(saved):
    steps = [int(path.name.removeprefix("step-")) for path in saved.glob("step-*") if path.name.count("-") == 1]
    return max(steps, default=0)


def run_to_the_end(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def lines_in(log):
    return log.read_text().count("\n") if log.exists() else 0


def started(words, log, wait_for_a_step):
    before = lines_in(log)
    job = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while wait_for_a_step and job.poll() is None and lines_in(log) < before + 2:
        time.sleep(0.01)
    return job


def disturbed(words, delay, log, number):
    """Kills the run after a delay, the whole job or one rank; sometimes before its first step."""
    job, whole_job = started(words, log, number % 4 < 3), number % 2 == 0
    time.sleep(delay)
    if job.poll() is not None:
        sys.exit(f"the run ended by itself with {job.returncode}:\n{job.communicate()[0]}")
    ranks = children_of(job.pid)
    for pid in [job.pid] + ranks if whole_job or not ranks else [random.choice(ranks)]:
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


def stopped(words, delay, log, saved, number):
    """Asks the run to stop, a delay after its first step."""
    job = started(words, log, True)
    time.sleep(delay)
    to, asks = STOPS[number % len(STOPS)]
    if to == "mpirun":
        job.send_signal(asks)
    elif ranks := children_of(job.pid):
        send(random.choice(ranks), asks)
    try:
        output = job.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        sys.exit("the job is still there after 30 seconds")
    found = re.search(r"stopped by SIG\w+ after step (\d+)", output)
    if not found:
        sys.exit(f"a run was asked to stop, and does not say that it did:\n{output}")
    if job.returncode == 0:
        sys.exit(f"a run that was stopped ended with 0:\n{output}")
    steps, last = int(found[1]), max(losses(log)) + 1
    if steps != last or not (saved / f"step-{steps:08}" / "manifest.json").exists():
        sys.exit(f"stopped after step {steps}, but {last} are in the log, and saved are {sorted(saved.iterdir())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mesh", default="--zero 3", help="the options of it, without --other-mesh")
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

    log, saved = folder / "disturbed.jsonl", folder / "checkpoints"
    meshes = [(options.ranks, options.mesh)]
    if options.other_mesh:
        meshes = [mesh for mesh in MESHES if mesh[0] <= options.ranks]

    def words(part, steps):
        extra = ["--log", str(log), "--save", str(saved), "--save-every", "3", "--resume"]
        ranks, mesh = meshes[part % len(meshes)]
        return command(options, ranks, mesh, steps, text, extra)

    for part in range(options.kills):
        delay = random.uniform(0, 1)
        if options.stop:
            stopped(words(part, WITHOUT_END), delay, log, saved, part)
        else:
            disturbed(words(part, WITHOUT_END), delay, log, part)
    made = last_step(saved)
    if made == 0:
        sys.exit("nothing was saved")
    steps = (made // 10 + 3) * 10
    run_to_the_end(words(options.kills, steps))
    undisturbed = folder / "undisturbed.jsonl"
    run_to_the_end(command(options, *meshes[0], steps, text, ["--log", str(undisturbed)]))
    leftovers = [p.name for p in saved.iterdir() if ".tmp-" in p.name]
    if leftovers:
        sys.exit(f"unfinished checkpoints are left: {leftovers}")

    expected, found = losses(undisturbed), losses(log)
    if sorted(found) != list(range(steps)):
        sys.exit(f"{log}: steps are missing")
    worst = max(abs(found[i] - expected[i]) / abs(expected[i]) for i in range(steps))
    bound = 1e-4 if options.other_mesh else 0
    print(f"{options.kills} {'stops' if options.stop else 'kills'} in {steps} steps; largest relative difference of the loss {worst:.1e}, allowed {bound:.0e}")
    if worst > bound:
        sys.exit(1)
    if not options.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
