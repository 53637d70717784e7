#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/mpi/optim_reference.hpp: what PyTorch's optimizers make of parameters in double, with groups.

Three parameters, element i of each beginning at cos(i + number); in step s, counted from 0, element i of the gradient is
sin(3 s + i + number) * 10^(i % 5 - 2). Debian: python3-torch.

  /usr/bin/python3 tests/reference/optimizers.py > tests/mpi/optim_reference.hpp
"""
import torch

SHAPES = {"weight": (5, 3), "bias": (5,), "late": (4,)}
STEPS = 6


def values(number, shape, of):
    count = torch.Size(shape).numel()
    i = torch.arange(count, dtype=torch.float64)
    return of(i, number).reshape(shape)


def run(make, rates=None):
    parameters = [
        torch.nn.Parameter(values(n, shape, lambda i, k: torch.cos(i + k))) for n, shape in enumerate(SHAPES.values())
    ]
    optimizer = make(*parameters)
    factors = [group["lr"] / optimizer.defaults["lr"] for group in optimizer.param_groups]
    for step in range(STEPS):
        if rates:
            for group, factor in zip(optimizer.param_groups, factors):
                group["lr"] = rates(step) * factor
        for n, (parameter, name) in enumerate(zip(parameters, SHAPES)):
            parameter.grad = None
            if name != "late" or step in (2, 4, 5):  # no gradient in some steps
                parameter.grad = values(
                    n, parameter.shape, lambda i, k: torch.sin(3 * step + i + k) * 10.0 ** (i % 5 - 2)
                )
        optimizer.step()
    return [parameter.detach() for parameter in parameters]


CASES = {
    "sgd": lambda *p: torch.optim.SGD(p, lr=0.05),
    "sgd_decay": lambda *p: torch.optim.SGD(p, lr=0.05, weight_decay=0.3),
    "sgd_momentum": lambda *p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "sgd_nesterov": lambda *p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
    "sgd_groups": lambda w, b, late: torch.optim.SGD(
        [{"params": [b], "momentum": 0, "lr": 0.1}, {"params": [w, late]}], lr=0.05, momentum=0.9, weight_decay=0.1
    ),
    "adamw": lambda *p: torch.optim.AdamW(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3),
    "adamw_groups": lambda w, b, late: torch.optim.AdamW(
        [{"params": [b], "weight_decay": 0}, {"params": [late], "lr": 0.01, "betas": (0.5, 0.9)}, {"params": [w]}],
        lr=0.02,
        weight_decay=0.3,
    ),
}


def main():
    # REUSE-IgnoreStart
    print("// SPDX-FileCopyrightText: 2026 The Shardwise developers\n// SPDX-License-Identifier: Apache-2.0\n#pragma once\n")
    # REUSE-IgnoreEnd
    print("/// @file\n/// Made by tests/reference/optimizers.py with PyTorch " + torch.__version__.split("+")[0] + ".\n")
    print("namespace shardwise::testing {\n")
    print("/// Three parameters after six steps.\nstruct TrainedByTorch {\n  double weight[15], bias[5], late[4];\n};\n")
    for name, make in CASES.items():
        rates = (lambda step: 0.1 / (step + 1)) if name.endswith("groups") else None
        print(f"inline constexpr TrainedByTorch torch_{name}{{")
        for tensor in run(make, rates):
            print("    {" + ", ".join(repr(float(x)) for x in tensor.reshape(-1)) + "},")
        print("};\n")
    print("}  // namespace shardwise::testing")


main()
