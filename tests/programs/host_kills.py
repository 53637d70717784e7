#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Disturbs a training run under shardwise-run again and again, at random moments, on hosts that are network namespaces: kills a rank,
a daemon, a monitor or mpirun, cuts a link, or lets a host die and come back. Each time the run must go on by itself, and its losses must
be those of a run that nobody disturbs. Prints how long each recovery took, from the event to the next step. Needs root.

    host_kills.py build/examples/programs/shardwise-train examples/programs/run/shardwise-run [--events 30] [--hosts 2] [--seed 1]
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import hosts  # noqa: E402

TEXT = str(ROOT / "include" / "shardwise" / "layout")
SMALL = f"--text {TEXT} --layers 4 --features 64 --heads 4 --kv-heads 4 --hidden 192 --context 96 --batch 12".split()
# Thousands of steps must not amplify the rounding, which another mesh does in another order.
SMALL += "--rate-schedule constant --warmup 10 --rate 1e-5 --timeout 60 --zero 3".split()
HEARTBEAT = 5


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def entries(path):
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Disturbed:
    def __init__(self, options, on, folder):
        self.options, self.on, self.folder = options, on, folder
        self.chance = random.Random(options.seed)
        self.log, self.events = folder / "log", folder / "events"

    def command(self, steps):
        train = [self.options.train, *SMALL, "--save", str(self.folder / "saved"), "--save-every", "50", "--host-memory", "/dev/shm/run",
                 "--host-memory-every", "5", "--resume", "--log", str(self.log), "--steps", str(steps)]
        slots = ",".join(f"{address}:1" for address in self.on.addresses)
        return self.on.on(0, [self.options.run, "--hosts", slots, "--agent", self.on.agent, "--mpirun", "mpirun " + " ".join(self.on.mca()),
                              "--host-timeout", "3", "--heartbeat", str(HEARTBEAT), "--max-restarts", "999999", "--log", str(self.events),
                              "--", *train])

    def starts(self):
        return sum(each["event"] == "start" for each in entries(self.events))

    def steps(self):
        """The number of lines about steps, and the last step."""
        made = [each["step"] for each in entries(self.log) if "step" in each]
        return made[-1] if made else -1

    def kill(self, host, name):
        """One process with such a word on a host."""
        found = [pid for pid in self.on.processes(host) if any(word.endswith(name) for word in words_of(pid)[:4])]
        if not found:
            return False
        try:
            os.kill(self.chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def disturb(self):
        """Returns what was done; None if there was nothing to do it to."""
        what = self.chance.choice(["rank", "rank", "daemon", "monitor", "mpirun", "link", "link", "host", "host"])
        host = self.chance.randrange(self.on.count)
        away = self.chance.randrange(1, self.on.count)
        if len([each for each in entries(self.events) if each["event"] == "start"][-1]["hosts"]) < self.on.count:
            what, host = "rank", 0  # others are in use again after the next start
        if what == "rank":
            return self.kill(host, b"shardwise-train") and f"rank on host {host}"
        if what == "daemon":
            return self.kill(away, b"orted") and f"daemon on host {away}"
        if what == "monitor":
            return self.kill(host, b"monitor") and f"monitor on host {host}"
        if what == "mpirun":
            return self.kill(0, b"mpirun") and "mpirun"
        seconds = self.chance.uniform(1, 20)
        self.on.cut(away)
        if what == "host":
            self.on.kill_all(away)
        self.back.append((time.monotonic() + seconds, away))
        return f"{what} {away} for {seconds:.0f} s"

    def mend(self, wait=False):
        for each in list(self.back):
            if wait or time.monotonic() > each[0]:
                self.on.mend(each[1])
                self.back.remove(each)

    def recovered(self, begin, starts):
        """Seconds until the run went on; 0 if it was not interrupted."""
        while True:
            self.mend()
            now = self.starts()
            if now > starts:
                last = self.steps_at_start if now == self.started else None
                if last is None:
                    self.started, self.steps_at_start = now, self.lines()
                elif self.lines() > last:
                    return time.monotonic() - begin
            elif time.monotonic() - begin > 2 * HEARTBEAT and not self.back:
                before = self.lines()
                time.sleep(1)
                if self.lines() > before and self.starts() == starts:
                    return 0
            if self.job.poll() is not None or time.monotonic() - begin > 180:
                raise SystemExit(f"after {time.monotonic() - begin:.0f} s the run has not gone on: {self.events.read_text()[-3000:]}\n"
                                 f"{(self.folder / 'output').read_text()[-3000:]}")
            time.sleep(0.05)

    def lines(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def run(self):
        self.back, self.started, self.steps_at_start = [], 0, 0
        times = {}
        with open(self.folder / "output", "w", encoding="utf-8") as output:
            self.job = subprocess.Popen(self.command(10**7), stdout=output, stderr=subprocess.STDOUT)
        while self.steps() < 5:
            time.sleep(0.1)
        for number in range(self.options.events):
            time.sleep(self.chance.expovariate(1 / 2) if self.chance.random() < 0.8 else 0)
            starts, begin = self.starts(), time.monotonic()
            done = self.disturb()
            if not done:
                continue
            seconds = self.recovered(begin, starts)
            times.setdefault(done.split()[0], []).append(seconds)
            print(f"{number}: {done}: {seconds:.1f} s, at step {self.steps()}", flush=True)
            self.mend(wait=True)
        for pid in self.on.processes(0):
            if b"--hosts" in words_of(pid):
                os.kill(pid, signal.SIGTERM)
        self.job.wait(timeout=60)
        return times

    def compare(self):
        steps = self.steps() + 3
        subprocess.run(self.command(steps), check=True, capture_output=True)
        alone = self.folder / "alone"
        subprocess.run(self.on.on(0, ["mpirun", "-n", "1", self.options.train, *SMALL, "--steps", str(steps), "--log", str(alone)]),
                       check=True, capture_output=True)
        found, expected = ({each["step"]: each["loss"] for each in entries(path) if "step" in each} for path in (self.log, alone))
        if sorted(found) != list(range(steps)):
            raise SystemExit(f"steps are missing: {sorted(set(range(steps)) - set(found))[:10]}")
        return steps, max(abs(found[step] / expected[step] - 1) for step in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("run")
    parser.add_argument("--events", type=int, default=30)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.train, options.run = os.path.abspath(options.train), os.path.abspath(options.run)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", OMP_NUM_THREADS="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    with hosts.Hosts(options.hosts) as on, tempfile.TemporaryDirectory() as folder:
        disturbed = Disturbed(options, on, pathlib.Path(folder))
        times = disturbed.run()
        for what, seconds in sorted(times.items()):
            print(f"{what}: {len(seconds)} times, median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s")
        steps, off = disturbed.compare()
        print(f"{steps} steps; losses differ by at most {off:.1e} from a run on one rank that nobody disturbed")
        if off > 1e-4:
            sys.exit("which is too much")


if __name__ == "__main__":
    main()
