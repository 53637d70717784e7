#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""GGUF files in programs: a model from one writes what it writes from Hugging Face's folder, on any number of ranks; and
what is refused.

    gguf_test.py MODEL GENERATE EVALUATE TRAIN SERVE LAUNCHER…     a Llama of bytes, whose extents are multiples of 32; mpirun -n;
                                                                   SERVE may be empty
"""

import array
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from serving import Server
from tiers import all_tests

MODEL, GENERATE, EVALUATE, TRAIN, SERVE, *LAUNCHER = sys.argv[1:]
F32, Q4_0, Q8_0, Q6_K = 0, 2, 8, 14
PROMPT = "constexpr "


def run(program, ranks, *options, fails=False):
    launcher = [*LAUNCHER, str(ranks)] if ranks > 1 else []
    command = [*launcher, program, *map(str, options)]
    job = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if (job.returncode == 0) == fails:
        sys.exit("%s\nended with %d:\n%s%s" % (command, job.returncode, job.stdout, job.stderr))
    return job.stdout + job.stderr


def expect(what, holds):
    if not holds:
        sys.exit("wrong: %s" % (what,))


def tensors_of(path):
    """Names, and shapes and numbers, of tensors in float."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    found = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = entry["shape"], array.array("f", data[begin:end])
    return found


