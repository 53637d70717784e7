#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The training step of a mixture of experts on 2 and 4 ranks: benchmarks/experts --step beside PyTorch's processes over
gloo, in turn: what counts is the median of the ratios of neighbours. PyTorch has the usual loop over experts, and each of two
ways to exchange tokens: all_to_all of those that another rank needs, and all_gather of all with an all_reduce of the results
(gloo has no reduce_scatter); the faster one counts. Usage: experts.py BUILD/benchmarks/experts [pairs]. Debian: python3-torch"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F

SIZES = ({"experts": 8, "choices": 2, "features": 1024, "hidden": 1024, "tokens": 1024}, {"experts": 64, "choices": 8, "features": 1024, "hidden": 256, "tokens": 1024})


class Exchange(torch.autograd.Function):
    """Rows to other ranks: counts[r] of them to rank r."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.counts = sent, received
        y = x.new_empty(sum(received), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), received, sent)
        return y

    @staticmethod
    def backward(ctx, dy):
        sent, received = ctx.counts
        dx = dy.new_empty(sum(sent), dy.shape[1])
        dist.all_to_all_single(dx, dy.contiguous(), sent, received)
        return dx, None, None


class Gather(torch.autograd.Function):
    """The rows of all ranks, and the sum of their gradients; or the other way round if not `forth`."""

    @staticmethod
    def forward(ctx, x, forth):
        ctx.forth = forth
        return gathered(x) if forth else summed(x)

    @staticmethod
    def backward(ctx, dy):
        return (summed(dy) if ctx.forth else gathered(dy)), None


def gathered(x):
    blocks = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(blocks, x.contiguous())
    return torch.cat(blocks)


def summed(x):
    x = x.clone()
    dist.all_reduce(x)
    return x.tensor_split(dist.get_world_size())[dist.get_rank()]


class Mixture(torch.nn.Module):
    def __init__(self, o):
        super().__init__()
        matrix = lambda *shape: torch.nn.Parameter(torch.randn(*shape) * 0.02)
        self.o, self.local = o, o.experts // o.ranks
        self.router = matrix(o.experts, o.features)
        self.gate_up = torch.nn.ParameterList([matrix(2 * o.hidden, o.features) for _ in range(self.local)])
        self.down = torch.nn.ParameterList([matrix(o.features, o.hidden) for _ in range(self.local)])

    def expert(self, e, x):
        gate, up = F.linear(x, self.gate_up[e]).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down[e])

    def forward(self, x):
        if self.o.exchange == "all_gather":
            x = Gather.apply(x, True)
        top, ids = F.linear(x, self.router).softmax(-1).topk(self.o.choices)
        weights = top / top.sum(-1, keepdim=True)
        if self.o.exchange == "all_gather":
            y = torch.zeros_like(x)
            for e in range(self.local):
                token, choice = torch.where(ids == dist.get_rank() * self.local + e)
                y = y.index_add(0, token, self.expert(e, x[token]) * weights[token, choice, None])
            return Gather.apply(y, False)
        order = ids.flatten().argsort()
        token = order // self.o.choices
        counts = torch.bincount(ids.flatten(), minlength=self.o.experts)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        sent, received = (c.view(self.o.ranks, -1).sum(1).tolist() for c in (counts, theirs))
        rows = Exchange.apply(x[token], sent, received)
        blocks = rows.split(theirs.tolist())  # by rank, then by expert
        results = [None] * len(blocks)
        for e in range(self.local):
            mine = blocks[e :: self.local]
            results[e :: self.local] = self.expert(e, torch.cat(mine)).split([len(b) for b in mine])
        back = Exchange.apply(torch.cat(results), received, sent)
        return torch.zeros_like(x).index_add(0, token, back * weights.flatten()[order, None])


def work(rank, o):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(o.port), GLOO_SOCKET_IFNAME="lo")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=o.ranks)
    torch.manual_seed(3 + rank)
    model = Mixture(o)
    dist.broadcast(model.router.data, 0)
    adamw = torch.optim.AdamW(model.parameters())
    x, dy = torch.randn(2, o.tokens // o.ranks, o.features)
    x.requires_grad_()
    times = []
    for step in range(2 + o.repetitions):
        dist.barrier()
        begin = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        x.grad = None
        model(x).backward(dy)
        if o.exchange != "all_gather":
            dist.all_reduce(model.router.grad)
        passes = time.perf_counter()
        adamw.step()
        if step >= 2:
            times.append((time.perf_counter() - begin, passes - begin))
    results = torch.tensor([statistics.median(column) for column in zip(*times)], dtype=torch.float64)
    dist.all_reduce(results, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(json.dumps({"step": results[0].item(), "passes": results[1].item()}))
    dist.barrier()
    dist.destroy_process_group()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(program, pairs):
    os.environ["OMP_NUM_THREADS"] = "1"
    for ranks in (2, 4):
        binding = "core" if (os.cpu_count() or 1) >= ranks else "none"
        for sizes in SIZES:
            options = [word for name, value in sizes.items() for word in (f"--{name}", str(value))] + ["--repetitions", "8"]
            ours = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", binding, program, "--step"] + options
            theirs = [sys.executable, os.path.abspath(__file__), "--worker", "--ranks", str(ranks)] + options
            commands = [ours, theirs + ["--exchange", "all_to_all"], theirs + ["--exchange", "all_gather"]]
            results = [[run(command) for command in commands[:: 1 if pair % 2 == 0 else -1]][:: 1 if pair % 2 == 0 else -1] for pair in range(pairs)]
            print(f"{sizes} on {ranks} ranks of one thread")
            for name in ("passes", "step"):
                times = [1000 * statistics.median(r[i][name] for r in results) for i in range(3)]
                ratios = sorted(min(r[1][name], r[2][name]) / r[0][name] for r in results)
                print(f"  {name:7} Shardwise {times[0]:7.1f} ms   PyTorch all_to_all {times[1]:7.1f} ms, all_gather {times[2]:7.1f} ms   "
                      f"faster PyTorch / Shardwise {statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]", flush=True)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        parser = argparse.ArgumentParser()
        for name in ("experts", "choices", "features", "hidden", "tokens", "ranks", "repetitions"):
            parser.add_argument("--" + name, type=int)
        parser.add_argument("--exchange")
        parser.add_argument("--port", type=int, default=29519)
        parser.add_argument("--worker", action="store_true")
        options = parser.parse_args()
        torch.multiprocessing.spawn(work, args=(options,), nprocs=options.ranks)
    else:
        compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
