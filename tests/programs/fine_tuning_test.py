#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Runs the commands of docs/learn/fine-tuning.md as they stand there; then the fine-tuning again, divided otherwise: losses
are the same, what is held out becomes likelier, and both forms of the exported weights hold the same numbers.

    fine_tuning_test.py PAGE PROGRAMS TEXT     the page, the folder of the programs, a text to learn from
"""

import collections
import json
import math
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

from tiers import all_tests


def run(script, folder, programs, text):
    environment = dict(os.environ, PATH=programs + os.pathsep + os.environ["PATH"], TEXT=text)
    job = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    if job.returncode != 0:
        sys.exit("%s\nended with %d:\n%s%s" % (script, job.returncode, job.stdout, job.stderr))
    return job.stdout


def losses(path):
    """Of the steps, and of what is held out."""
    with open(path, encoding="utf-8") as log:
        steps = [json.loads(line) for line in log][1:]
    return [s["loss"] for s in steps if "loss" in s], [s["held_out_loss"] for s in steps if "held_out_loss" in s]


def safetensors(path):
    """Shape and bytes of each tensor."""
    with open(path, "rb") as file:
        data = file.read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    data = data[8 + size :]
    return {name: (tuple(t["shape"]), data[slice(*t["data_offsets"])]) for name, t in header.items()}


class Tensors(pickle.Unpickler):
    """What torch.load makes of the pickle: tensors from parts of the zip file."""

    def __init__(self, archive):
        super().__init__(archive.open("model/data.pkl"))
        self.archive = archive

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self.tensor
        if (module, name) == ("torch", "FloatStorage"):
            return 4
        raise ValueError("%s.%s" % (module, name))

    def persistent_load(self, what):
        kind, bytes_each, key, where, count = what
        data = self.archive.read("model/data/" + key)
        assert (kind, where, len(data)) == ("storage", "cpu", count * bytes_each), what
        return data

    @staticmethod
    def tensor(data, offset, shape, strides, requires_grad, hooks):
        expected = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        assert (offset, strides, requires_grad, hooks) == (0, expected, False, {})
        return shape, data


def main():
    page, programs, text = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        commands = re.findall(r"^```sh\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    (tune,) = [c for c in commands if "--from" in c]
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            said = run(command, folder, programs, text)
            if os.path.exists(folder + "/base/config.json"):  # which says more than a model's sizes
                with open(folder + "/base/config.json", encoding="utf-8") as file:
                    config = json.load(file)
                config.update(pad_token_id=5, transformers_version="4.40")
                with open(folder + "/base/config.json", "w", encoding="utf-8") as file:
                    json.dump(config, file)
            if "shardwise-generate" in command:  # it stops by itself
                assert int(re.search(r"^(\d+) tokens,", said, re.MULTILINE).group(1)) < 20, said
            if command == tune:
                assert "WARNING" not in said, said
                print(said)
                assert re.search(r"ETA 0:00  epoch 12\.00/12\.00", said), said
        expected, held_out = losses(folder + "/log.jsonl")
        assert len(expected) == 96 and len(held_out) == 3, (len(expected), held_out)
        assert expected[-1] < 0.5 * expected[0] and held_out[1] < 0.5 * held_out[0], (expected, held_out)
        with open(folder + "/tuned/config.json", encoding="utf-8") as file:
            config = json.load(file)
        assert config["max_position_embeddings"] == 128
        assert config["pad_token_id"] == 5 and config["transformers_version"] == "4.40", config
        with open(folder + "/tuned/chat_template.jinja", encoding="utf-8") as file:
            assert "<assistant>" in file.read()
        meshes = [(1, "--micro-batches 2"), (2, "--zero 3"), (4, "--pp 2 --micro-batches 4 --zero 1")]
        for ranks, options in meshes if all_tests() else meshes[2:]:
            again = re.sub(r"-n \d+", "-n %d" % ranks, tune).replace("--tp 2", options).replace("--export tuned", "")
            again = again.replace("--export-best best", "--export other%d --format pytorch" % ranks)
            run(again, folder, programs, text)
            now, now_held_out = losses(folder + "/log.jsonl")
            apart = [abs(a - b) for a, b in zip(expected + held_out, now + now_held_out)]
            print("%d ranks, %s: losses differ by %.1e" % (ranks, options, max(apart)))
            # Roundings differ. (At three times this rate the loss leaps, and makes 1e-4 of them.)
            assert len(now) == len(expected) and max(apart) < 5e-6, apart
            with zipfile.ZipFile(folder + "/other%d/pytorch_model.bin" % ranks) as archive:
                assert archive.testzip() is None
                tensors = Tensors(archive).load()
            assert not os.path.exists(folder + "/other%d/model.safetensors" % ranks)
            tuned = safetensors(folder + "/tuned/model.safetensors")
            assert {n: t[0] for n, t in tuned.items()} == {n: t[0] for n, t in tensors.items()}
            for name, (_, data) in tuned.items():
                count = len(data) // 4
                pairs = zip(struct.unpack("<%df" % count, data), struct.unpack("<%df" % count, tensors[name][1]))
                assert max(abs(a - b) for a, b in pairs) < 1e-3, name
        # A run that cannot begin leaves no folder.
        run("mkdir empty; cp base/config.json empty; ! mpirun -n 2 shardwise-train --from empty --data sums.jsonl "
            "--chat-template base/chat_template.jinja --context 40 --export never 2>said; grep -q 'neither model' said",
            folder, programs, text)
        assert not os.path.exists(folder + "/never")
        run("! mpirun -n 2 shardwise-train --from base --data sums.jsonl --context 40 --export '' 2>said; "
            "grep -q -e '--export: its value is empty' said", folder, programs, text)
        # The template that this page had, whose model could not stop.
        said = run("printf '%s' \"{% for m in messages %}{{ m['role'] + ':' + m['content'] }}{% endfor %}\" > endless.jinja; "
                   "mpirun -n 2 shardwise-train --from base --data sums.jsonl --context 40 --steps 1 --chat-template endless.jinja",
                   folder, programs, text)
        assert re.search(r"WARNING: in 144 of 144 documents, first in sums\.jsonl:1, a text that is learned ends without", said), said
        # A run that is ruined, by far too high a rate, and then resumed, keeps the best that it had.
        resumed = re.sub(r"-n \d+", "-n 2", tune).replace("\n", " ").replace("\\", " ")
        resumed = re.sub(r"--(evaluate-every|epochs|rate|tp|log|export|export-best) \S+", "", resumed)
        resumed += " --evaluate-every 5 --warmup 0 --rate-schedule constant --resume"
        for what, options in (("model", ""), ("adapter_model", " --lora-rank 8")):
            trained = resumed + options + " --save %s-runs --export-best %s-kept" % (what, what)
            best = folder + "/%s-kept/%s.safetensors" % (what, what)
            run(trained + " --steps 40 --rate 1e-2", folder, programs, text)
            kept = safetensors(best)
            for steps in (45, 50):
                said = run(trained + " --steps %d --rate 10" % steps, folder, programs, text)
                assert "resumed from" in said, said
                assert safetensors(best) == kept, said


if __name__ == "__main__":
    main()
