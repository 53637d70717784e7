#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Disturbs replicas that are jobs of their own, each with its shardwise-run on a host that is a network namespace, at random moments:
kills a rank, mpirun or the quorum, stops a rank for a while, cuts a link, or lets a host die and come back. Each time the others must go
on, and all must be together again by themselves, with the same bits. Prints how long that took. Needs root.

    replica_kills.py build/examples/programs/shardwise-train examples/programs/run [--events 30] [--hosts 3] [--seed 1]
"""

import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import hosts  # noqa: E402

MODEL = ("--layers 2 --features 32 --heads 4 --kv-heads 4 --hidden 96 --context 64 --rate-schedule constant --warmup 10"
         " --local-steps 10 --zero 1").split() + ["--text", str(ROOT / "include" / "shardwise" / "layout")]


class Replicas:
    def __init__(self, options, on, folder):
        self.options, self.on, self.folder = options, on, folder
        self.chance, self.jobs, self.quorum = random.Random(options.seed), {}, None

    def start_quorum(self):
        with open(self.folder / "quorum", "a", encoding="utf-8") as output:
            self.quorum = subprocess.Popen(self.on.on(0, [f"{self.options.programs}/shardwise-quorum", "--listen", f"{self.on.addresses[0]}:29400",
                                           "--replicas", str(self.on.count), "--token", str(self.folder / "token"), "--patience", "15"]),
                                           stderr=output)

    def start_replica(self, host):
        train = [self.options.train, *MODEL, "--batch", str(4 * self.on.count), "--replicas", str(self.on.count), "--replica", str(host),
                 "--quorum", f"{self.on.addresses[0]}:29400", "--token", str(self.folder / "token"), "--interface", "eth0", "--steps", "10000000",
                 "--save", str(self.folder / f"saved{host}"), "--save-every", "50", "--resume", "--log", str(self.folder / f"log{host}")]
        with open(self.folder / f"output{host}", "a", encoding="utf-8") as output:
            self.jobs[host] = subprocess.Popen(self.on.on(host, [f"{self.options.programs}/shardwise-run", "--hosts", "localhost:2", "--max-restarts",
                                               "999999", "--heartbeat", "5", "--", *train]), stdout=output, stderr=subprocess.STDOUT)

    def keep_services(self):
        """What a host's service manager does."""
        if self.quorum.poll() is not None:
            self.start_quorum()
        for host, job in self.jobs.items():
            if job.poll() is not None and host not in [each for _, each in self.back]:
                self.start_replica(host)

    def rounds(self):
        """The committed rounds in which all have trained."""
        text = (self.folder / "quorum").read_text(encoding="utf-8")
        whole = ", ".join(f"{replica} has trained" for replica in range(self.on.count))
        began = set(re.findall(rf"epoch (\d+), outer step \d+: {whole}\n", text))
        return len(began & set(re.findall(r"epoch (\d+) is committed", text)))

    def committed(self):
        return (self.folder / "quorum").read_text(encoding="utf-8").count("is committed")

    def signal(self, host, name, number):
        found = []
        for pid in self.on.processes(host):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.endswith(name) for word in words[:2]):
                found.append(pid)
        try:
            pid = self.chance.choice(sorted(found))
            os.kill(pid, number)
            return pid
        except (IndexError, ProcessLookupError):
            return None

    def disturb(self):
        what = self.chance.choice(["rank", "rank", "mpirun", "quorum", "stop", "link", "link", "host"])
        host = self.chance.randrange(self.on.count)
        seconds = self.chance.uniform(1, 25)
        if what == "rank":
            return self.signal(host, b"shardwise-train", signal.SIGKILL) and f"rank on host {host}"
        if what == "mpirun":
            return self.signal(host, b"mpirun", signal.SIGKILL) and f"mpirun on host {host}"
        if what == "quorum":
            return self.signal(0, b"shardwise-quorum", signal.SIGKILL) and "quorum"
        if what == "stop":
            pid = self.signal(host, b"shardwise-train", signal.SIGSTOP)
            self.stopped = (time.monotonic() + seconds, pid) if pid else None
            return pid and f"stop of a rank on host {host} for {seconds:.0f} s"
        self.on.cut(host)
        if what == "host":
            self.on.kill_all(host)
        self.back.append((time.monotonic() + seconds, host))
        return f"{what} {host} for {seconds:.0f} s"

    def mend(self):
        for each in list(self.back):
            if time.monotonic() > each[0]:
                self.on.mend(each[1])
                self.back.remove(each)
        if self.stopped and time.monotonic() > self.stopped[0]:
            try:
                os.kill(self.stopped[1], signal.SIGCONT)
            except ProcessLookupError:
                pass
            self.stopped = None
        self.keep_services()

    def together(self, begin, before):
        """Seconds until all have trained for two rounds, and until the first round of any."""
        first = None
        before_any = self.committed()
        while True:
            self.mend()
            if first is None and self.committed() > before_any:
                first = time.monotonic() - begin
            if not self.back and not self.stopped and self.rounds() >= before + 2:
                return time.monotonic() - begin, first
            if time.monotonic() - begin > 240:
                outputs = "".join((self.folder / f"output{host}").read_text(encoding="utf-8")[-1500:] for host in self.jobs)
                raise SystemExit(f"they are not together:\n{(self.folder / 'quorum').read_text()[-2500:]}\n{outputs}")
            time.sleep(0.05)

    def run(self):
        self.back, self.stopped, times = [], None, {}
        self.start_quorum()
        for host in range(self.on.count):
            self.start_replica(host)
        self.together(time.monotonic(), 0)
        for number in range(self.options.events):
            time.sleep(self.chance.expovariate(1 / 2) if self.chance.random() < 0.8 else 0)
            before, begin = self.rounds(), time.monotonic()
            done = self.disturb()
            if not done:
                continue
            seconds, first = self.together(begin, before)
            times.setdefault(done.split()[0], []).append(seconds)
            print(f"{number}: {done}: the next round after {first:.1f} s, together after {seconds:.1f} s", flush=True)
        return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("programs")
    parser.add_argument("--events", type=int, default=30)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.train, options.programs = os.path.abspath(options.train), os.path.abspath(options.programs)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", OMP_NUM_THREADS="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    with hosts.Hosts(options.hosts) as on, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        replicas = Replicas(options, on, pathlib.Path(folder))
        times = replicas.run()
        for what, seconds in sorted(times.items()):
            print(f"{what}: {len(seconds)} times, median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s")


if __name__ == "__main__":
    main()
