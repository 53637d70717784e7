#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Prompts and tokens a second of a random Llama of 201 million parameters: Shardwise on one rank and on two, and llama.cpp
on one thread and two of Node, if the folder NODE has npm's node-llama-cpp. Both have the same numbers as weights. In turn, in one run.
Needs NumPy. Usage: decoding.py BUILD/benchmarks/decoding [--node NODE] [--runs 2]"""

import argparse
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy as np

LAYERS, FEATURES, HEADS, KV_HEADS, HIDDEN, VOCABULARY, CONTEXT = 12, 1024, 16, 4, 2816, 32000, 2048
HEAD_DIM = FEATURES // HEADS
PROMPT, TOKENS = 64, 64
LLAMA_CPP = """
import {getLlama} from "node-llama-cpp";
const [file, threads, prompt, tokens] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({contextSize: 1024, batchSize: 512, threads});
const sequence = context.getSequence(), ids = Array.from({length: prompt}, (_, i) => i + 300);
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const prompts = [], decodes = [], median = (x) => x.sort((a, b) => a - b)[1];
for (let run = 0; run < 4; ++run) {  // the first is not counted
  await sequence.clearHistory();
  const start = seconds();
  let written = 0, begun = 0;
  for await (const _ of sequence.evaluate(ids, {temperature: 0, yieldEogToken: true})) {
    if (written++ === 0) begun = seconds();
    if (written > tokens) break;
  }
  if (run > 0) prompts.push(prompt / (begun - start)), decodes.push(tokens / (seconds() - begun));
}
console.log(JSON.stringify({prompt: median(prompts), decode: median(decodes)}));
process.exit(0);
"""


def tensors():
    """(name, GGUF's name, numbers)"""
    random = np.random.default_rng(1)

    def matrix(*shape):
        return random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)

    ones = np.ones(FEATURES, np.float32)
    yield "model.embed_tokens", "token_embd", matrix(VOCABULARY, FEATURES)
    for i in range(LAYERS):
        for name, short, numbers in [
            ("self_attn.q_proj", "attn_q", matrix(HEADS * HEAD_DIM, FEATURES)),
            ("self_attn.k_proj", "attn_k", matrix(KV_HEADS * HEAD_DIM, FEATURES)),
            ("self_attn.v_proj", "attn_v", matrix(KV_HEADS * HEAD_DIM, FEATURES)),
            ("self_attn.o_proj", "attn_output", matrix(FEATURES, HEADS * HEAD_DIM)),
            ("mlp.gate_proj", "ffn_gate", matrix(HIDDEN, FEATURES)),
            ("mlp.up_proj", "ffn_up", matrix(HIDDEN, FEATURES)),
            ("mlp.down_proj", "ffn_down", matrix(FEATURES, HIDDEN)),
            ("input_layernorm", "attn_norm", ones),
            ("post_attention_layernorm", "ffn_norm", ones),
        ]:
            yield f"model.layers.{i}.{name}", f"blk.{i}.{short}", numbers
    yield "model.norm", "output_norm", ones
    yield "lm_head", "output", matrix(VOCABULARY, FEATURES)


def eight_bits(numbers):
    groups = numbers.reshape(-1, 32)
    scale = np.abs(groups).max(1) / 127
    blocks = np.zeros(len(groups), [("scale", "<f2"), ("values", "i1", 32)])
    blocks["scale"], blocks["values"] = scale, np.round(groups / scale[:, None])
    return blocks.tobytes()


def four_bits(numbers):
    groups = numbers.reshape(-1, 32)
    scale = np.take_along_axis(groups, np.abs(groups).argmax(1)[:, None], 1) / -8
    values = np.clip(np.floor(groups / scale + 8.5), 0, 15).astype(np.uint8)
    blocks = np.zeros(len(groups), [("scale", "<f2"), ("pairs", "u1", 16)])
    blocks["scale"], blocks["pairs"] = scale[:, 0], values[:, :16] | values[:, 16:] << 4
    return blocks.tobytes()


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name, value):
    """A key of a GGUF file with its value."""
    if isinstance(value, list):
        kind, each = {str: (8, text), float: (6, lambda x: struct.pack("<f", x)), int: (5, lambda x: struct.pack("<i", x))}[type(value[0])]
        return text(name) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(each, value))
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    return text(name) + (struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value))


def write_gguf(path, weights, kind, encode):
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    words += [f"word{i}" for i in range(len(words), VOCABULARY)]
    keys = {
        "general.architecture": "llama", "llama.block_count": LAYERS, "llama.context_length": CONTEXT,
        "llama.embedding_length": FEATURES, "llama.feed_forward_length": HIDDEN, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": HEAD_DIM, "llama.rope.freq_base": 10000.0, "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words, "tokenizer.ggml.scores": [0.0] * VOCABULARY,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    }  # fmt: skip
    infos, data = b"", b""
    for _, name, numbers in weights:
        own, stored = (kind, encode(numbers)) if numbers.ndim == 2 else (0, numbers.tobytes())
        extents = b"".join(struct.pack("<Q", extent) for extent in reversed(numbers.shape))
        infos += text(name + ".weight") + struct.pack("<I", numbers.ndim) + extents + struct.pack("<IQ", own, len(data))
        data += stored + b"\0" * (-len(stored) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(keys)) + b"".join(entry(*key) for key in keys.items()) + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def write_folder(folder, weights):
    config = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=FEATURES, intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False,
        torch_dtype="float32",
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    header, at = {}, 0
    for name, _, numbers in weights:
        header[name + ".weight"] = dict(dtype="F32", shape=numbers.shape, data_offsets=[at, at + numbers.nbytes])
        at += numbers.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    data = b"".join(numbers.tobytes() for _, _, numbers in weights)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--node", type=pathlib.Path, help="a folder with node_modules/node-llama-cpp")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        weights = list(tensors())
        write_folder(folder, weights)
        script = None
        if options.node:
            script = options.node / "shardwise_decoding.mjs"
            script.write_text(LLAMA_CPP)
        for bits, kind, encode in (32, 0, np.ndarray.tobytes), (16, None, None), (8, 8, eight_bits), (4, 2, four_bits):
            gguf = folder / f"{bits}.gguf"
            if script and encode:
                write_gguf(gguf, weights, kind, encode)
            for cores in (1, 2):
                ours = ["mpirun", "-n", str(cores), "--bind-to", "core", options.program, "--weights", folder, "--weight-bits", str(bits)]
                theirs = ["taskset", "-c", f"0-{cores - 1}", "node", script, gguf, str(cores), str(PROMPT), str(TOKENS)]
                results = []
                for _ in range(options.runs):
                    results.append((run(ours), run(theirs) if gguf.exists() else None))
                for what in "prompt", "decode":
                    line = f"{bits:2} bits, {cores} core{'s' * (cores > 1)}, {what}: " + ", ".join(f"{a[what]:.0f}" for a, _ in results)
                    if gguf.exists():
                        ratio = statistics.median(a[what] / b[what] for a, b in results)
                        line += "; llama.cpp " + ", ".join(f"{b[what]:.0f}" for _, b in results) + f"; {ratio:.2f} times"
                    print(line, flush=True)
            gguf.unlink(missing_ok=True)
        if script:
            script.unlink()


main()
