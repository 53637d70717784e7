#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-quorum: a simulation of thousands of orders in which replicas, links and the program itself fail; and the
program on a port, also with strangers. (replicas_test.py has real jobs.)  quorum_test.py SHARDWISE_QUORUM"""

import heapq
import importlib.machinery
import importlib.util
import itertools
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from tiers import all_tests

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()


def loaded():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader("shardwise_quorum", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("shardwise_quorum", loader))
    loader.exec_module(module)
    return module


SILENCE, PATIENCE = 10, 30


class Replica:
    """What ReplicaGroup and DiLoCo do, in simulated time. Its state is the history of what was added."""

    def __init__(self, number, world, step, state):
        self.number, self.world, self.step, self.state = number, world, step, state
        self.trained = self.epoch = self.message = self.connection = self.result = None
        self.alive, self.stands = True, 0  # until when it stands still
        self.announce()

    def announce(self):
        self.message = ("ready", self.step, hash(self.state), self.trained is not None)
        self.send()

    def send(self):
        if self.connection is None or self.connection.broken:
            self.connection = self.world.connect(self)
            if self.connection is None:
                return self.world.at(1, lambda: self.alive and self.send())
            if self.message[0] == "report":  # the round is made again
                return self.announce()
        self.world.to_server(self.connection, self.message)

    def lost_connection(self, connection):
        if self.alive and connection is self.connection and self.message is not None:
            self.send()

    def receive(self, word, *what):
        self.message = None
        if word == "epoch":
            self.epoch, self.result = what, None
            self.offer = (self.step, self.state, self.trained)
            self.world.exchange(self)
        elif word == "again":
            self.announce()
        elif word == "commit":
            number, step, state, terms = self.result
            self.step, self.state, self.trained = step, state, None
            if terms:
                self.step, self.state = step + 1, state + (terms,)
            self.world.committed(number, self)
            self.train()
        else:
            raise AssertionError(word)

    def train(self):
        if self.step < self.world.steps:
            self.world.at(self.world.chance.uniform(5, 8) + max(0, self.stands - self.world.now), self.end_of_training)
        else:
            self.world.ended(self)

    def end_of_training(self):
        if self.alive:
            self.trained = (self.number, self.step, self.world.chance.random())  # its terms
            self.announce()


class Link:
    def __init__(self, replica):
        self.replica, self.broken, self.last = replica, False, 0


class World:
    def __init__(self, seed, failures):
        self.chance = random.Random(seed)
        self.now, self.events, self.count = 0.0, [], itertools.count()
        self.steps, self.quiet_at = 12, 100 if failures else 0
        self.size = self.chance.randint(2, 4)
        self.cut = {}  # pair of replicas: until when
        self.histories, self.finished, self.checkpoints, self.gone = {}, set(), {}, set()
        self.begin_server()
        self.replicas = {}
        for number in range(self.size):
            self.at(self.chance.uniform(0, 5), lambda number=number: self.begin_replica(number))
        if failures:
            for _ in range(self.chance.randint(1, 10)):
                self.at(self.chance.uniform(0, self.quiet_at), self.fail)
        self.tick()

    def at(self, delay, what):
        heapq.heappush(self.events, (self.now + delay, next(self.count), what))

    def run(self):
        while self.events and len(self.finished | self.gone) < self.size:
            self.now, _, what = heapq.heappop(self.events)
            if self.now > 2000:
                raise AssertionError(f"no end: {[(r.number, r.step, r.message) for r in self.replicas.values()]}")
            what()
        return {self.replicas[each].state for each in self.finished}

    def begin_server(self):
        self.quorum = loaded_once.Quorum(self.size, 1, PATIENCE, self.chance.randrange(1 << 30))
        self.links = set()

    def begin_replica(self, number):
        step, state = self.chance.choice(self.checkpoints.get(number, [])[-2:] + [(0, ())])
        self.replicas[number] = Replica(number, self, step, state)

    def connect(self, replica):
        if self.quorum is None:
            return None
        link = Link(replica)
        self.links.add(link)
        old = self.quorum.replicas.get(replica.number)
        if self.quorum.join(link, replica.number, 0):
            raise AssertionError("refused")
        if old is not None:
            self.links.discard(old)
        return link

    def to_server(self, link, message):
        quorum = self.quorum

        def arrive():
            if self.quorum is not quorum or link not in self.links:
                return
            if message[0] == "ready":
                self.quorum.set_ready(link.replica.number, *message[1:], [], self.now)
            else:
                self.quorum.report(link.replica.number, *message[1:], "", self.now)
        link.last = max(link.last, self.now + self.chance.choice([0.01, 0.1, 2]) * self.chance.random())
        self.at(link.last - self.now, arrive)

    def tick(self):
        if self.quorum is not None:
            for link in self.quorum.check(self.now):
                self.break_link(link)
            for link, line in self.quorum.out:
                self.from_server(link, line.split())
            self.quorum.out.clear()
        self.at(0.2, self.tick)

    def from_server(self, link, words):
        def arrive():
            if link.replica.alive and link.replica.connection is link and not link.broken and words[0] != "refused":
                if words[0] == "epoch":
                    roles = {int(member.split(":")[0]): member.split(":")[1] for member in words[4:]}
                    link.replica.receive("epoch", int(words[1]), int(words[2]), int(words[3]), roles)
                else:
                    link.replica.receive(words[0])
        self.at(self.chance.choice([0.01, 0.1, 2]) * self.chance.random(), arrive)

    def break_link(self, link):
        link.broken = True
        self.links.discard(link)
        if self.quorum is not None:
            self.quorum.gone(link)
        self.at(self.chance.random(), lambda: link.replica.lost_connection(link))

    def exchange(self, replica):
        """The sum arrives when all members have begun, unless one is gone or cannot be reached."""
        number, step, donor, roles = replica.epoch
        begun = self.now

        def look():
            if not replica.alive or replica.epoch[0] != number:
                return
            if replica.stands > self.now:
                return self.at(1, look)
            others = {each: self.replicas[each] for each in roles if each != replica.number}
            missing = [each for each, other in others.items()
                       if not other.alive or other.epoch is None or other.epoch[0] != number or other.stands > self.now
                       or self.cut.get(frozenset((each, replica.number)), 0) > self.now]
            if missing and self.now - begun < SILENCE:
                return self.at(0.5, look)
            lost = max(missing, default=None)
            if lost is None:
                held, state, _ = self.replicas[donor if roles[replica.number] == "b" else replica.number].offer
                self.check_equal(number, "states", (step, held, state))
                terms = tuple(self.replicas[each].offer[2] for each, role in roles.items() if role == "t")
                replica.result = (number, step, state, terms)
            replica.message = ("report", number, lost)
            replica.send()
        self.at(self.chance.uniform(0.1, 2), look)

    def check_equal(self, number, kind, what):
        if self.histories.setdefault((number, kind), what) != what:
            raise AssertionError(f"members of epoch {number} have different {kind}")

    def committed(self, number, replica):
        # The same number, so the same bits: else a later round would have to find it.
        self.check_equal(replica.result[0], "result", (replica.step, replica.state))
        self.checkpoints.setdefault(replica.number, []).append((replica.step, replica.state))

    def ended(self, replica):
        self.finished.add(replica.number)
        replica.alive = False
        self.break_link(replica.connection)

    def fail(self):
        what = self.chance.choice(["kill", "kill", "cut", "stand", "break", "server"])
        living = [each for each in self.replicas.values() if each.alive and each.number not in self.finished]
        if what == "server" and self.quorum is not None:
            self.quorum = None
            for link in list(self.links):
                self.break_link(link)
            self.at(self.chance.uniform(0, 20), self.begin_server)
        if not living:
            return
        one = self.chance.choice(living)
        if what == "kill":
            one.alive = False
            if one.connection is not None:
                self.at(self.chance.choice([0, 11]), lambda: self.break_link(one.connection))  # at once, or a lost host
            if self.chance.random() < 0.2 and len(self.gone) < self.size - 1:
                self.gone.add(one.number)  # for good
            else:
                self.at(self.chance.uniform(1, 30), lambda: self.begin_replica(one.number))
        elif what == "cut":
            other = self.chance.randrange(self.size)
            self.cut[frozenset((one.number, other))] = self.now + self.chance.uniform(1, 60)
        elif what == "stand":
            one.stands = self.now + self.chance.uniform(1, 60)
        elif one.connection is not None:
            self.break_link(one.connection)


class SimulationTest(unittest.TestCase):
    def test_when_nothing_fails_all_contribute_to_each_step(self):
        for seed in range(50):
            world = World(seed, failures=False)
            states = world.run()
            self.assertEqual(len(states), 1, seed)
            for terms in states.pop():
                self.assertEqual([each[0] for each in terms], list(range(world.size)), seed)

    def test_replicas_that_end_have_one_state(self):
        alone = together = 0
        runs = 2000 if all_tests() else 300
        for seed in range(runs):
            with self.subTest(seed):
                world = World(seed, failures=True)
                states = world.run()
                together += len(states) == 1
                self.assertLessEqual(len(states), world.size)
                alone += sum(len(terms) == 1 for state in states for terms in state)
        print(f"{together} of {runs} runs end with one state; {alone} steps had one replica", file=sys.stderr)
        self.assertGreater(together, 0.98 * runs)


class QuorumTest(unittest.TestCase):
    """Single orders of events."""

    def setUp(self):
        self.begin(at_least=1)

    def begin(self, at_least, replicas=2):
        self.quorum, self.now = loaded_once.Quorum(replicas, at_least, PATIENCE), 0
        self.to = [f"to {each}" for each in range(replicas)]
        for each in range(replicas):
            self.assertIsNone(self.quorum.join(self.to[each], each, 7))

    def check(self, seconds=0):
        """What is sent to whom."""
        self.now += seconds
        closed = self.quorum.check(self.now)
        sent = {int(to.split()[1]): line for to, line in self.quorum.out}
        self.quorum.out.clear()
        return sent, closed

    def ready(self, each, step=3, bits=5, has_trained=True):
        self.quorum.set_ready(each, step, bits, has_trained, ["a:1"], self.now)

    def epoch(self, *members):
        """Of those that are ready; returns the roles."""
        sent, closed = self.check()
        self.assertEqual((sorted(sent), closed), (sorted(members), []))
        return [word.split(":")[1] for word in sent[members[0]].split()[4:]]

    def cut(self, one, other):
        number = self.quorum.number
        self.quorum.report(one, number, other, "cut", self.now)
        self.quorum.report(other, number, one, "cut", self.now)
        self.assertEqual(self.check()[0], {one: f"again {number}", other: f"again {number}"})

    def test_a_cut_between_two_that_must_be_two(self):
        self.begin(at_least=2)
        for _ in range(5):  # as long as the link is cut, they try again
            self.ready(0)
            self.ready(1)
            self.assertEqual(self.epoch(0, 1), ["t", "t"])
            self.cut(0, 1)

    def test_one_that_was_left_out_is_alone(self):
        for _ in range(2):
            self.ready(0)
            self.ready(1)
            self.epoch(0, 1)
            self.cut(0, 1)
        self.ready(1)
        self.ready(0)
        self.assertEqual(self.epoch(0), ["t"])
        self.quorum.gone(self.to[0])
        self.assertEqual(self.epoch(1), ["t"])

    def test_all_die_in_a_round(self):
        self.ready(0)
        self.ready(1)
        self.epoch(0, 1)
        self.quorum.report(0, self.quorum.number, None, "", self.now)
        self.quorum.gone(self.to[0])
        self.quorum.gone(self.to[1])
        self.check(10 * PATIENCE)
        for each in (0, 1):
            self.quorum.join(self.to[each], each, 7)
            self.ready(each, has_trained=False)
            if each == 0:
                self.assertEqual(self.check()[0], {})  # it does not begin alone
        self.assertEqual(self.epoch(0, 1), ["k", "k"])
        self.assertEqual(self.check(1), ({}, []))  # no member is silent yet

    def test_of_two_with_other_bits_who_has_trained_counts(self):
        self.ready(0, bits=4, has_trained=False)
        self.ready(1, bits=5)
        self.assertEqual(self.epoch(0, 1), ["b", "t"])

    def test_one_that_comes_waits_while_others_train(self):
        self.ready(0)
        self.ready(1)
        self.epoch(0, 1)
        for each in (0, 1):
            self.quorum.report(each, self.quorum.number, None, "", self.now)
        self.check()
        self.quorum.gone(self.to[1])
        self.quorum.join(self.to[1], 1, 7)
        self.ready(1, step=0, has_trained=False)
        self.assertEqual(self.check(100 * PATIENCE), ({}, []))
        self.ready(0, step=4)
        self.assertEqual(self.epoch(0, 1), ["t", "b"])


class ProgramTest(unittest.TestCase):
    """The program, on a port."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.token = pathlib.Path(self.folder.name) / "token"

    def start(self, *options):
        process = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0", "--replicas", "2", "--token", self.token, *options],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stderr.close()))
        self.port = int(re.search(r"listens at 127.0.0.1:(\d+)", process.stderr.readline())[1])
        return process

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.addCleanup(stream.close)
        return stream

    def hello(self, replica, job=7, token=None):
        stream = self.connect()
        stream.sendall(f"replica 1 {token or self.token.read_text().strip()} {replica} 1 {job}\n".encode())
        return stream

    def line(self, stream):
        text = b""
        while not text.endswith(b"\n"):
            part = stream.recv(1)
            if not part:
                return text.decode()
            text += part
        return text.decode().strip()

    def test_makes_a_token_that_only_its_owner_can_read(self):
        self.start()
        self.assertEqual(self.token.stat().st_mode & 0o777, 0o600)
        self.assertGreaterEqual(len(self.token.read_text().strip()), 32)
        self.token.chmod(0o644)
        done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--replicas", "2", "--token", self.token], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("others than its owner may read it", done.stderr)

    def test_two_replicas_make_a_round(self):
        process = self.start()
        both = [self.hello(number) for number in (0, 1)]
        for number, stream in enumerate(both):
            stream.sendall(f"ready 3 5 1 127.0.0.1:{number + 1}\n".encode())
        epochs = [self.line(stream) for stream in both]
        self.assertEqual(epochs[0], epochs[1])
        self.assertRegex(epochs[0], r"^epoch \d+ 3 0 0:t:127.0.0.1:1 1:t:127.0.0.1:2$")
        number = epochs[0].split()[1]
        both[0].sendall(f"done {number}\n".encode())
        both[1].close()  # the other has the sum
        self.assertEqual(self.line(both[0]), f"commit {number}")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=10), 0)

    def test_strangers_are_cut_off(self):
        self.start()
        first = self.hello(0)
        silent, begun = self.connect(), time.monotonic()
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"x" * 100000, b"\n", b"\xff\xfe\n", b"ready 1 2 3 4\n"):
            stream = self.connect()
            try:
                stream.sendall(said)
                self.assertEqual(self.line(stream), "", said)
            except ConnectionError:
                pass
        self.assertEqual(self.line(self.hello(1, token="wrong" * 10)), "refused its token is not that of this run")
        for _ in range(200):  # which reset the connection at once
            stream = self.connect()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.sendall(b"x\n")
            stream.close()
        self.assertIn("refused its ranks, parameters or settings", self.line(self.hello(1, job=8)))
        self.assertIn("refused there is no replica 2 of 2", self.line(self.hello(2)))
        for wrong in (b"ready a b c\n", b"ready 1 2 1 a:1 b:2\n", b"done\n", b"go\n"):
            stream = self.hello(1)
            stream.sendall(wrong)
            self.assertEqual(self.line(stream), "", wrong)
        self.assertEqual(self.line(silent), "")  # after some seconds
        self.assertLess(time.monotonic() - begun, 10)
        again = self.hello(0)
        self.assertIn("refused another job is replica 0 now", self.line(first))
        second = self.hello(1)
        for stream in (again, second):
            stream.sendall(b"ready 0 1 0 127.0.0.1:1\n")
        self.assertRegex(self.line(again), r"^epoch \d+ 0 0 0:k:127.0.0.1:1 1:k:127.0.0.1:1$")


loaded_once = loaded()

if __name__ == "__main__":
    unittest.main()
