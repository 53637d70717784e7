#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-run with an mpirun and an agent that are scripts: which exit codes are started again, on which hosts, and with which exit
code it ends. (two_hosts_test.py has real jobs.)  launcher_test.py SHARDWISE_RUN"""

import contextlib
import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
# Notes its words, and acts the next line of the file "acts": an exit code, or "sleep".
MPIRUN = """#!/bin/bash
echo "$*" >>@DIR@/calls
act=$(head -n 1 @DIR@/acts); sed -i 1d @DIR@/acts
eval "$act"
"""
# A host answers if there is a file of its name.
AGENT = """#!/bin/bash
touch @DIR@/asked
[[ -e @DIR@/$1 ]] && { shift; exec bash -c "$*"; }
[[ -e @DIR@/refuses ]] && { echo "ssh: no route" >&2; exit 255; }
exec sleep 1000
"""


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name, text in (("mpirun", MPIRUN), ("agent", AGENT)):
            (self.path / name).write_text(text.replace("@DIR@", str(self.path)))
            (self.path / name).chmod(0o755)
        for host in ("198.51.100.1", "198.51.100.2"):
            (self.path / host).touch()

    def words(self, *options, command=("train", "--resume")):
        return [str(PROGRAM), "--hosts", "198.51.100.1:2,198.51.100.2:3", "--agent", str(self.path / "agent"), "--mpirun", str(self.path / "mpirun"),
                "--host-timeout", "1", "--wait", "0", "--log", str(self.path / "log"), *options, "--", *command]

    def acts(self, *acts):
        (self.path / "acts").write_text("".join(f"{act}\n" for act in acts))

    def run_it(self, *acts, options=(), command=("train", "--resume")):
        self.acts(*acts)
        return subprocess.run(self.words(*options, command=command), capture_output=True, text=True, timeout=30)

    def calls(self):
        path = self.path / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def events(self):
        return [json.loads(line) for line in (self.path / "log").read_text().splitlines()]

    def test_passes_on_what_the_job_needs(self):
        self.assertEqual(self.run_it("exit 0", command=("train", "--resume", "--text", "a b")).returncode, 0)
        call = self.calls()[0]
        for words in ("--host 198.51.100.1:2,198.51.100.2:3 -n 5 train --resume --text a b", "--mca oob_tcp_keepalive_time 10", "--mca oob_tcp_keepalive_intvl 2",
                      "--mca oob_tcp_keepalive_probes 3", f"--mca plm_rsh_agent {self.path}/agent"):
            self.assertIn(words, call)

    def test_starts_again_what_failed(self):
        for code in (137, 139, 134, 69, 205):
            with self.subTest(code):
                self.assertEqual(self.run_it(f"exit {code}", "exit 0").returncode, 0)
                self.assertEqual([each for each in self.events() if each["event"] == "restart"][-1]["why"], f"exit code {code}")
                (self.path / "calls").unlink()

    def test_does_not_start_again(self):
        for code in (0, 1, 2, 64, 75, 106, 127, 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGUSR1, 128 + signal.SIGHUP):
            with self.subTest(code):
                self.assertEqual(self.run_it(f"exit {code}", "exit 0").returncode, code)
                self.assertEqual(len(self.calls()), 1)
                (self.path / "calls").unlink()

    def test_starts_errors_again_if_asked(self):
        self.assertEqual(self.run_it("exit 1", "exit 0", options=["--restart-errors"]).returncode, 0)

    def test_starts_again_if_mpirun_could_not_start_its_daemons(self):
        for words in ("An ORTE daemon has unexpectedly failed after launch and before", "ORTE was unable to reliably start one or more daemons.",
                      "PRTE was unable to reliably start\\none or more daemons."):
            with self.subTest(words):
                done = self.run_it(f"printf '%s' noise; printf '{words}\\n' >&2; exit 1", "exit 0")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(words[:20], done.stderr)  # is passed on
                self.assertIn("no rank ran", [each for each in self.events() if each["event"] == "restart"][-1]["why"])
        # An error of the command, after a start without daemons, is one; and there is a limit of restarts.
        no_daemons = "echo 'ORTE was unable to reliably start one or more daemons' >&2; exit 1"
        for acts, calls in (([no_daemons, "echo no file >&2; exit 1", "exit 0"], 2), ([no_daemons] * 9, 4)):
            (self.path / "calls").unlink()
            self.assertEqual(self.run_it(*acts).returncode, 1)
            self.assertEqual(len(self.calls()), calls)

    def test_has_a_limit_of_restarts(self):
        self.assertEqual(self.run_it(*["exit 137"] * 9, options=["--max-restarts", "2"]).returncode, 137)
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(self.events()[-1]["event"], "give up")

    def test_goes_on_with_the_hosts_that_are_left(self):
        for how in ("hangs", "refuses"):
            with self.subTest(how):
                (self.path / "198.51.100.2").touch()
                if how == "refuses":
                    (self.path / "refuses").touch()
                done = self.run_it(f"rm {self.path}/198.51.100.2; exit 1", "exit 0")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("--host 198.51.100.1:2 -n 2 train", self.calls()[-1])
                lost = [each for each in self.events() if each["event"] == "host lost"][-1]
                self.assertEqual(lost["host"], "198.51.100.2")
                self.assertIn("no route" if how == "refuses" else "no answer within 1 s", lost["why"])

    def test_takes_a_host_that_is_back(self):
        done = self.run_it(f"rm {self.path}/198.51.100.2; exit 137", f"touch {self.path}/198.51.100.2; exit 137", "exit 0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([call.split("--host ")[1].split()[0] for call in self.calls()],
                         ["198.51.100.1:2,198.51.100.2:3", "198.51.100.1:2", "198.51.100.1:2,198.51.100.2:3"])

    def test_hosts_live_on_while_another_does_not_answer(self):
        (self.path / "198.51.100.2").unlink()
        done = self.run_it("sleep 6", options=["--host-timeout", "7", "--heartbeat", "5"])
        self.assertEqual((done.returncode, len(self.calls())), (0, 1), done.stderr)

    def test_needs_enough_hosts(self):
        done = self.run_it(f"rm {self.path}/198.51.100.1; exit 137", "exit 0", options=["--min-hosts", "2"])
        self.assertEqual((done.returncode, len(self.calls())), (69, 1))
        self.assertIn("1 hosts answer, of at least 2", done.stderr)

    def test_stops_when_asked(self):
        for asked, comes, ends, code in ((signal.SIGTERM, "USR1", 75, 75), (signal.SIGINT, "USR1", 138, 130), (signal.SIGUSR1, "USR1", 137, 138),
                                         (signal.SIGTERM, "USR1", 1, 143), (signal.SIGTERM, "USR1", 0, 0)):
            with self.subTest(f"{asked.name} {ends}"):
                self.acts(f"trap 'exit {ends}' {comes}; touch {self.path}/runs; while :; do sleep 0.05; done", "exit 0")
                job = subprocess.Popen(self.words(), stderr=subprocess.DEVNULL)
                while not (self.path / "runs").exists():
                    time.sleep(0.01)
                job.send_signal(asked)
                self.assertEqual(job.wait(timeout=20), code)
                self.assertEqual(len(self.calls()), 1)
                (self.path / "runs").unlink()
                (self.path / "calls").unlink()

    def test_a_job_that_does_not_stop_is_killed_when_asked_again(self):
        self.acts(f"trap '' USR1 TERM; touch {self.path}/runs; while :; do sleep 0.05; done")
        job = subprocess.Popen(self.words(), stderr=subprocess.DEVNULL)
        while not (self.path / "runs").exists():
            time.sleep(0.01)
        for _ in range(3):
            job.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        self.assertEqual(job.wait(timeout=20), 143)

    def test_stops_while_it_asks_hosts(self):
        (self.path / "198.51.100.1").unlink()
        self.acts("exit 0")
        job = subprocess.Popen(self.words("--host-timeout", "60"), stderr=subprocess.DEVNULL)
        while not (self.path / "asked").exists():
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(timeout=20), 143)
        self.assertEqual(self.calls(), [])

    def test_no_rank_stays(self):
        (self.path / "pid").touch()
        self.run_it(f"sleep 1000 & echo $! >{self.path}/pid; exit 137", "exit 0")
        pid = int((self.path / "pid").read_text())
        self.assertFalse(pathlib.Path(f"/proc/{pid}").exists() and "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2])

    def test_no_job_stays_if_it_is_killed(self):
        self.acts(f"trap 'rm {self.path}/runs; exit 1' TERM; touch {self.path}/runs; while :; do sleep 0.05; done")
        job = subprocess.Popen(self.words(), stderr=subprocess.DEVNULL)
        while not (self.path / "runs").exists():
            time.sleep(0.01)
        job.kill()
        job.wait()
        for _ in range(100):
            if not (self.path / "runs").exists():
                break
            time.sleep(0.05)
        self.assertFalse((self.path / "runs").exists())

    def test_refuses_wrong_options(self):
        for options, text in ((["--min-hosts", "3"], "--min-hosts 3: there are 2 hosts"), (["--max-restarts", "-1"], "'-1' is not a number"),
                              (["--heartbeat", "1"], "--heartbeat 1: hosts count whole seconds"),
                              (["--hosts", "a:0"], "'a:0' is not HOST or HOST:RANKS"), (["--hosts", "a,a:2"], "a appears twice"),
                              (["--hostfile", "/nowhere"], "No such file"), (["--log", "/nowhere/log"], "/nowhere/log")):
            with self.subTest(text):
                done = self.run_it("exit 0", options=options)
                self.assertEqual((done.returncode, self.calls()), (2, []), done.stderr)
                self.assertIn(text, done.stderr)
        done = self.run_it("exit 0", command=("train",))
        self.assertEqual((done.returncode, self.calls()), (2, []))
        self.assertIn("would start from the beginning: give it --resume", done.stderr)
        self.assertEqual(self.run_it("exit 0", command=("train",), options=["--max-restarts", "0"]).returncode, 0)


def loaded():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader("shardwise_run", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("shardwise_run", loader))
    loader.exec_module(module)
    return module


class SimulatedMonitor:
    """What MONITOR does, in simulated time."""

    def __init__(self, silence, now, speed):
        self.silence, self.speed = silence, speed  # of its clock
        self.kept = self.clock(now)
        self.sent, self.runs = {}, True

    def clock(self, now):
        return int(now * self.speed)

    def tick(self, now):
        if self.clock(now) >= self.kept + self.silence + 1:
            self.runs = False  # and its ranks

    def beat(self, now, number, last):
        self.kept = self.sent.get(last, self.kept)
        self.sent.setdefault(number, self.clock(now))


class HeartbeatTest(unittest.TestCase):
    """Messages that are lost, late, repeated and out of order; hosts that die; a program that stands still; clocks of other speeds."""

    SILENCE, INTERVAL = 10, 2

    def simulate(self, seed, disturbed):
        """One run until a host is lost. Returns what is lost, when, and what happened before."""
        chance = random.Random(seed)
        hosts = {name: chance.randint(1, 4) for name in "abc"[: chance.randint(1, 3)]}
        heart = loaded_once.Heartbeat(hosts, self.SILENCE, 30, 0.0)
        monitors = {host: SimulatedMonitor(self.SILENCE, -chance.random(), chance.uniform(0.995, 1.005) if disturbed else 1) for host in hosts}
        dies = {host: chance.uniform(0, 60) for host in hosts if disturbed and chance.random() < 0.3}
        cut = {host: chance.uniform(0, 60) for host in hosts if disturbed and chance.random() < 0.3}
        killed = {host: chance.uniform(0, 60) for host in hosts if disturbed and chance.random() < 0.2}  # one rank of it
        losing = chance.choice([0, 0.1, 0.5]) if disturbed else 0
        late = chance.choice([1, 5, 40]) if disturbed else 1
        under_way, now, next_beat, asleep_until = [], 0.0, 0.0, 0.0

        def send(to, host, *what):
            for _ in range(chance.choice([1, 1, 2])):
                if chance.random() >= losing and not now > cut.get(host, math.inf):
                    under_way.append((now + chance.random() * late, to, host, what))

        while now < 100:
            now += 0.1
            for host, monitor in monitors.items():
                monitor.tick(now)
                monitor.runs = monitor.runs and now < dies.get(host, math.inf)
            arrived = sorted(each for each in under_way if each[0] <= now and (each[1] == "host" or now >= asleep_until))
            under_way[:] = [each for each in under_way if each not in arrived]
            for _, to, host, what in arrived:
                if to == "host" and monitors[host].runs:
                    monitors[host].beat(now, *what)
                    send("here", host, what[0], hosts[host] - (now > killed.get(host, math.inf)))
                elif to == "here":
                    heart.reply(host, *what, now)
            if now < asleep_until:
                continue
            if disturbed and chance.random() < 0.002:
                asleep_until = now + chance.uniform(0, 30)
            if now >= next_beat:
                next_beat = now + self.INTERVAL
                for host, numbers in heart.beat(now).items():
                    send("host", host, *numbers)
            if heart.check(now):
                break
        lost, found = dict(heart.lost), now
        # The next job starts when no rank of this one is left, whatever is still under way.
        clear = max(now, heart.clear_at(hosts))
        while now < clear:
            now += 0.1
            for arrives, to, host, what in sorted(under_way):
                if to == "host" and monitors[host].runs and arrives <= now:
                    monitors[host].beat(now, *what)
            under_way[:] = [each for each in under_way if each[0] > now]
            for monitor in monitors.values():
                monitor.tick(now)
        self.assertFalse([host for host in lost if monitors[host].runs and host not in killed], f"seed {seed}: ranks of a lost host run on")
        self.assertFalse(any(monitor.runs for monitor in monitors.values()), f"seed {seed}: ranks run beside those of the next job")
        return lost, found, {**cut, **dies}, losing == 0 and late == 1 and asleep_until == 0

    def test_no_host_is_lost_when_nothing_fails(self):
        for seed in range(50):
            lost, found, _, _ = self.simulate(seed, disturbed=False)
            self.assertEqual((lost, found >= 100), ({}, True), f"seed {seed}")

    def test_ranks_of_two_jobs_never_run_together(self):
        ended = 0
        for seed in range(1000):
            lost, found, failed, prompt = self.simulate(seed, disturbed=True)
            ended += bool(lost)
            if failed and prompt:
                self.assertLess(found, min(failed.values()) + self.SILENCE + self.INTERVAL + 2, f"seed {seed}")
        self.assertGreater(ended, 300)

    def test_a_missing_rank_is_found(self):
        heart = loaded_once.Heartbeat({"a": 2, "b": 1}, 10, 30, 0)
        for now in range(2, 80, 2):
            number = heart.beat(now)["a"][0] if "a" not in heart.lost else 0
            heart.reply("a", number, 2 if now < 20 else 1, now)
            heart.reply("b", number, 0, now)  # whose processes cannot be seen
            self.assertEqual("a" in heart.check(now), now > 48, now)
            if heart.lost:
                break
        self.assertEqual(heart.lost, {"a": "it has 1 of 2 ranks since 30 s"})


class MonitorTest(unittest.TestCase):
    """The monitor itself, with a rank."""

    def begin(self, silence):
        self.job = f"test{os.getpid()}"
        self.rank = subprocess.Popen(["sleep", "1000"], env={**os.environ, "SHARDWISE_JOB": self.job})
        self.monitor = subprocess.Popen(["sh", "-c", loaded_once.MONITOR, "monitor", self.job, str(silence)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.clean)

    def clean(self):
        for each in (self.rank, self.monitor):
            each.kill()
            each.wait()
        self.monitor.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.monitor.stdin.close()

    def beat(self, number, last):
        self.monitor.stdin.write(f"{number} {last}\n")
        self.monitor.stdin.flush()
        return self.monitor.stdout.readline()

    def ends(self, seconds):
        self.assertEqual(self.rank.wait(seconds), -signal.SIGKILL)
        self.assertEqual(self.monitor.wait(5), 0)

    def test_replies_and_ends_with_its_input(self):
        self.begin(30)
        self.assertEqual([self.beat(0, 0), self.beat(1, 0)], ["0 1\n", "1 1\n"])
        self.monitor.stdin.close()
        self.ends(5)

    def test_ends_when_no_beat_comes(self):
        self.begin(2)
        self.assertEqual(self.beat(0, 0), "0 1\n")
        self.ends(5)

    def test_ends_when_no_reply_arrives(self):
        self.begin(2)
        with contextlib.suppress(BrokenPipeError):
            for number in range(20):
                if not self.beat(number, 0):
                    break
                time.sleep(0.5)
        self.assertIn(number, range(1, 9))  # on a busy machine fewer, never more
        self.ends(5)

    def test_goes_on_while_replies_arrive(self):
        self.begin(5)
        for number in range(14):
            self.assertEqual(self.beat(number, max(0, number - 1)), f"{number} 1\n")
            time.sleep(0.5)
        self.assertIsNone(self.rank.poll())


if __name__ == "__main__":
    loaded_once = loaded()
    unittest.main()
