#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-serve on 1, 2 and 3 ranks: its answers are shardwise-generate's, streams are the same as whole answers; what it
refuses; clients that vanish or read slowly; how it ends.

    serve_test.py MODEL SERVER GENERATE LAUNCHER…     a model of bytes; two programs; mpirun -n
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import serving
from serving import JSON, expect
from tiers import all_tests

MODEL, SERVER, GENERATE, *LAUNCHER = sys.argv[1:]
CONTEXT = 6000
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")
GREEDY = {"temperature": 0, "max_tokens": 30}


def Server(*arguments, **variables):
    return serving.Server(LAUNCHER, SERVER, *arguments, **variables)


def generated(model, prompts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for prompt in prompts:
            file.write(json.dumps({"prompt": prompt, **GREEDY}) + "\n")
        file.flush()
        job = subprocess.run([*LAUNCHER, "1", GENERATE, "--weights", model, "--prompts", file.name], check=True,
                             capture_output=True, text=True, timeout=100)
    return [json.loads(line)["text"] for line in job.stdout.splitlines()]


def answers(server, expected):
    """Each as shardwise-generate's, all at once."""
    def check(prompt):
        whole = server.post("/v1/completions", prompt=prompt, **GREEDY)
        choice = whole["choices"][0]
        expect((prompt, whole, expected[prompt]), choice["text"] == expected[prompt] and choice["finish_reason"] == "length")
        tokens = len(prompt.encode())
        usage = {"prompt_tokens": tokens, "completion_tokens": 30, "total_tokens": tokens + 30}
        expect(whole, whole["usage"] == usage and whole["model"] == "model")
        events = server.events("/v1/completions", prompt=prompt, **GREEDY)
        expect((prompt, events), "".join(e["choices"][0]["text"] for e in events[:-1]) == expected[prompt])
        expect(events[-1], events[-1]["usage"] == usage and events[-2]["choices"][0]["finish_reason"] == "length")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(check, list(expected) * 2))


def dialogue_and_options(server, expected):
    messages = [{"role": "user", "content": "auto x"}]
    whole = server.post("/v1/chat/completions", messages=messages, logprobs=True, top_logprobs=2, **GREEDY)
    choice = whole["choices"][0]
    text = expected["<user>auto x<assistant>"]
    expect(whole, choice["message"] == {"role": "assistant", "content": text} and whole["object"] == "chat.completion")
    content = choice["logprobs"]["content"]
    expect(content, bytes(sum((each["bytes"] for each in content), [])).decode(errors="replace") == text)
    expect(content, all(each["logprob"] == each["top_logprobs"][0]["logprob"] < 0 and len(each["top_logprobs"]) == 2
                        for each in content))
    events = server.events("/v1/chat/completions", messages=messages, logprobs=True, top_logprobs=2, **GREEDY)
    expect(events[0], events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""})
    choices = [event["choices"][0] for event in events[1:-2]]
    expect(events, "".join(each["delta"]["content"] for each in choices) == text)
    expect(events, sum((each["logprobs"]["content"] for each in choices), []) == content)
    expect(events[-2], events[-2]["choices"][0]["finish_reason"] == "length")

    text = expected["auto x"]
    stopped = server.post("/v1/completions", prompt="auto x", stop=["never", text[5:8]], **GREEDY)["choices"][0]
    expect(stopped, stopped["text"] == text[:text.find(text[5:8])] and stopped["finish_reason"] == "stop")
    drawn = [server.post("/v1/completions", prompt="auto x", seed=seed, max_tokens=40)["choices"][0]["text"] for seed in (1, 1, 2)]
    expect(drawn, drawn[0] == drawn[1] != drawn[2])
    biased = server.post("/v1/completions", prompt=[97], max_tokens=3, logit_bias={"98": 100}, temperature=0, logprobs=1)
    expect(biased, biased["choices"][0]["text"] == "bbb" and biased["choices"][0]["logprobs"]["tokens"] == ["b"] * 3)


