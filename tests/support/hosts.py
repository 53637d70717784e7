# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Hosts on one machine, for real MPI jobs over TCP: network namespaces on a bridge, each with a name of its own and folders of its own
for what Open MPI keeps in files. They share the file system, and the processes are the machine's. Needs root, iproute2 and
util-linux."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

# What enters a host: ENTER NUMBER COMMAND. A daemon that mpirun starts must not share memory with another host's. What is in a
# host's /dev/shm stays there.
ENTER = """#!/bin/bash
exec unshare --uts --mount ip netns exec @NAME@$1 bash -c "hostname @NAME@$1; mkdir -p @DIR@/$1/shm; mount --bind @DIR@/$1/shm /dev/shm; export TMPDIR=@DIR@/$1; $2"
"""
# What mpirun starts its daemons with, as if it were ssh: AGENT [options] ADDRESS COMMAND…
AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "remote_shell.py")


def problem():
    """Why there can be no hosts here; None if there can."""
    missing = [tool for tool in ("ip", "tc", "unshare", "mpirun") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        return "hosts on one machine need root" + (f", and {', '.join(missing)} (Debian: iproute2, util-linux)" if missing else "")
    made = subprocess.run(["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, text=True)
    return None if made.returncode == 0 else f"hosts on one machine need namespaces: {made.stderr.strip()}"


def call(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def processes_in(namespace):
    found = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def kill_in(namespace):
    for pid in processes_in(namespace):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass


class Hosts:
    """`count` of them, their addresses `addresses`, joined by links of that rate (as tc has it, or "none")."""

    def __init__(self, count=2, rate="none"):
        self.count, self.rate = count, rate
        self.name = f"sw{os.getpid()}x"  # of interfaces too, which have at most 15 letters
        self.addresses = [f"10.78.0.{i + 1}" for i in range(count)]
        self.device = "eth0"
        self.servers = {}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="shardwise-hosts-")
        self.enter, self.agent = os.path.join(self.folder.name, "enter"), AGENT
        with open(self.enter, "w") as file:
            file.write(ENTER.replace("@DIR@", self.folder.name).replace("@NAME@", self.name))
        os.chmod(self.enter, 0o755)
        try:
            self.up()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def remove(name, count):
        """What has that name, and all processes in it."""
        for i in range(count):
            kill_in(f"{name}{i}")
            subprocess.run(["ip", "netns", "del", f"{name}{i}"], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", f"{name}b"], stderr=subprocess.DEVNULL)

    def remove_abandoned(self):
        """Hosts of processes that were killed."""
        for line in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.splitlines():
            found = re.match(r"(sw(\d+)x)0\b", line)
            if found and not os.path.exists(f"/proc/{found[2]}"):
                self.remove(found[1], 16)

    def up(self):
        self.remove_abandoned()
        bridge = f"{self.name}b"
        call("ip", "link", "add", bridge, "type", "bridge")
        call("ip", "link", "set", bridge, "up")
        for i, address in enumerate(self.addresses):
            name = f"{self.name}{i}"
            call("ip", "netns", "add", name)
            call("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            call("ip", "link", "set", name, "master", bridge, "up")
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                call("ip", "-n", name, "link", "set", device, "up")
            if self.rate != "none":
                call("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "512kb", "latency", "100ms")
        self.wait_until_joined()
        for host in range(self.count):
            self.boot(host)

    def boot(self, host):
        """Starts what answers the agent, unless it runs."""
        server = self.servers.get(host)
        if server is None or server.poll() is not None:
            self.servers[host] = subprocess.Popen(self.on(host, [AGENT, "serve", self.addresses[host]]), stdin=subprocess.DEVNULL,
                                                  stdout=subprocess.PIPE)
            self.servers[host].stdout.readline()  # it listens

    def wait_until_joined(self, seconds=20):
        """A bridge takes a moment until it forwards: then a port where nobody listens refuses at once."""
        tries = ("import socket, sys, time\n"
                 "for address in sys.argv[2:]:\n"
                 "    end = time.monotonic() + float(sys.argv[1])\n"
                 "    while True:\n"
                 "        try:\n"
                 "            socket.create_connection((address, 9), 1).close()\n"
                 "            break\n"
                 "        except ConnectionRefusedError:\n"
                 "            break\n"
                 "        except OSError as error:\n"
                 "            if time.monotonic() > end: sys.exit(f'{address} does not answer: {error}')\n"
                 "            time.sleep(0.1)\n")
        for i in range(self.count):
            call("ip", "netns", "exec", f"{self.name}{i}", sys.executable, "-c", tries, str(seconds), *self.addresses)

    def __exit__(self, *_):
        self.remove(self.name, self.count)
        for server in self.servers.values():
            server.wait()
            server.stdout.close()
        self.folder.cleanup()

    def processes(self, host):
        return processes_in(f"{self.name}{host}")

    def kill_all(self, *numbers):
        """All processes of these hosts; without numbers, of all hosts."""
        for host in numbers or range(self.count):
            kill_in(f"{self.name}{host}")

    def cut(self, host):
        """Its cable: the others get no answer, and no reset either."""
        call("ip", "link", "set", f"{self.name}{host}", "down")

    def mend(self, host):
        """Joins it again, and returns once all hosts reach each other: until then a daemon that mpirun starts finds no way back."""
        call("ip", "link", "set", f"{self.name}{host}", "up")
        self.wait_until_joined()
        for each in range(self.count):
            self.boot(each)

    def mca(self):
        """What tells mpirun how to reach the hosts."""
        return ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self,vader", "--mca", "pml", "ob1",
                "--mca", "btl_tcp_if_include", "10.78.0.0/24", "--mca", "oob_tcp_if_include", "10.78.0.0/24", "--bind-to", "none"]

    def on(self, host, words):
        """The command that runs these words on a host."""
        return [self.enter, str(host), shlex.join(words)]

    def mpirun(self, ranks, *program):
        """The command that runs a program with so many ranks on each host."""
        slots = ",".join(f"{address}:{count}" for address, count in zip(self.addresses, ranks))
        return self.on(0, ["mpirun", *self.mca(), "--host", slots, "-n", str(sum(ranks)), *program])
