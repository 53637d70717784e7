#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-evaluate: perplexities and answers are those that follow from the logits of shardwise-generate, on any
number of ranks.

    evaluate_test.py MODEL WIDE GENERATE EVALUATE LAUNCHER…     models of bytes, the second with extents that are multiples of 32
"""

import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

from tiers import all_tests

MODEL, WIDE, GENERATE, EVALUATE, *LAUNCHER = sys.argv[1:]
MESHES = ((1,), (2,), (3,), (2, "--pp", 2))
FEWER = MESHES if all_tests() else MESHES[2:]
TEXT = ("#pragma once\n\n#include <vector>\n\nnamespace shardwise {\n\n/// A sum of é and x.\n"
        "constexpr int sum(int a, int b) { return a + b; }\n\n}  // namespace shardwise\n")


def run(ranks, *options, program=EVALUATE, weights=MODEL):
    launcher = [*LAUNCHER, str(ranks)] if ranks > 1 else []
    command = [*launcher, program, "--weights", weights, *map(str, options)]
    job = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if job.returncode != 0:
        sys.exit("%s\nended with %d:\n%s%s" % (command, job.returncode, job.stdout, job.stderr))
    return job.stdout + job.stderr


def expect(what, holds):
    if not holds:
        sys.exit("wrong: %s" % (what,))


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def log_likelihood(folder, ids, first, weights=MODEL):
    """The sum of log p(ids[i] | all before it) over i >= first, from logits of the model."""
    path = os.path.join(folder, "logits.safetensors")
    tokens = write(os.path.join(folder, "tokens.txt"), " ".join(map(str, ids[:-1])))
    run(1, "--tokens", tokens, "--new-tokens", 0, "--dump-logits", path, program=GENERATE, weights=weights)
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        start = file.tell()
        tensor = header["logits"]
        file.seek(start + tensor["data_offsets"][0])
        count = math.prod(tensor["shape"])
        logits = struct.unpack("<%df" % count, file.read(4 * count))
    vocabulary = tensor["shape"][-1]
    total = 0
    for i in range(first, len(ids)):
        row = logits[(i - 1) * vocabulary : i * vocabulary]
        most = max(row)
        total += row[ids[i]] - most - math.log(sum(math.exp(x - most) for x in row))
    return total


def perplexity(folder):
    text = write(os.path.join(folder, "text.txt"), TEXT[:70])
    ids = list(TEXT[:70].encode())
    for context in (16, 1000):
        total = sum(log_likelihood(folder, ids[begin : begin + context + 1], 1) for begin in range(0, len(ids) - 1, context))
        loss = -total / (len(ids) - 1)
        for ranks, *options in MESHES if context == 16 else FEWER:
            output = run(ranks, "--text", text, "--context", context, *options)
            found = re.search(r"(\d+) tokens in windows of (\d+): loss (\S+), perplexity (\S+), (\S+) bits a byte", output)
            expect(output, found and (int(found[1]), int(found[2])) == (len(ids), context))
            expect((output, loss), math.isclose(float(found[3]), loss, abs_tol=2e-5))
            expect((output, loss), math.isclose(float(found[4]), math.exp(loss), rel_tol=1e-4))
            bits = -total / math.log(2) / len(ids)
            expect((output, bits), math.isclose(float(found[5]), bits, abs_tol=2e-4))
            expect(output, ("note: --context 1000 is more than" in output) == (context == 1000))
    # With more tokens than a piece of 256, and weights of fewer bits.
    text = write(os.path.join(folder, "long.txt"), TEXT * 3)
    ids = list((TEXT * 3).encode())
    loss = -log_likelihood(folder, ids, 1, WIDE) / (len(ids) - 1)
    for bits, tolerance in ((32, 2e-5), (16, 0.003), (8, 0.01), (4, 0.2)):
        output = run(2, "--text", text, "--context", 1000, "--weight-bits", bits, weights=WIDE)
        found = float(re.search(r"loss (\S+),", output)[1])
        expect((bits, found, loss), math.isclose(found, loss, abs_tol=tolerance))
        expect((bits, found, loss), bits == 32 or not math.isclose(found, loss, abs_tol=2e-5))


def answers(folder):
    questions = [  # the first two are in the text that the model was trained on
        {"prompt": "// SPDX-License-Identifier: ", "choices": ["Zq#9@vKw!x", "Apache-2.0"], "answer": 1},
        {"prompt": "#pragma ", "choices": ["once\n", "zJ@q\n"], "answer": 0},
        {"prompt": "#pragma ", "choices": ["once\n", "zJ@q\n"], "answer": 1},
        {"prompt": "namespace ", "choices": ["shardwise {\n\n/// The", "s"], "answer": 1},
        {"prompt": "", "choices": ["ab", "\x01\x02é"], "answer": 1},
    ]
    right = by_length = 0
    for i, question in enumerate(questions):
        prompt = question["prompt"].encode()
        scores, each = [], []
        for choice in question["choices"]:
            ids = list(prompt + choice.encode())
            scores.append(log_likelihood(folder, ids, max(1, len(prompt)), WIDE))
            each.append(scores[-1] / len(choice.encode()))
        chosen = [score.index(max(score)) == question["answer"] for score in (scores, each)]
        expect((i, scores), i > 2 or chosen == [i < 2, i < 2])
        right, by_length = right + chosen[0], by_length + chosen[1]
    count = len(questions)
    expect((right, by_length), right != by_length)

    def share(number):
        p = number / count
        return "%.2f %% (± %.2f)" % (100 * p, 100 * math.sqrt(p * (1 - p) / count))

    path = write(os.path.join(folder, "questions.jsonl"), "\n\n".join(map(json.dumps, questions)) + "\n")
    for ranks, *options in FEWER:
        output = run(ranks, "--questions", path, *options, weights=WIDE)
        expected = "%d questions: %s answered correctly, %s by the likelihood a byte" % (count, share(right), share(by_length))
        expect((output, expected), expected in output)


with tempfile.TemporaryDirectory() as scratch:
    perplexity(scratch)
    answers(scratch)
