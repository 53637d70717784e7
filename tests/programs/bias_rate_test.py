#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Biases of experts that `--bias-rate` moves are equal on all meshes, multiples of the rate, and at most its multiple by the number
of steps; without it they stay 0.  bias_rate_test.py SHARDWISE_TRAIN"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

from tiers import all_tests

TRAIN = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ["--text", str(ROOT / "include/shardwise/layout"), "--model-config", str(ROOT / "tests/reference/deepseek_v3/config.json"),
         "--context", "16", "--batch", "4", "--steps", "5"]


def biases(ranks, options, rate):
    with tempfile.TemporaryDirectory(prefix="shardwise-bias-") as folder:
        subprocess.run(["mpirun", "-n", str(ranks), TRAIN, *MODEL, "--bias-rate", str(rate), "--export", folder + "/model",
                        *options.split()], check=True, stdout=subprocess.DEVNULL)
        data = (pathlib.Path(folder) / "model" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = []
    for name, tensor in sorted(json.loads(data[8:8 + size]).items()):
        if name.endswith("e_score_correction_bias"):
            assert tensor["dtype"] == "F32", (name, tensor)
            begin, end = tensor["data_offsets"]
            found += struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
    return found


RATE = 0.125  # its multiples are exact
alone = biases(1, "", RATE)
assert any(alone) and all(bias / RATE == round(bias / RATE) and abs(bias) <= 5 * RATE for bias in alone), alone
assert not any(biases(1, "", 0))
meshes = ((2, "--tp 2 --sp --zero 1 --token-dispatcher alltoall"), (2, "--zero 1 --micro-batches 2"),
          (4, "--pp 2 --micro-batches 2 --recompute"))
for ranks, options in meshes if all_tests() else meshes[:1]:
    assert biases(ranks, options, RATE) == alone, (ranks, options, alone)
rounded = biases(2, "--bf16 --tp 2", RATE)
assert any(rounded) and all(bias / RATE == round(bias / RATE) for bias in rounded), rounded