def gguf_name(name):
    for part, other in [("model.embed_tokens", "token_embd"), ("lm_head", "output"), ("model.norm", "output_norm"),
                        ("model.layers", "blk"), ("self_attn.o_proj", "attn_output"), ("self_attn.", "attn_"), ("mlp.", "ffn_"),
                        ("_proj", ""), ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")]:
        name = name.replace(part, other)
    return name


def interleaved(shape, numbers, head):
    """The rows of each head, those of its two halves in turn."""
    row = shape[1]
    result = array.array("f")
    for first in range(0, shape[0], head):
        for i in range(head // 2):
            for begin in (first + i, first + i + head // 2):
                result += numbers[begin * row : (begin + 1) * row]
    return result


def quantised(numbers, bits):
    blocks = b""
    for begin in range(0, len(numbers), 32):
        group = numbers[begin : begin + 32]
        largest = max(group, key=abs)
        scale = abs(largest) / 127 if bits == 8 else largest / -8
        whole = [0 if scale == 0 else round(x / scale) for x in group]
        if bits == 8:
            blocks += struct.pack("<e32b", scale, *whole)
        else:
            whole = [min(x, 7) + 8 for x in whole]
            blocks += struct.pack("<e16B", scale, *(whole[i] | whole[i + 16] << 4 for i in range(16)))
    return blocks


def text(words):
    return struct.pack("<Q", len(words.encode())) + words.encode()


def value(key, thing):
    if isinstance(thing, bool):
        return text(key) + struct.pack("<IB", 7, thing)
    if isinstance(thing, int):
        return text(key) + struct.pack("<II", 4, thing)
    if isinstance(thing, float):
        return text(key) + struct.pack("<If", 6, thing)
    if isinstance(thing, str):
        return text(key) + struct.pack("<I", 8) + text(thing)
    kind = 8 if thing and isinstance(thing[0], str) else 5
    return text(key) + struct.pack("<IIQ", 9, kind, len(thing)) + b"".join(
        text(each) if kind == 8 else struct.pack("<i", each) for each in thing)


def write(path, kind=F32, **changed):
    """The model as llama.cpp's converter writes it; of `changed` values, those that are None are left out."""
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    head = config["hidden_size"] // config["num_attention_heads"]
    values = {"general.architecture": "llama", "general.name": "small", "llama.block_count": config["num_hidden_layers"],
              "llama.context_length": config["max_position_embeddings"], "llama.embedding_length": config["hidden_size"],
              "llama.feed_forward_length": config["intermediate_size"], "llama.vocab_size": config["vocab_size"],
              "llama.attention.head_count": config["num_attention_heads"],
              "llama.attention.head_count_kv": config["num_key_value_heads"], "llama.rope.dimension_count": head,
              "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.rope.freq_base": float(config["rope_theta"])}
    values.update({key.replace("__", "."): thing for key, thing in changed.items()})
    values = {key: thing for key, thing in values.items() if thing is not None}
    infos, data = b"", b""
    tensors = tensors_of(os.path.join(MODEL, "model.safetensors"))
    for name, (shape, numbers) in tensors.items():
        if "q_proj" in name or "k_proj" in name:
            numbers = interleaved(shape, numbers, head)
        own = F32 if len(shape) == 1 else kind
        infos += text(gguf_name(name)) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", extent) for extent in reversed(shape)) + struct.pack("<IQ", own, len(data))
        data += numbers.tobytes() if own in (F32, Q6_K) else quantised(numbers, 8 if own == Q8_0 else 4)
        data += bytes(-len(data) % 32)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    start += b"".join(value(*each) for each in values.items()) + infos
    with open(path, "wb") as file:
        file.write(start + bytes(-len(start) % 32) + data)
    return path


def logits(folder, ranks, weights, *options):
    path = os.path.join(folder, "logits.safetensors")
    run(GENERATE, ranks, "--weights", weights, "--prompt", PROMPT, "--new-tokens", 0, "--dump-logits", path, *options)
    ((_, numbers),) = tensors_of(path).values()
    return numbers


def distance(a, b):
    """The mean one, relative to the mean number."""
    return sum(abs(x - y) for x, y in zip(a, b)) / sum(map(abs, b))


def written(ranks, weights):
    output = run(GENERATE, ranks, "--weights", weights, "--prompt", PROMPT, "--new-tokens", 40, "--temperature", 0)
    return re.search(r"---- text written by the model ----\n(.*)\n----\n", output, re.S).group(1)


def characters_of_bytes():
    """GPT-2's: visible bytes are themselves, the others come after 255."""
    characters, after = [], 256
    for byte in range(256):
        visible = 0x20 < byte < 0x7F or (byte > 0xA0 and byte != 0xAD)
        characters.append(chr(byte if visible else after))
        after += not visible
    return characters


def main(folder):
    f32 = write(os.path.join(folder, "f32.gguf"))
    expected = logits(folder, 1, MODEL)
    expect("logits", len(expected) == len(PROMPT) * 256)
    story = written(1, MODEL)
    for ranks in (1, 2, 3) if all_tests() else (1, 3):
        expect(ranks, distance(logits(folder, ranks, f32), expected) < 1e-4)
        expect((ranks, story), written(ranks, f32) == story)
    for kind, bits, most in ((Q8_0, 8, 0.05), (Q4_0, 4, 0.6)):
        path = write(os.path.join(folder, "q.gguf"), kind)
        as_floats = logits(folder, 1, path)
        apart = distance(as_floats, expected)
        expect((bits, apart), 1e-4 < apart < most)
        for ranks in (1, 3):
            expect((bits, ranks), distance(logits(folder, ranks, path), as_floats) < 1e-4)
            found = logits(folder, ranks, path, "--weight-bits", bits)
            expect((bits, ranks, "blocks"), distance(found, as_floats) < 0.05)  # inputs are rounded to 8 bits
    page = os.path.join(folder, "page.txt")
    with open(page, "w", encoding="utf-8") as file:
        file.write("namespace shardwise {\n" * 20)
    first, second = (float(re.search(r"perplexity ([0-9.]+)", run(EVALUATE, 2, "--weights", each, "--text", page)).group(1))
                     for each in (MODEL, f32))
    expect((first, second), abs(first - second) < 1e-4 * first)

    # With a tokenizer of GPT-2's kind, whose tokens are bytes; ends are those of the file.
    words = {"tokenizer__ggml__model": "gpt2", "tokenizer__ggml__pre": "gpt-2", "tokenizer__ggml__tokens": characters_of_bytes(),
             "tokenizer__ggml__token_type": [1] * 256, "tokenizer__ggml__merges": []}
    own = write(os.path.join(folder, "own.gguf"), **words)
    expect("tokenizer", written(2, own) == story)
    prompts = os.path.join(folder, "prompts.jsonl")
    with open(prompts, "w", encoding="utf-8") as file:
        file.write(json.dumps({"prompt": PROMPT, "temperature": 0, "max_tokens": 40}))
    tokens = json.loads(run(GENERATE, 2, "--weights", own, "--prompts", prompts).splitlines()[0])["tokens"]
    ends = write(os.path.join(folder, "ends.gguf"), **words, tokenizer__ggml__eos_token_id=tokens[9])
    line = json.loads(run(GENERATE, 2, "--weights", ends, "--prompts", prompts).splitlines()[0])
    expect((line, tokens), line["finish_reason"] == "stop" and line["tokens"] == tokens[: tokens.index(tokens[9]) + 1])

    def refused(why, ranks=1, **changed):
        path = write(os.path.join(folder, "bad.gguf"), **changed)
        output = run(GENERATE, ranks, "--weights", path, "--prompt", PROMPT, fails=True)
        expect((why, output), why in output and "bad.gguf" in output and output.count("shardwise: rank") <= 1)

    refused("type 14 (Q6_K), expected F32, F16, BF16, Q8_0 or Q4_0", ranks=2, kind=Q6_K)
    refused('general.architecture: it is "gemma", expected "llama", "qwen2" or "qwen3"', general__architecture="gemma")
    refused("llama.block_count: it is missing, expected an integer", llama__block_count=None)
    refused("the model's sizes and the weights differ", llama__block_count=3)
    refused('"llama.rope.dimension_count": it is 16, expected 32', llama__attention__key_length=32, llama__rope__dimension_count=16)
    refused("expert_count: it is 8, expected no such key", llama__expert_count=8)
    refused("attention.sliding_window", llama__attention__sliding_window=16)
    refused('tokenizer.ggml.model: it is "llama", expected "gpt2": put the model\'s tokenizer.json beside',
            tokenizer__ggml__model="llama")
    refused("tokenizer.ggml.pre: it is \"other\", expected one of llama-bpe", **{**words, "tokenizer__ggml__pre": "other"})
    unread = write(os.path.join(folder, "unread.gguf"), tokenizer__ggml__model="llama")
    ids = os.path.join(folder, "ids.txt")
    with open(ids, "w", encoding="utf-8") as file:
        file.write(" ".join(str(byte) for byte in PROMPT.encode()))
    run(GENERATE, 2, "--weights", unread, "--tokens", ids, "--new-tokens", 2)  # needs no tokenizer

    # A folder without safetensors stands for its one GGUF file, whatever the file's name is.
    one, two = (os.path.join(folder, name) for name in ("one", "two"))
    for place, names in ((one, ("sha256-12ab", "config.json")), (two, ("b.gguf", "a.gguf"))):
        os.mkdir(place)
        for name in names:
            shutil.copy(os.path.join(MODEL, name) if name == "config.json" else f32, os.path.join(place, name))
    expect("a folder", written(2, one) == story)
    found = run(EVALUATE, 2, "--weights", one, "--text", page)
    expect(found, "perplexity %.4f" % second in found)
    if SERVE:  # there is Boost.Beast
        server = Server(LAUNCHER, SERVE, one, 2)
        answer = server.post("/v1/completions", prompt=PROMPT, temperature=0, max_tokens=20)
        expect(answer, answer["usage"]["completion_tokens"] == 20)
        expect((answer, story), story.startswith(PROMPT + answer["choices"][0]["text"]))
        server.end()
    for program, options in ((GENERATE, ["--prompt", PROMPT]), (EVALUATE, ["--text", page]), (SERVE, [])):
        if not program:
            continue
        output = run(program, 2, "--weights", two, *options, fails=True)
        expect(output, "two: no model.safetensors, but 2 GGUF files: name one, as %s" % os.path.join(two, "a.gguf") in output)
    for place in (f32, one, two):
        output = run(TRAIN, 1, "--from", place, "--text", page, "--steps", 1, fails=True)
        expect(output, "--from is %s, expected a folder with model.safetensors: GGUF is not trained" % place in output)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
