#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""shardwise-generate for many prompts, and in a dialogue: each text is the one that its prompt gets alone.

    generate_test.py MODEL WIDE UNTOKENIZED PROGRAM LAUNCHER…     models of bytes, the second with extents that are
                                                                  multiples of 32; one without a tokenizer; mpirun -n
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from tiers import all_tests

MODEL, WIDE, UNTOKENIZED, PROGRAM, *LAUNCHER = sys.argv[1:]


def run(ranks, *options, weights=MODEL, stdin=""):
    launcher = [*LAUNCHER, str(ranks)] if ranks > 1 else []
    command = [*launcher, PROGRAM, "--weights", weights, *map(str, options)]
    job = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=100, check=False)
    if job.returncode != 0:
        sys.exit("%s\nended with %d:\n%s%s" % (command, job.returncode, job.stdout, job.stderr))
    return job.stdout


def expect(what, holds):
    if not holds:
        sys.exit("wrong: %s" % (what,))


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def many_prompts(folder):
    words = ["constexpr ", "// The", "#include <", "namespace", "template <class T>", "t", "int i = 0; i < ", "\n", "auto x", "é"]
    prompts = []
    for i, word in enumerate(words):
        line = {"prompt": word, "max_tokens": 5 + 7 * i % 30, "seed": i}
        if i % 3 == 0:
            line["temperature"] = 0
        prompts.append(line)
    prompts[4] = {"tokens": list(words[4].encode()), "max_tokens": 21, "seed": 4}
    path = os.path.join(folder, "prompts.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(line) for line in prompts) + "\n\n")
    for ranks in (1, 2, 3) if all_tests() else (1, 3):
        found = lines_of(run(ranks, "--prompts", path))
        expect((ranks, found), len(found) == len(prompts))
        for prompt, line in zip(prompts, found):
            expect((ranks, line), len(line["tokens"]) == prompt["max_tokens"] and line["finish_reason"] == "length")
            expect(line, bytes(line["tokens"]).decode(errors="replace") == line["text"])
        expect(found, [line["prompt_tokens"] for line in found] == [len(word.encode()) for word in words])
        for rows in (1, 3, 20) if all_tests() else (3, 20):
            expect((ranks, rows), lines_of(run(ranks, "--prompts", path, "--rows", rows)) == found)
        alone = run(ranks, "--prompt", words[1], "--new-tokens", prompts[1]["max_tokens"], "--seed", 1)
        expect((ranks, alone), found[1]["text"] in alone)
    for bits in (16, 8, 4) if all_tests() else (4,):
        texts = run(2, "--prompts", path, "--weight-bits", bits, weights=WIDE)
        expect(texts, len(lines_of(texts)) == len(prompts))
        expect(bits, run(2, "--prompts", path, "--weight-bits", bits, "--rows", 1, weights=WIDE) == texts)
    to = os.path.join(folder, "texts.jsonl")
    expect("--to", run(3, "--prompts", path, "--to", to) == "")
    with open(to, encoding="utf-8") as file:
        expect("--to", lines_of(file.read()) == found)
    return found


def stops(folder, found):
    text = found[8]["text"]
    cut = text[3:6]
    path = os.path.join(folder, "stops.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for stop in (["never", cut], cut, None):
            line = {"prompt": "auto x", "max_tokens": found[8]["prompt_tokens"] + 24, "seed": 8, "stop": stop}
            file.write(json.dumps(line) + "\n")
    for line in lines_of(run(2, "--prompts", path, "--stop", "nowhere", "--stop", cut)):
        expect(line, line["text"] == text[: text.find(cut)] and line["finish_reason"] == "stop")


def untokenized(folder):
    path = os.path.join(folder, "tokens.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"tokens": [1, 2, 3], "max_tokens": 4}\n')
    found = lines_of(run(2, "--prompts", path, weights=UNTOKENIZED))
    expect(found, len(found) == 1 and len(found[0]["tokens"]) == 4 and "text" not in found[0])


def dialogue(folder):
    model = os.path.join(folder, "model")
    shutil.copytree(MODEL, model)
    path = os.path.join(model, "config.json")
    with open(path, encoding="utf-8") as file:
        config = dict(json.load(file), max_position_embeddings=120)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}")
    greedy = ("--temperature", 0, "--new-tokens", 12)
    for ranks in (1, 3) if all_tests() else (3,):
        output = run(ranks, "--chat", *greedy, weights=model, stdin="constexpr\nauto x\n")
        answers = output.split("> ")[-3:]
        expect(answers, len(answers) == 3 and answers[2] == "\n")
        first, second = (answer[:-1] for answer in answers[:2])
        prompt = "<user>constexpr<assistant>"
        expect(output, prompt + first + "\n" in run(ranks, "--prompt", prompt, *greedy, weights=model))
        prompt += first + "<user>auto x<assistant>"
        expect(output, prompt + second + "\n" in run(ranks, "--prompt", prompt, *greedy, weights=model))
    expect("too long", "longer than the model's context" in run(2, "--chat", weights=model, stdin="x" * 5000 + "\n"))


with tempfile.TemporaryDirectory() as scratch:
    stops(scratch, many_prompts(scratch))
    untokenized(scratch)
    dialogue(scratch)
