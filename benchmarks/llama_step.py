#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The training step of a Llama: Shardwise in bfloat16 beside Shardwise in float, on one rank and on two; and on two ranks
beside PyTorch's two processes over gloo, if PyTorch is there. In turn, in one run: what counts is the median of the ratios
of neighbours. Usage: llama_step.py BUILD/benchmarks/llama_step [pairs]"""

import json
import os
import shutil
import statistics
import subprocess
import sys

A = ("A: 2 layers of 256, 16 heads, 32000 words, 8 x 256 tokens", {})
B = (
    "B: 4 layers of 768, 12 heads, 4 key/value heads, 8192 words, 4 x 256 tokens",
    dict(vocabulary=8192, features=768, layers=4, heads=12, kv_heads=4, hidden=2048, batch=4),
)
# What the ranks share: the model; the batch (beside PyTorch's DistributedDataParallel, which has no counterpart of the
# sharded forms on a CPU).
CASES = [(*A, "tp", "tp"), (*B, "tp", "tp"), (*A, "ddp", "ddp"), (*A, "zero1", "ddp"), (*A, "zero2", "ddp"), (*A, "fsdp", "ddp")]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turn(commands, pairs):
    """The results of two commands by their names, run A B B A …"""
    results = {name: [] for name in commands}
    for pair in range(pairs):
        for name in list(commands)[:: 1 if pair % 2 == 0 else -1]:
            results[name].append(run(commands[name]))
    return results


def options_of(sizes):
    return [word for name, value in sizes.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def compare_types(program, pairs, binding):
    for title, sizes in (A, B):
        for ranks in (1, 2):
            command = ["mpirun", "-n", str(ranks), "--bind-to", binding, program, *options_of(sizes), "--dtype"]
            results = in_turn({dtype: command + [dtype] for dtype in ("float", "bfloat16")}, pairs)
            print(f"{title}; one training step, tensor parallel on {ranks} of one thread")
            for name in ("step", "forward", "backward", "optimizer", "own_mb"):
                wide, narrow = ([r[name] for r in of] for of in results.values())
                ratio = statistics.median(b / a for a, b in zip(wide, narrow))
                scale, unit = (1, "MB") if name == "own_mb" else (1000, "ms")
                a, b = (scale * statistics.median(values) for values in (wide, narrow))
                print(f"  {name:12}float {a:9.1f} {unit}   bfloat16 {b:9.1f} {unit}   bfloat16 / float {ratio:6.2f}")
            print(flush=True)


def main():
    program, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    os.environ["OMP_NUM_THREADS"] = "1"
    binding = "core" if (os.cpu_count() or 1) >= 2 else "none"
    compare_types(program, pairs, binding)
    here = os.path.dirname(os.path.abspath(__file__))
    python = next((p for p in ("/usr/bin/python3", shutil.which("python3")) if p and subprocess.run([p, "-c", "import torch"], capture_output=True).returncode == 0), None)
    if python is None:
        return print("PyTorch is missing (Debian: python3-torch): nothing more to compare with")
    for title, sizes, our_mode, their_mode in CASES:
        options = options_of(sizes)
        ours = ["mpirun", "-n", "2", "--bind-to", binding, program, "--mode", our_mode] + options
        theirs = [python, os.path.join(here, "llama_step_pytorch.py"), "--mode", their_mode] + options
        results = in_turn({"Shardwise": ours, "PyTorch": theirs}, pairs)
        print(f"{title}; one training step on 2 ranks of one thread: {our_mode} beside PyTorch's {their_mode}")
        print(f"  {'':12}{'Shardwise':>12}{'PyTorch':>12}{'PyTorch / Shardwise':>22}")
        for name in ("step", "forward", "backward", "optimizer", "own_mb", "peak_mb"):
            pair = [[r[name] for r in results[who]] for who in results]
            ratio = statistics.median(b / a for a, b in zip(*pair))
            scale, unit = (1, "MB") if name.endswith("mb") else (1000, "ms")
            label = {"own_mb": "memory", "peak_mb": "with code"}.get(name, name)
            a, b = (scale * statistics.median(values) for values in pair)
            print(f"  {label:12}{a:9.1f} {unit}{b:9.1f} {unit}{ratio:22.2f}")
        print(f"  matrix products by {results['Shardwise'][0]['gemm']}; by {results['PyTorch'][0]['gemm']}; first losses "
              f"{results['Shardwise'][0]['loss']} and {results['PyTorch'][0]['loss']}, from other random weights\n")


if __name__ == "__main__":
    main()
