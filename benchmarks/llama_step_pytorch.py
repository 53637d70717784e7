#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The training step of benchmarks/llama_step.cpp in PyTorch: the same model, with the same tensor parallelism between two
processes over gloo, or in DistributedDataParallel. Prints the same line of JSON. Debian: python3-torch."""

import argparse
import json
import math
import os
import resource
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F


class Enter(torch.autograd.Function):
    """A replicated value before different work on each rank: the gradient is summed."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Leave(torch.autograd.Function):
    """The terms of all ranks, summed in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ClassParallelLoss(torch.autograd.Function):
    """The mean cross entropy of logits of which each rank has some classes, from `first` on."""

    @staticmethod
    def forward(ctx, logits, targets, first):
        maximum = logits.amax(-1)
        dist.all_reduce(maximum, op=dist.ReduceOp.MAX)
        p = (logits - maximum[:, None]).exp_()
        local = targets - first
        here = (local >= 0) & (local < logits.shape[-1])
        local = local.clamp(0, logits.shape[-1] - 1)
        chosen = logits.gather(-1, local[:, None])[:, 0] * here
        sums = torch.stack([p.sum(-1), chosen])
        dist.all_reduce(sums)
        ctx.save_for_backward(p, sums[0], local, here)
        return (maximum + sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx, gradient):
        p, total, local, here = ctx.saved_tensors
        scale = gradient / len(total)
        d = p.mul_((scale / total)[:, None])
        d.scatter_add_(-1, local[:, None], (-scale * here.to(d.dtype))[:, None])
        return d, None, None


def rms_norm(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate(x, cos, sin):  # [batch, heads, sequence, head_dim]
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Model(torch.nn.Module):
    """This rank's part of the model: heads, hidden features and words are split."""

    def __init__(self, o, ranks, rank):
        super().__init__()
        identity = lambda x: x
        self.split = ranks > 1
        self.enter, self.leave = (Enter.apply, Leave.apply) if self.split else (identity, identity)
        self.head_dim = o.features // o.heads
        self.heads, self.kv_heads = o.heads // ranks, o.kv_heads // ranks
        self.first, self.words = rank * (o.vocabulary // ranks), o.vocabulary // ranks
        generator = torch.Generator().manual_seed(3 + rank)
        matrix = lambda rows, columns: torch.nn.Parameter(0.02 * torch.randn(rows, columns, generator=generator))
        gain = lambda: torch.nn.Parameter(torch.ones(o.features))
        self.table, self.head, self.norm = matrix(self.words, o.features), matrix(self.words, o.features), gain()
        self.layers = torch.nn.ModuleList()
        q, kv, hidden = self.heads * self.head_dim, self.kv_heads * self.head_dim, o.hidden // ranks
        for _ in range(o.layers):
            layer = torch.nn.Module()
            layer.norm1, layer.norm2 = gain(), gain()
            layer.wq, layer.wk, layer.wv = matrix(q, o.features), matrix(kv, o.features), matrix(kv, o.features)
            layer.wo = matrix(o.features, q)
            layer.gate, layer.up, layer.down = matrix(hidden, o.features), matrix(hidden, o.features), matrix(o.features, hidden)
            self.layers.append(layer)
        angles = torch.arange(o.sequence)[:, None] * 10000.0 ** (-torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.cat([angles, angles], dim=-1)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.mask = torch.full((o.sequence, o.sequence), -math.inf).triu(1)

    def attention(self, layer, x):
        batch, length, _ = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.head_dim).transpose(1, 2)
        q = rotate(split(F.linear(x, layer.wq), self.heads), self.cos, self.sin)
        k = rotate(split(F.linear(x, layer.wk), self.kv_heads), self.cos, self.sin)
        v = split(F.linear(x, layer.wv), self.kv_heads)
        if self.kv_heads != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        p = (q @ k.transpose(-1, -2) / math.sqrt(self.head_dim) + self.mask).softmax(-1)
        return F.linear((p @ v).transpose(1, 2).reshape(batch, length, -1), layer.wo)

    def forward(self, ids, targets):
        if self.split:
            local = ids - self.first
            here = (local >= 0) & (local < self.words)
            x = Leave.apply(F.embedding(local.clamp(0, self.words - 1), self.table) * here[..., None])
        else:
            x = F.embedding(ids, self.table)
        for layer in self.layers:
            x = x + self.leave(self.attention(layer, self.enter(rms_norm(x, layer.norm1))))
            h = self.enter(rms_norm(x, layer.norm2))
            x = x + self.leave(F.linear(F.silu(F.linear(h, layer.gate)) * F.linear(h, layer.up), layer.down))
        logits = F.linear(self.enter(rms_norm(x, self.norm)), self.head)
        if not self.split:
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return ClassParallelLoss.apply(logits.flatten(0, 1), targets.flatten(), self.first)


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def work(rank, o):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(o.port), GLOO_SOCKET_IFNAME="lo")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=o.ranks)
    at_start = peak_megabytes()
    model = Model(o, o.ranks, rank) if o.mode == "tp" else Model(o, 1, 0)
    adamw = torch.optim.AdamW(model.parameters())
    generator = torch.Generator().manual_seed(7)
    ids, targets = torch.randint(o.vocabulary, (2, o.batch, o.sequence), generator=generator)
    if o.mode == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
        ids, targets = (x.tensor_split(o.ranks)[rank] for x in (ids, targets))
    times, first_loss = [], None
    for step in range(2 + o.steps):
        dist.barrier()
        begin = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        loss = model(ids, targets)
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        adamw.step()
        end = time.perf_counter()
        first_loss = first_loss or loss.item()
        if step >= 2:
            times.append((end - begin, forward - begin, backward - forward, end - backward))
    results = [statistics.median(column) for column in zip(*times)]
    results = torch.tensor(results + [peak_megabytes(), peak_megabytes() - at_start], dtype=torch.float64)
    dist.all_reduce(results, op=dist.ReduceOp.MAX)
    if rank == 0:
        names = ("step", "forward", "backward", "optimizer", "peak_mb", "own_mb")
        result = {name: round(value, 5) for name, value in zip(names, results.tolist())}
        print(json.dumps(result | {"loss": round(first_loss, 4), "gemm": f"PyTorch {torch.__version__}"}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = dict(vocabulary=32000, features=256, layers=2, heads=16, kv_heads=16, hidden=768, batch=8, sequence=256, steps=8)
    for name, value in sizes.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--mode", choices=("tp", "ddp"), default="tp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--port", type=int, default=29517)
    options = parser.parse_args()
    torch.multiprocessing.spawn(work, args=(options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
