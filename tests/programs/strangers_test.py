#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Clients of shardwise-serve that mean harm, and requests that a model or a tokenizer cannot serve: each gets an error, the text of
another client continues, /health answers, and the memory of rank 0 stays bounded. SECURITY.md names these functions.

    strangers_test.py SERVER GENERATE LAUNCHER…     two programs; mpirun -n
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import bytes_model
import serving
from serving import JSON, expect

SERVER, GENERATE, *LAUNCHER = sys.argv[1:]
CONTEXT = 20000
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
POST = b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
SANE = {str(bytes_model.POISON): -100}  # a bias
PATIENCE = 2  # seconds: --client-timeout


def memory(pid):
    """The most MiB that a process has used."""
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


class Server(serving.Server):
    """Texts must not draw the token whose row is NaN."""
    def __init__(self, *arguments):
        super().__init__(LAUNCHER, SERVER, *arguments)

    def send(self, method, path, body=None, headers=None):
        return super().send(method, path, {"logit_bias": SANE} | body if isinstance(body, dict) else body, headers)


class Reader(threading.Thread):
    """Another client, which counts the events of its stream, and asks again after a text."""
    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.events, self.ends, self.problem = server, 0, False, None
        self.start()

    def run(self):
        try:
            while not self.ends:
                connection, answer = self.server.begin(max_tokens=CONTEXT - 100, logit_bias=SANE)
                for line in answer:
                    self.events += line.startswith(b"data: ")
                    expect(line, b"error" not in line)
                    if self.ends:
                        break
                connection.close()
        except (Exception, SystemExit) as problem:  # pylint: disable=broad-except
            self.problem = problem

    def expect_progress(self, after):
        before, end = self.events, time.monotonic() + 20
        while self.events < before + 20 and time.monotonic() < end and not self.problem:
            time.sleep(0.01)
        expect((after, self.problem, self.events), self.events >= before + 20 and not self.problem)


def connect(server):
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    return raw


def send_all(raw, data):
    with contextlib.suppress(OSError):
        raw.sendall(data)


def answer_of(raw):
    """What comes until the server closes the connection."""
    answer = b""
    with contextlib.suppress(OSError):
        while some := raw.recv(1 << 16):
            answer += some
    raw.close()
    return answer


def error(server, status, body, path="/v1/completions", **headers):
    got, _, answer = server.send("POST", path, body, headers)
    expect((body, got, answer), got == status and "error" in answer)
    return answer["error"]["message"]


def closed_in_time(raws, since, what):
    """The server closes these connections, though their clients do not."""
    for raw in raws:
        raw.settimeout(30)
        answer_of(raw)
    expect((what, time.monotonic() - since), time.monotonic() - since < PATIENCE + 10)


# ---- Floods: the memory and the time that a client can take --------------------------------------------------------------

def endless_body(server):
    for _ in range(4):
        raw = connect(server)
        send_all(raw, POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 64)
        answer = answer_of(raw)  # which is lost if more comes after it than the server ignores
        expect(answer, answer == b"" or b" 413 " in answer)
    expect("claimed length", "too large" in error(server, 413, b" " * (3 << 20)))


def endless_head(server):
    for _ in range(4):
        raw = connect(server)
        send_all(raw, b"GET /health HTTP/1.1\r\n" + b"A: " + b"a" * (32 << 20))
        raw.close()
        raw = connect(server)
        send_all(raw, b"GET /health HTTP/1.1\r\n" + b"A: a\r\n" * 10000)
        answer = answer_of(raw)
        expect(answer, answer == b"" or b" 431 " in answer)


