#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Jobs on two hosts, which are network namespaces of this machine: collectives and a training run with one rank each and with two,
and with other numbers on each, dealt out in turn or not; and runs under shardwise-run of which one host vanishes, as its link is cut
or all its processes die. They must go on with the other, and end as a run that nobody disturbs. Needs root.

    two_hosts_test.py COMMUNICATOR_TEST SHARDWISE_TRAIN SHARDWISE_MEASURE SHARDWISE_RUN
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from tiers import all_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import hosts  # noqa: E402

TEXT = str(ROOT / "include" / "shardwise" / "layout")
# Rounding, which another mesh does in another order, is not amplified.
SMALL = f"--text {TEXT} --layers 2 --features 32 --heads 4 --kv-heads 4 --hidden 48 --context 32 --batch 12".split()
SMALL += "--rate-schedule constant --warmup 10 --rate 3e-4 --timeout 60".split()

# Of communicator_test: others count calls of MPI, which are other ones between hosts.
CASES = "all_reduce<float>,all_gather<float>,reduce_scatter<float>,all_to_all<float>,several requests*,from host to host*,subgroup*,agree*"


def losses(log):
    text = log.read_text()
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the last may not be whole yet
    return {line["step"]: line["loss"] for line in lines if "step" in line}


class TwoHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = hosts.Hosts()
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def succeeds(self, words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def same_losses(self, log, other, steps):
        found, expected = losses(log), losses(other)
        self.assertEqual(sorted(found), list(range(steps)))
        for step in range(steps):
            self.assertLess(abs(found[step] / expected[step] - 1), 1e-4, f"step {step}")

    def test_collectives(self):
        for ranks in ((1, 1), (2, 2), (1, 2)):
            with self.subTest(ranks):
                self.succeeds(self.hosts.mpirun(ranks, COMMUNICATOR_TEST, f"--test-case={CASES}"))

    def test_training(self):
        alone = self.path / "alone.jsonl"
        self.succeeds(self.hosts.on(0, ["mpirun", "-n", "1", TRAIN, *SMALL, "--steps", "5", "--log", str(alone)]))
        meshes = (((1, 1), "--zero 3"), ((2, 2), "--tp 2 --zero 2"), ((2, 2), "--zero 3 --sp --tp 4"), ((1, 2), "--zero 1"))
        for ranks, mesh in meshes if all_tests() else meshes[:2]:
            with self.subTest(f"{ranks} {mesh}"):
                log = self.path / f"{ranks}{mesh}.jsonl"
                self.succeeds(self.hosts.mpirun(ranks, TRAIN, *SMALL, *mesh.split(), "--steps", "5", "--log", str(log)))
                self.same_losses(log, alone, 5)

    def test_dealt_out_in_turn(self):
        """mpirun gives each host every other rank: tp stays within hosts, and what goes to others is as planned."""
        sent = {}
        mappings = ("slot", "node") if all_tests() else ("node",)
        for mapping in mappings:
            said = self.succeeds(self.hosts.mpirun((2, 2), "--map-by", mapping, TRAIN, *SMALL, "--tp", "2", "--zero", "1", "--steps", "2"))
            self.assertIn("\ntp 2 within a host; dp 2 across 2 hosts\n", said)
            sent[mapping] = re.findall(r"^ +(\w+) +to other hosts +(\S+ \S*B) +(\S+ \S*B)$", said, re.MULTILINE)
            self.assertTrue(sent[mapping], said)
            for phase, planned, recorded in sent[mapping]:
                self.assertEqual(planned, recorded, phase)
        self.assertEqual(sent["node"], sent[mappings[0]])
        speeds = self.path / "speeds.json"
        self.succeeds(self.hosts.mpirun((2, 2), "--map-by", "node", MEASURE, "--repetitions", "1", "--to", str(speeds)))
        self.assertLessEqual({"within", "across"}, set(json.loads(speeds.read_text())))
        done = subprocess.run(self.hosts.mpirun((1, 2), MEASURE), capture_output=True, text=True, timeout=200)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("2 of 3 ranks are on host 1 of 2: start the same number on each host", done.stderr)

    def vanishes(self, ranks, mesh, vanish):
        """A run under the launcher, of which the second host vanishes; it must end by itself within two minutes."""
        log, events, saved = (self.path / name for name in ("log", "events", "saved"))
        steps = 10**6
        train = [TRAIN, *SMALL, *mesh, "--save", str(saved), "--save-every", "5", "--resume", "--log", str(log)]
        slots = ",".join(f"{address}:{count}" for address, count in zip(self.hosts.addresses, ranks))

        def words(steps):
            return self.hosts.on(0, [RUN, "--hosts", slots, "--agent", self.hosts.agent, "--mpirun", "mpirun " + " ".join(self.hosts.mca()),
                                     "--host-timeout", "2", "--log", str(events), "--", *train, "--steps", str(steps)])

        with open(self.path / "output", "w", encoding="utf-8") as output:
            job = subprocess.Popen(words(steps), stdout=output, stderr=subprocess.STDOUT)
        try:
            # A fast job removes old checkpoints before anybody sees them.
            self.wait_until(lambda: any(int(path.name[5:]) >= 5 for path in saved.glob("step-*") if path.name[5:].isdigit()), job, 60)
            begin = time.monotonic()
            vanish()
            self.wait_until(lambda: events.exists() and '"start": 1' in events.read_text(), job, 60)
            found = time.monotonic() - begin
            made = len(losses(log))
            self.wait_until(lambda: len(losses(log)) > made + 5, job, 60)  # on the host that is left
            for pid in self.hosts.processes(0):
                if b"shardwise-run\0--hosts" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGTERM)
            job.wait(timeout=60)
        finally:
            job.kill()
            job.wait()
            self.hosts.kill_all()  # after a failure, ranks that still write
            self.hosts.mend(1)
        told = [json.loads(line) for line in events.read_text().splitlines()]
        self.assertEqual([each["host"] for each in told if each["event"] == "host lost"][:1], [self.hosts.addresses[1]])
        self.assertEqual([each["hosts"] for each in told if each["event"] == "start"][1], [f"{self.hosts.addresses[0]}:{ranks[0]}"])
        self.assertEqual([each["restart"] for each in told if each["event"] == "restart"], [1])
        self.assertEqual([each["event"] for each in told][-1], "stopped")
        # On both hosts again, to an end; and the same without all that.
        steps = max(losses(log)) + 4
        self.succeeds(words(steps))
        undisturbed = self.path / "undisturbed"
        self.succeeds(self.hosts.on(0, ["mpirun", "-n", "1", TRAIN, *SMALL, "--steps", str(steps), "--log", str(undisturbed)]))
        self.same_losses(log, undisturbed, steps)
        return found

    def wait_until(self, true, job, seconds):
        begin = time.monotonic()
        while not true():
            if job.poll() is not None or time.monotonic() - begin > seconds:
                job.kill()
                self.fail(f"after {time.monotonic() - begin:.0f} s: {(self.path / 'output').read_text()[-4000:]}")
            time.sleep(0.05)

    def test_a_link_is_cut(self):
        found = self.vanishes((1, 1), ["--zero", "3"], lambda: self.hosts.cut(1))
        self.assertLess(found, 40)  # seconds; TCP by itself takes a quarter of an hour

    def test_all_processes_of_a_host_die(self):
        def die():
            self.hosts.cut(1)  # so that the launcher must find out by itself
            self.hosts.kill_all(1)
        self.vanishes((2, 2), ["--tp", "2", "--zero", "1"], die)


if __name__ == "__main__":
    why = hosts.problem()
    if why:
        print(f"skipped: {why}")
        sys.exit(0)
    COMMUNICATOR_TEST, TRAIN, MEASURE, RUN = (os.path.abspath(path) for path in sys.argv[1:5])
    del sys.argv[1:5]
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", OMP_NUM_THREADS="1")
    for name in ("OMPI_MCA_pml", "OMPI_MCA_btl"):
        os.environ.pop(name, None)
    unittest.main()
