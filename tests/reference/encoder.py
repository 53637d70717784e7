#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Computes a small bidirectional encoder of BERT's shape with PyTorch, for tests/mpi/attention_dense_test.cpp.

Its file encoder.safetensors, beside this one, has in F64: weight.<parameter>, by the paths of the test's modules;
input_ids, position_ids, segment_ids, documents (0, and -1 for padding) and targets (-100 for padding), [batch, sequence];
hidden, what comes out of the layers, 0 for padding; loss; grad.<parameter>. Debian: python3-torch.
"""

import os

import torch
import torch.nn.functional as F

from generate import write_safetensors

FEATURES, HEADS, HIDDEN, LAYERS, VOCABULARY, LENGTHS, SEQUENCE = 15, 5, 22, 2, 17, (8, 5, 1), 8


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, FEATURES)
        self.positions = torch.nn.Embedding(SEQUENCE, FEATURES)
        self.segments = torch.nn.Embedding(2, FEATURES)
        self.norm = torch.nn.LayerNorm(FEATURES, eps=1e-12)
        layer = torch.nn.TransformerEncoderLayer(
            FEATURES, HEADS, HIDDEN, dropout=0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(FEATURES, VOCABULARY)

    def forward(self, ids, positions, segments, padding):
        x = self.norm(self.words(ids) + self.positions(positions) + self.segments(segments))
        return self.layers(x, src_key_padding_mask=padding)


NAMES = {
    "self_attn.out_proj.": "attention.wo.",
    "linear1.": "mlp.up.",
    "linear2.": "mlp.down.",
    "norm1.": "attention_norm.",
    "norm2.": "mlp_norm.",
    "layers.layers.": "layers.",
}


def by_our_names(tensors, prefix):
    result = {}
    for name, x in tensors:
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        if "in_proj_" in name:
            for part, block in zip("qkv", x.chunk(3)):
                result[prefix + name.replace("self_attn.in_proj_", f"attention.w{part}.")] = block
        else:
            result[prefix + name] = x
    return result


def main():
    torch.manual_seed(0)
    model = Encoder().double()
    for x in model.parameters():
        torch.nn.init.normal_(x, std=0.5)
    shape = (len(LENGTHS), SEQUENCE)
    padding = torch.arange(SEQUENCE) >= torch.tensor(LENGTHS)[:, None]
    ids = torch.randint(VOCABULARY, shape)
    positions = torch.arange(SEQUENCE).expand(shape)
    segments = torch.randint(2, shape)
    targets = torch.randint(VOCABULARY, shape).masked_fill(padding, -100)
    hidden = model(ids, positions, segments, padding).masked_fill(padding[..., None], 0)
    loss = F.cross_entropy(model.head(hidden).flatten(0, 1), targets.flatten())
    loss.backward()
    print("loss", loss.item())
    tensors = dict(input_ids=ids, position_ids=positions, segment_ids=segments, documents=-padding.long())
    tensors |= dict(targets=targets, hidden=hidden, loss=loss)
    tensors |= by_our_names(model.named_parameters(), "weight.")
    tensors |= by_our_names(((name, x.grad) for name, x in model.named_parameters()), "grad.")
    write_safetensors(os.path.join(os.path.dirname(os.path.abspath(__file__)), "encoder.safetensors"), tensors)


if __name__ == "__main__":
    main()