def large_lists(server):
    def post():
        raw = connect(server)
        body = b'{"prompt": [' + b"[],{}," * 174000 + b"[]]}"
        send_all(raw, POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer_of(raw)
    threads = [threading.Thread(target=post) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def unfinished_bodies(server):
    """Together they have more than the server takes: eight times what one may have."""
    for _ in range(5):  # on a busy machine the first may be late before the last arrives
        raws = [connect(server) for _ in range(12)]
        for raw in raws:
            send_all(raw, POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 999999)
        if any(b" 503 " in answer_of(raw).split(b"\r\n")[0] for raw in raws):
            return
    expect("the server takes all bodies", False)


def long_prompts(server):
    text = "word " * 200000
    for _ in range(8):
        begin = time.monotonic()
        message = error(server, 400, {"prompt": text})
        expect(message, "1000000 bytes" in message and time.monotonic() - begin < 5)
        error(server, 400, {"messages": [{"role": "user", "content": text}]}, "/v1/chat/completions")


def slow_clients(server):
    """Letter by letter, heads, bodies, and nothing at all; /health must not wait for them."""
    begin = time.monotonic()
    raws = [connect(server) for _ in range(300)]
    for i in range(12):
        for number, raw in enumerate(raws[:200]):
            head = b"GET /health HTTP/1.1\r\nA: aaaaaaaaaaa" if number % 2 else POST + b"Content-Length: 100000\r\n\r\n"
            with contextlib.suppress(OSError):
                raw.send(head if i == 0 else b" ")
        before = time.monotonic()
        expect("health", server.send("GET", "/health")[0] == 200)
        expect("health waits", time.monotonic() - before < 5)
        time.sleep(0.05)
    closed_in_time(raws, begin, "slow clients")


def deaf_clients(server):
    """They ask for more than they read: the server drops them, and their rows are free again."""
    raws = []
    for _ in range(4):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", server.port))
        body = json.dumps({"prompt": "a", "stream": True, "max_tokens": CONTEXT - 100, "logprobs": 20, "logit_bias": SANE}).encode()
        send_all(raw, POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        raws.append(raw)
    raw = connect(server)  # many requests in one connection, whose answers are not read
    raws.append(raw)
    with contextlib.suppress(ConnectionError):
        raw.sendall(b"GET /v1/models HTTP/1.1\r\n\r\n" * 200000)  # or the time is over
        expect("a client that does not read keeps its connection", False)
    end = time.monotonic() + 60
    while server.send("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] != 200:
        expect("rows of deaf clients", time.monotonic() < end)
        time.sleep(0.2)
    for raw in raws:
        raw.close()


def large_answers(server):
    message = error(server, 400, {"prompt": "a", "max_tokens": 2000, "logprobs": 20})
    expect(message, "log-probabilities" in message)
    whole = server.send("GET", "/v1/models", headers={"Range": "bytes=" + ",".join(["0-"] * 1000)})
    expect(whole[0], whole[0] == 200 and len(whole[2]["data"]) == 1)


# ---- Requests that a model or a tokenizer cannot serve -------------------------------------------------------------------

def impossible_tokens(server):
    for token in (bytes_model.LAST + 1, bytes_model.HOLE):
        expect(token, "no text" in error(server, 400, {"prompt": [65, token]}))
    expect("no row", "0 to 309" in error(server, 400, {"prompt": [65, bytes_model.ROWS]}))
    drawn = server.post("/v1/completions", prompt=[65, 284], max_tokens=300, temperature=5, logprobs=20)
    expect(drawn, len(drawn["choices"][0]["logprobs"]["tokens"]) == 300)


def not_finite(server):
    poisoned = [65, bytes_model.POISON]
    expect("nan", "not finite" in error(server, 500, {"prompt": poisoned}))
    events = server.send("POST", "/v1/completions", {"prompt": poisoned, "stream": True})[2]
    expect(events, "not finite" in events and events.count("data: ") == 1)
    server.post("/v1/completions", prompt="a", max_tokens=3, temperature=0)


def prompts_file(model, folder):
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for tokens in ([65, 66], [65, bytes_model.POISON], [66]):
            file.write(json.dumps({"tokens": tokens, "max_tokens": 4, "temperature": 0}) + "\n")
    job = subprocess.run([*LAUNCHER, "2", GENERATE, "--weights", model, "--pp", "2", "--prompts", path], check=False,
                         capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in job.stdout.splitlines()]
    expect((job.stdout, job.stderr), job.returncode == 1 and [len(line.get("tokens", "")) for line in lines] == [4, 0, 4])
    expect((lines, job.stderr), "not finite" in lines[1]["error"] and path + ":2: " in job.stderr)


# ---- Web pages, and clients of other kinds -------------------------------------------------------------------------------

def web_pages(server):
    for headers in ({"Host": "evil.com"}, {"Host": "evil.com:80"}, {"Origin": "http://evil.com"}, {"Origin": "null"},
                    {"Origin": "http://localhost.evil.com"}):
        for path in ("/health", "/v1/models"):
            got = server.send("GET", path, headers=headers)
            expect((headers, got), got[0] == 403 and got[1].getheader("Access-Control-Allow-Origin") is None)
        error(server, 403, {"prompt": "a"}, **headers)
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:80", "my.host:1"):
        expect(host, server.send("GET", "/health", headers={"Host": host})[0] == 200)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        expect(kind, "application/json" in error(server, 415, b'{"prompt": "a"}', **{"Content-Type": kind}))
    got = server.send("POST", "/v1/completions", {"prompt": "a"}, {"Content-Type": "Application/JSON; charset=utf-8"})
    expect(got, got[0] == 200)
    origin = {"Origin": "http://localhost:3000"}
    status, answer, _ = server.send("OPTIONS", "/v1/completions", headers=origin)
    allowed = answer.getheader("Access-Control-Allow-Headers")
    expect(allowed, status == 204 and "Authorization" in allowed and "Content-Type" in allowed)
    for body in ({"prompt": "a"}, {"prompt": 3}, {"prompt": "a", "stream": True}):
        answer = server.send("POST", "/v1/completions", body, origin)[1]
        expect(body, answer.getheader("Access-Control-Allow-Origin") == origin["Origin"])


def other_clients(server):
    messages = [{"role": "user", "content": "a"},
                {"role": "assistant", "content": None, "refusal": None, "tool_calls": None, "function_call": None, "audio": None},
                {"role": "assistant", "content": "b", "tool_calls": [], "annotations": []}, {"role": "user", "content": "c"}]
    answer = server.post("/v1/chat/completions", messages=messages, max_tokens=2)
    expect(answer, answer["usage"]["prompt_tokens"] == len("<user>a<assistant><assistant>b<user>c"))
    messages[1]["tool_calls"] = [{"id": "1"}]
    error(server, 400, {"messages": messages}, "/v1/chat/completions")
    expect("model", server.send("GET", "/v1/models/mo%64el")[2]["id"] == "model")
    expect("model", server.send("GET", "/v1/models/other")[0] == 404)
    raw = connect(server)
    body = b'{"prompt": "a", "stream": true, "max_tokens": 2}'
    raw.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    head, _, rest = answer_of(raw).partition(b"\r\n\r\n")
    expect((head, rest), b"chunked" not in head and rest.startswith(b"data: {") and rest.endswith(b"data: [DONE]\n\n"))
    connection = server.connect()  # which stays open, also after an error and a stream
    for body in ({"prompt": "a", "stream": True}, {"prompt": 3}, {"prompt": "a" * 100000}, {"prompt": "a"}):
        connection.request("POST", "/v1/completions", json.dumps({"logit_bias": SANE} | body), JSON | {"Expect": "100-continue"})
        answer = connection.getresponse()
        answer.read()
        expect(body, not answer.will_close and (answer.status == 200) == (body["prompt"] == "a"))
    connection.close()
    raw = connect(server)
    raw.sendall(b"HEAD /health HTTP/1.0\r\n\r\n")
    expect("HEAD", answer_of(raw).endswith(b"\r\n\r\n"))


def no_template(model):
    path = os.path.join(model, "chat_template.jinja")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{% wings %}")
    server = Server(model, 1, "--request-timeout", 1)
    server.post("/v1/completions", prompt="a", max_tokens=2)
    expect("504", "more than the 1 s" in error(server, 504, {"prompt": "a", "max_tokens": CONTEXT - 1}))
    message = error(server, 400, {"messages": [{"role": "user", "content": "a"}]}, "/v1/chat/completions")
    expect(message, "wings" in message and "wings" in server.said())
    server.end()


# ---- Ranks ---------------------------------------------------------------------------------------------------------------

def wait_for_health(server, status, text):
    end = time.monotonic() + 60
    while (got := server.send("GET", "/health"))[0] != status or text not in got[2]["status"]:
        expect((got[0], got[2]), time.monotonic() < end)
        time.sleep(0.2)


def stopped_rank(server):
    os.kill(server.ranks()[1], signal.SIGSTOP)
    wait_for_health(server, 503, "rank 1 has not answered for ")
    os.kill(server.ranks()[1], signal.SIGCONT)
    wait_for_health(server, 200, "ok")


def main(folder):
    model = os.path.join(folder, "model")
    bytes_model.write_model(model, CONTEXT, TEMPLATE)
    server = Server(model, 2, "--pp", 2, "--rows", 3, "--queue", 6, "--max-body", 1,
                    "--client-timeout", PATIENCE, "--allow-host", "my.host")
    first = server.ranks()[0]
    reader = Reader(server)
    reader.expect_progress("start")
    start = memory(first)
    for attack in (impossible_tokens, not_finite, web_pages, other_clients, large_answers, endless_body, endless_head, large_lists,
                   unfinished_bodies, long_prompts, slow_clients, deaf_clients):
        begin = time.monotonic()
        attack(server)
        reader.expect_progress(attack)
        expect(attack, server.send("GET", "/health")[2] == {"status": "ok"})
        used = memory(first) - start
        print("%-20s %5.1f s, rank 0 has grown by %.0f MiB" % (attack.__name__, time.monotonic() - begin, used), flush=True)
        expect((attack, used), used < 200)
    stopped_rank(server)
    reader.expect_progress("SIGCONT")
    reader.ends = True
    reader.join(30)
    server.end(rank=1)
    prompts_file(model, folder)
    no_template(model)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