def all_of(raw):
    """What the server sends until it closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while some := raw.recv(1 << 16):
            answer += some
    return answer


def refused(server):
    def error(status, body, path="/v1/completions", method="POST", **headers):
        got, _, answer = server.send(method, path, body, headers)
        expect((body, got, answer), got == status and set(answer["error"]) == {"message", "type", "param", "code"})
        return answer["error"]

    expect("model", error(404, {"prompt": "a", "model": "other"})["code"] == "model_not_found")
    expect("param", error(400, {"prompt": "a", "top_p": 2})["param"] == "top_p")
    expect("room", error(400, {"prompt": "a" * CONTEXT})["code"] == "context_length_exceeded")
    for body in (b"", b"{", b"\xff\xfe", b'{"prompt": "\xff"}', b'{"prompt": "a", "temperature": NaN}', b"[" * 5000,
                 b'{"prompt": ""}', b'{"prompt": "a", "n": 2}', b'{"prompt": "a", "wings": 1}', b'{"messages": []}'):
        error(400, body)
        error(400, body, "/v1/chat/completions")
    error(404, None, "/v1/nothing", "GET")
    error(404, None, "/v1/completions", "GET")
    expect("large", "too large" in error(413, b'{"prompt": "' + b"a" * (1 << 21) + b'"}')["message"])
    error(415, b"{}", **{"Content-Encoding": "gzip"})
    connection = server.connect()
    connection.request("POST", "/v1/completions", iter([b'{"prompt":', b' "a"}']), encode_chunked=True,
                       headers=JSON | {"Transfer-Encoding": "chunked"})
    answer = connection.getresponse()
    expect("chunked", answer.status == 200 and json.load(answer)["usage"]["prompt_tokens"] == 1)
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:  # what follows is not another request
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    b"GET /health HTTP/1.1\r\n\r\n")
        expect("one answer", all_of(raw).count(b"HTTP/1.1 ") == 1)
    for text in (b"\x00\xff\r\n\r\n", b"POST\r\n\r\n", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /health HTTP/1.1\r\nA: " + b"a" * 20000 + b"\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
            raw.sendall(text)
            raw.shutdown(socket.SHUT_WR)
            answer = all_of(raw)
            expect((text[:30], answer), answer == b"" or answer.startswith(b"HTTP/1.1 4"))
    models = server.send("GET", "/v1/models")[2]
    expect(models, [each["id"] for each in models["data"]] == ["model"])
    expect("health", server.send("GET", "/health")[2] == {"status": "ok"})


def vanishing(server):
    """Of a server with one row, and room for one more request."""
    begin = time.monotonic()
    for _ in range(3):
        connection, answer = server.begin(max_tokens=CONTEXT - 1)
        answer.close()
        connection.close()
        connection = server.connect()  # one whose whole answer is awaited
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": CONTEXT - 1}), JSON)
        time.sleep(0.1)
        connection.close()
        time.sleep(0.4)
    server.post("/v1/completions", prompt="a", max_tokens=2)
    print("after six clients that vanished, an answer came in %.2f s" % (time.monotonic() - begin))
    running, waiting = server.begin(max_tokens=CONTEXT - 1), server.connect()
    waiting.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": CONTEXT - 1}), JSON)
    time.sleep(0.3)
    status, answer, error = server.send("POST", "/v1/completions", {"prompt": "a"})
    expect(error, status == 429 and answer.getheader("Retry-After") and error["error"]["code"] == "rate_limit_exceeded")
    waiting.close()
    running[1].close()
    running[0].close()
    time.sleep(0.5)
    server.post("/v1/completions", prompt="a", max_tokens=2)


def slow_reader(server):
    """It must not hold up others: events of 20 alternatives are more than its socket holds."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", server.port))
    body = json.dumps({"prompt": "a", "stream": True, "max_tokens": CONTEXT - 1, "logprobs": 20}).encode()
    raw.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    for _ in range(5):
        begin = time.monotonic()
        server.post("/v1/completions", prompt="a", max_tokens=5)
        expect("others wait", time.monotonic() - begin < 5)
    raw.close()


def ending(model):
    for ranks, number in ((2, signal.SIGTERM), (1, signal.SIGINT)):
        server = Server(model, ranks)
        connection, answer = server.begin(max_tokens=1500)
        os.kill(server.ranks()[0], number)
        text = answer.read().decode()
        expect(text[-300:], text.endswith("data: [DONE]\n\n") and text.count("data: ") > 100)
        expect("end", server.job.wait(30) == 0)
        connection.close()
    server = Server(model, 2, "--drain-timeout", 0)
    connection, answer = server.begin(max_tokens=CONTEXT - 1)
    server.job.send_signal(signal.SIGUSR1)  # which mpirun forwards
    expect("given up", '"the server ends"' in answer.read().decode() and server.job.wait(30) == 0)
    connection.close()


def killed(model):
    server = Server(model, 3)
    connection, answer = server.begin(max_tokens=CONTEXT - 1)
    os.kill(server.ranks()[2], signal.SIGKILL)
    begin = time.monotonic()
    expect("killed", server.job.wait(30) != 0 and time.monotonic() - begin < 20)
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer.read()
    connection.close()


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(server):
    """Longer than the time that ranks wait for each other."""
    pids = server.ranks()
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(7)
    used = [cpu_seconds(pid) - first for pid, first in zip(pids, before)]
    print("CPU seconds of each rank in 7 idle ones: %s" % used)
    expect(used, used[0] < 0.3 and max(used) < 1)
    server.post("/v1/completions", prompt="a", max_tokens=2)


def main(folder):
    model = os.path.join(folder, "model")
    shutil.copytree(MODEL, model)
    path = os.path.join(model, "config.json")
    with open(path, encoding="utf-8") as file:
        config = dict(json.load(file), max_position_embeddings=CONTEXT)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    prompts = ["constexpr ", "// The", "t", "auto x", "é", "<user>auto x<assistant>"]
    expected = dict(zip(prompts, generated(model, prompts)))

    no_template = Server(model, 1, "--name", "other", SHARDWISE_API_KEY="secret")
    body = {"messages": [{"role": "user", "content": "a"}]}
    expect("key", no_template.send("POST", "/v1/chat/completions", body)[0] == 401)
    expect("key", no_template.send("GET", "/v1/models", headers={"Authorization": "Bearer secre"})[0] == 401)
    status, _, answer = no_template.send("POST", "/v1/chat/completions", body, {"Authorization": "Bearer secret"})
    expect(answer, status == 400 and "no chat template" in answer["error"]["message"])
    no_template.end()
    with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(TEMPLATE)

    meshes = ((1, ()), (2, ("--pp", 2)), (3, ("--rows", 3, "--timeout", 5)))
    for ranks, options in meshes if all_tests() else meshes[1:]:
        server = Server(model, ranks, *options, "--max-body", 1)
        answers(server, expected)
        dialogue_and_options(server, expected)
        if ranks == 3:
            idle(server)
        if ranks == 2:
            refused(server)
            twice = subprocess.run([*LAUNCHER, "2", SERVER, "--weights", model, "--port", str(server.port)], check=False,
                                   capture_output=True, text=True, timeout=60)
            expect(twice, twice.returncode != 0 and "port is in use" in " ".join(twice.stderr.split()))
            slow_reader(server)
        server.end()
    server = Server(model, 2, "--rows", 1, "--queue", 1, "--request-timeout", 5)
    vanishing(server)
    server.end()
    ending(model)
    killed(model)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
