#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Holds folders that shardwise-consolidate made against the checkpoint that they are of, without any of our code: the
checkpoint is read by the lines in docs/learn/checkpoints.md.

    consolidated_test.py CHECKPOINT LOGITS F32-FOLDER BF16-FOLDER F16-FOLDER

Always, in plain Python: every tensor, by bytes. If this Python or /usr/bin/python3 has torch: also the logits.
"""

import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PARTS = {
    "tokens": "model.embed_tokens", "layers": "model.layers", "norm": "model.norm", "head": "lm_head",
    "attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm", "attention": "self_attn",
    "wq": "q_proj", "wk": "k_proj", "wv": "v_proj", "wo": "o_proj",
    "gate": "gate_proj", "up": "up_proj", "down": "down_proj",
}  # fmt: skip


def read_file(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    begin = 8 + length
    return {n: (t["dtype"], t["shape"], data[slice(*(begin + o for o in t["data_offsets"]))]) for n, t in header.items()}


def read_folder(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return read_file(folder / "model.safetensors")
    index = json.loads(index.read_text())
    files = {name: read_file(folder / name) for name in set(index["weight_map"].values())}
    tensors = {}
    for tensor, file in index["weight_map"].items():
        tensors[tensor] = files[file].pop(tensor)
    assert not any(files.values()), "a file has tensors that the index does not know"
    assert index["metadata"]["total_size"] == sum(len(t[2]) for t in tensors.values())
    return tensors


def bfloat16(x):
    """The bytes of the nearest, ties to even; of no NaN."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16)


CONVERT = {"F32": lambda x: struct.pack("<f", x), "BF16": bfloat16, "F16": lambda x: struct.pack("<e", x)}
TORCH_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def compare(checkpoint, folder, dtype):
    page = (HERE / "../../docs/learn/checkpoints.md").read_text()
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], globals())
    manifest, stored = read_checkpoint(checkpoint)
    tensors = read_folder(folder)
    expected = {name.removeprefix("model."): t for name, t in stored.items() if name.startswith("model.")}
    assert len(expected) == len(tensors) > 0, (len(expected), len(tensors))
    for path, (stored_type, shape, data) in expected.items():
        name = ".".join(PARTS.get(part, part) for part in path.split("."))
        if len(shape) == 3 and path.endswith("wo.weight"):
            shape = [shape[0], shape[1] * shape[2]]
        elif len(shape) == 3:
            shape = [shape[0] * shape[1], shape[2]]
        assert stored_type == "F32"
        values = struct.unpack(f"<{len(data) // 4}f", data)
        assert any(values), name
        wanted = dtype, shape, b"".join(map(CONVERT[dtype], values))
        assert tensors[name] == wanted, f"{folder}: {name} differs"
    config = json.loads((folder / "config.json").read_text())
    note = manifest["notes"]["llama_config"]
    assert config == note | {"torch_dtype": TORCH_NAMES[dtype]}, "config.json differs"
    print(f"{dtype}: {len(tensors)} tensors are those of the checkpoint, by their bytes")


def compare_logits(folder, logits_file):
    sys.path.insert(0, str(HERE / "../reference"))
    import generate
    import torch

    types = {"F32": torch.float32, "I32": torch.int32}
    load = lambda t: torch.frombuffer(bytearray(t[2]), dtype=types[t[0]]).view(t[1])
    given = read_file(logits_file)
    weights = {name: load(t) for name, t in read_folder(folder).items()}
    config = json.loads((folder / "config.json").read_text())
    found = generate.logits(weights, config, load(given["input_ids"]).long())
    expected = load(given["logits"])
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    assert math.isfinite(error) and error < 1e-5, f"the logits differ by {error}"
    print(f"PyTorch {torch.__version__}: the logits are the same within {error:.1e}")


def main():
    if sys.argv[1] == "logits":
        return compare_logits(*map(pathlib.Path, sys.argv[2:]))
    checkpoint, logits, *folders = map(pathlib.Path, sys.argv[1:])
    for folder, dtype in zip(folders, ("F32", "BF16", "F16"), strict=True):
        compare(checkpoint, folder, dtype)
    for python in (sys.executable, "/usr/bin/python3"):
        if not os.path.exists(python) or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode:
            continue
        subprocess.run([python, __file__, "logits", folders[0], logits], check=True)
        return
    print("no PyTorch here (Debian: python3-torch): the logits were not compared with it")


main()
