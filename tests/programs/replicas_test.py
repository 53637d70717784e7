#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Replicas that are jobs of their own: `shardwise-train --quorum`, several mpiruns that exchange by TCP.

    replicas_test.py TRAIN SHARDWISE_QUORUM"""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRAIN, QUORUM = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
del sys.argv[1:3]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ("--layers 1 --features 16 --heads 2 --hidden 24 --context 32 --rate-schedule constant --warmup 2"
         " --local-steps 4").split() + ["--text", str(ROOT / "include" / "shardwise" / "layout")]


class ReplicasTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path, self.running = pathlib.Path(self.folder.name), []
        self.addCleanup(lambda: [self.kill(each) for each in self.running])
        self.token = self.path / "token"
        self.port = None

    def kill(self, process):
        """All of its session: mpirun's ranks have groups of their own, and would hold the folder's lock a little longer."""
        for each in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(each.name)) == process.pid:
                    os.kill(int(each.name), signal.SIGKILL)
        process.wait()

    def start(self, words, output):
        with open(self.path / output, "a") as file:
            process = subprocess.Popen([str(word) for word in words], start_new_session=True, stderr=subprocess.STDOUT, stdout=file)
        self.running.append(process)
        return process

    def start_quorum(self, *options, replicas=2):
        self.port = self.port or random.randint(20000, 30000)
        before = self.text("quorum").count("listens")
        process = self.start([QUORUM, "--listen", f"127.0.0.1:{self.port}", "--replicas", replicas, "--token", self.token,
                              "--patience", "20", *options], "quorum")
        while self.text("quorum").count("listens") == before:
            self.assertIsNone(process.poll(), self.text("quorum"))
            time.sleep(0.02)
        return process

    def text(self, name):
        path = self.path / name
        return path.read_text() if path.exists() else ""

    def words(self, number, *options, ranks=1, replicas=2):
        return ["mpirun", "--oversubscribe", "-n", ranks, TRAIN, *MODEL, "--batch", 2 * replicas, "--quorum", f"127.0.0.1:{self.port}", "--replica", number,
                "--replicas", replicas, "--token", self.token, "--interface", "lo", "--log", self.path / f"log{number}.jsonl",
                *options]

    def start_replica(self, number, *options, **how):
        return self.start(self.words(number, *options, **how), f"out{number}")

    def ends(self, number, process, code=0):
        self.assertEqual(process.wait(timeout=100), code, self.text(f"out{number}") + self.text("quorum"))

    def losses(self, name):
        lines = [json.loads(line) for line in self.text(name).splitlines()]
        return {line["step"]: line["loss"] for line in lines if "loss" in line}

    def wait_for_step(self, number, step):
        end = time.monotonic() + 60
        while max(self.losses(f"log{number}.jsonl"), default=-1) < step:
            self.assertLess(time.monotonic(), end, self.text(f"out{number}") + self.text("quorum"))
            time.sleep(0.02)

    def models(self, numbers=(0, 1)):
        return {(self.path / f"model{number}" / "model.safetensors").read_bytes() for number in numbers}

    def export(self, number):
        return ["--export", self.path / f"model{number}"]

    def test_one_job_with_the_same_replicas_has_the_same_losses(self):
        for ranks, options in ((1, []), (2, ["--zero", "1"]), (2, ["--tp", "2", "--outer-momentum", "0"])):
            with self.subTest(options):
                quorum = self.start_quorum()
                both = [self.start_replica(number, "--steps", 12, *options, *self.export(number), ranks=ranks) for number in (0, 1)]
                for number, process in enumerate(both):
                    self.ends(number, process)
                self.assertEqual(len(self.models()), 1)
                one = subprocess.run([str(word) for word in ["mpirun", "--oversubscribe", "-n", 2 * ranks, TRAIN, *MODEL, "--batch", 4, "--replicas", 2,
                                      "--steps", 12, "--log", self.path / "one.jsonl", *options]], capture_output=True, text=True, timeout=100)
                self.assertEqual(one.returncode, 0, one.stdout + one.stderr)
                found, expected = [self.losses(f"log{number}.jsonl") for number in (0, 1)], self.losses("one.jsonl")
                self.assertEqual(sorted(expected), list(range(12)))
                for step, loss in expected.items():
                    self.assertAlmostEqual((found[0][step] + found[1][step]) / 2, loss, delta=2e-6 * loss, msg=step)
                self.kill(quorum)
                for name in ("log0.jsonl", "log1.jsonl", "one.jsonl", "quorum"):
                    (self.path / name).unlink()

    def test_a_killed_replica_comes_back(self):
        self.start_quorum()
        options = ["--steps", 4000, "--resume", "--save-every", 42]
        first = self.start_replica(0, *options, "--save", self.path / "save0", *self.export(0), ranks=2)
        second_options = [*options, "--save", self.path / "save1", *self.export(1)]
        second = self.start_replica(1, *second_options, ranks=2)
        for kind in ("from a checkpoint", "from nothing"):
            begun = max(self.losses("log0.jsonl"), default=0)
            self.wait_for_step(1, begun + 60)
            self.kill(second)
            killed = max(self.losses("log0.jsonl"))
            self.wait_for_step(0, killed + 100)  # which goes on alone
            if kind == "from nothing":
                subprocess.run(["rm", "-r", str(self.path / "save1")], check=True)
            (self.path / "log1.jsonl").unlink()
            second = self.start_replica(1, *second_options, ranks=2)
            self.wait_for_step(1, killed + 100)
        self.ends(0, first)
        self.ends(1, second)
        self.assertEqual(len(self.models()), 1)
        self.assertIn("1 is behind", self.text("quorum"))

    def test_three_replicas_in_bfloat16_without_checkpoints(self):
        self.start_quorum(replicas=3)
        options = ["--steps", 1200, "--bf16"]
        jobs = [self.start_replica(number, *options, *self.export(number), replicas=3) for number in range(3)]
        self.wait_for_step(0, 60)
        self.kill(jobs[0])
        killed = max(self.losses("log1.jsonl"))
        (self.path / "log0.jsonl").unlink()
        jobs[0] = self.start_replica(0, *options, *self.export(0), replicas=3)
        self.wait_for_step(0, killed)
        for number, process in enumerate(jobs):
            self.ends(number, process)
        self.assertEqual(len(self.models(range(3))), 1)
        behind = re.findall("0 is behind|[12] is behind", self.text("quorum"))
        self.assertEqual(behind, ["0 is behind"], self.text("quorum"))  # once, when it came

    def test_the_quorum_is_restarted(self):
        quorum = self.start_quorum()
        both = [self.start_replica(number, "--steps", 2000, *self.export(number)) for number in (0, 1)]
        for _ in range(2):
            self.wait_for_step(0, max(self.losses("log0.jsonl"), default=0) + 100)
            self.kill(quorum)
            time.sleep(0.5)
            quorum = self.start_quorum()
        for number, process in enumerate(both):
            self.ends(number, process)
        self.assertEqual(len(self.models()), 1)

    def test_refuses_what_does_not_fit(self):
        self.start_quorum()
        first = self.start_replica(0, "--steps", 8)
        while "replica 0 joins" not in self.text("quorum"):
            time.sleep(0.02)
        other = self.path / "other"
        other.write_text("0123456789abcdef0123\n")
        for change, says in ((["--features", 32], "its ranks, parameters or settings are not those of replica 0"),
                             (["--replica", 2], "--replica 2 of --replicas 2: expected a number below it"),
                             (["--token", other], f"the token in {other}: others than its owner may read it"),
                             (["--token", self.path / "none"], "none: No such file"),
                             (["--interface", "none0"], "no network interface none0 with an IPv4 address: this host has lo"),
                             (["--repeat-every", 2], "--repeat-every does not go with --quorum")):
            with self.subTest(change):
                words = self.words(1, "--steps", 8)
                for name, value in zip(change[::2], change[1::2]):
                    if name in words:
                        at = words.index(name)
                        words[at:at + 2] = []
                    words += [name, value]
                done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(says, done.stdout + done.stderr)
        other.chmod(0o600)
        stranger = self.start([other if word == self.token else word for word in self.words(1, "--steps", 8)], "stranger")
        self.assertNotEqual(stranger.wait(timeout=60), 0)
        self.assertIn("replica 1: the quorum refuses it: its token is not that of this run", self.text("stranger"))
        second = self.start_replica(1, "--steps", 8)  # the first has waited
        self.ends(0, first)
        self.ends(1, second)


if __name__ == "__main__":
    unittest.main()
