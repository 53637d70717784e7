#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Trains adapters of the Llama in the folder grouped with PyTorch, for tests/mpi/lora_test.cpp to be compared with.

The folder lora, which this makes, has
  adapter_config.json, adapter_model.safetensors
  reference.json: what the steps were made with
                       as PEFT writes them: the first adapters, F32
  f64.safetensors      computed in that precision: input_ids and targets [batch, sequence], logits, grad.<adapter>, losses
                       before each of the AdamW steps, final.<adapter> after them

A row-wise and a column-wise layer of attention and of the MLP are adapted, all else is as given. Debian: python3-torch.
"""

import json
import os

import torch
import torch.nn.functional as F

from generate import logits, write_safetensors

here = os.path.dirname(os.path.abspath(__file__))
rank, alpha, seed, steps, rate, decay = 3, 6, 4, 3, 1e-2, 0.1
targets = {"q_proj": "self_attn", "v_proj": "self_attn", "o_proj": "self_attn", "down_proj": "mlp"}


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, about in json.loads(data[8:end]).items():
        if name == "__metadata__":
            continue
        assert about["dtype"] == "F32"
        begin, stop = about["data_offsets"]
        block = bytearray(data[end + begin : end + stop])
        tensors[name] = torch.frombuffer(block, dtype=torch.float32).reshape(about["shape"])
    return tensors


def main():
    with open(os.path.join(here, "grouped", "config.json")) as file:
        config = json.load(file)
    given = {n: w.double() for n, w in read_safetensors(os.path.join(here, "grouped", "model.safetensors")).items()}
    generator = torch.Generator().manual_seed(seed)
    first = {}
    for layer in range(config["num_hidden_layers"]):
        for target, part in targets.items():
            module = f"model.layers.{layer}.{part}.{target}"
            out, features = given[module + ".weight"].shape
            for name, shape in (("lora_A", (rank, features)), ("lora_B", (out, rank))):
                x = 0.1 * torch.randn(shape, generator=generator, dtype=torch.float64)
                first[f"base_model.model.{module}.{name}.weight"] = x.to(torch.float32)
    ids = torch.randint(config["vocab_size"], (4, 8), generator=generator)
    ids, wanted = ids[:, :-1], ids[:, 1:]

    adapters = {name: x.double().requires_grad_() for name, x in first.items()}
    adamw = torch.optim.AdamW(adapters.values(), lr=rate, weight_decay=decay)
    result, losses = {"input_ids": ids, "targets": wanted}, []
    for step in range(steps):
        w = dict(given)
        for name in adapters:
            if ".lora_A." in name:
                weight = name.removeprefix("base_model.model.").replace(".lora_A.", ".")
                w[weight] = given[weight] + alpha / rank * adapters[name.replace("lora_A", "lora_B")] @ adapters[name]
        y = logits(w, config, ids)
        loss = F.cross_entropy(y.flatten(0, 1), wanted.flatten())
        adamw.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result["logits"] = y
            result |= {"grad." + name: x.grad.clone() for name, x in adapters.items()}
        adamw.step()
    result["losses"] = torch.tensor(losses, dtype=torch.float64)
    result |= {"final." + name: x for name, x in adapters.items()}

    folder = os.path.join(here, "lora")
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, "adapter_model.safetensors"), first)
    write_safetensors(os.path.join(folder, "f64.safetensors"), result)
    about = dict(
        base_model_name_or_path="grouped",
        bias="none",
        fan_in_fan_out=False,
        inference_mode=True,
        lora_alpha=alpha,
        lora_dropout=0.0,
        modules_to_save=None,
        peft_type="LORA",
        r=rank,
        target_modules=list(targets),
        task_type="CAUSAL_LM",
    )
    settings = dict(torch=torch.__version__, seed=seed, steps=steps, lr=rate, wd=decay)
    for name, values in ("adapter_config.json", about), ("reference.json", settings):
        with open(os.path.join(folder, name), "w") as file:
            json.dump(values, file, indent=1)
            file.write("\n")
    print("losses", losses)


if __name__ == "__main__":
    main()
