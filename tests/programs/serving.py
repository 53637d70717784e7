# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""A running shardwise-serve, for the tests of it."""

import atexit
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid

JSON = {"Content-Type": "application/json"}


def expect(what, holds):
    if not holds:
        sys.exit("wrong: %s" % (what,))


class Server:
    def __init__(self, launcher, program, model, ranks, *options, **variables):
        self.mark = str(uuid.uuid4())
        self.errors = tempfile.TemporaryFile("w+")
        command = [*launcher, str(ranks), program, "--weights", model, "--port", "0", *map(str, options)]
        self.job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                    env=dict(os.environ, SERVE_TEST=self.mark, **variables))
        atexit.register(self.job.terminate)  # of a test that fails
        line = self.job.stdout.readline()
        if "http://127.0.0.1:" not in line:
            self.job.wait(60)
            sys.exit("no server: %s%s" % (line, self.said()))
        self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def ranks(self):
        """The processes of the ranks, in their order."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open("/proc/%s/environ" % pid, "rb") as file:
                variables = dict(word.split(b"=", 1) for word in file.read().split(b"\0") if b"=" in word)
                rank = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
                if variables.get(b"SERVE_TEST") == self.mark.encode() and rank is not None:
                    found[int(rank)] = int(pid)
        return [found[rank] for rank in sorted(found)]

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def send(self, method, path, body=None, headers=None):
        """The status, the headers and the JSON or the text of the answer."""
        connection = self.connect()
        if isinstance(body, dict):
            body = json.dumps(body)
        connection.request(method, path, body, JSON | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        is_json = answer.getheader("Content-Type", "").startswith("application/json")
        return answer.status, answer, json.loads(text) if is_json else text

    def post(self, path, **body):
        status, _, answer = self.send("POST", path, body)
        expect((body, status, answer), status == 200)
        return answer

    def events(self, path, **body):
        text = self.post(path, stream=True, stream_options={"include_usage": True}, **body)
        events = text.split("\n\n")
        expect(events[-3:], events.pop() == "" and events.pop() == "data: [DONE]")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def begin(self, **body):
        """A stream, after its first event."""
        connection = self.connect()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "stream": True, "temperature": 0, **body}),
                           JSON)
        answer = connection.getresponse()
        expect(answer.status, answer.status == 200 and answer.readline().startswith(b"data: "))
        return connection, answer

    def end(self, number=signal.SIGTERM, rank=0):
        os.kill(self.ranks()[rank], number)
        code = self.job.wait(30)
        expect((number, code, self.said()), code == 0)
