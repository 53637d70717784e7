#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-run with an mpirun and an agent that are scripts: which exit codes are started again, on which hosts, and with which exit
code it ends. (two_hosts_test.py has real jobs.)  launcher_test.py SHARDWISE_RUN"""

import json
import os
import pathlib
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
[[ -e @DIR@/$1 ]] && exec true
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


if __name__ == "__main__":
    unittest.main()
