#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/mpi/experts_reference.hpp: what PyTorch computes for mixtures of experts in double, token by token.

Element i of tensor number n is cos(3 i + n) / 2, and of x, tensor 0, cos(3 i). The loss is the sum of sin(i) y[i], and
0.3 times the balance loss, and 0.1 times the z-loss; of the tokens with a mask of 1 alone. Debian: python3-torch.

  /usr/bin/python3 tests/reference/experts.py > tests/mpi/experts_reference.hpp
"""
import torch

TOKENS, FEATURES, EXPERTS, HIDDEN, SHARED = 15, 7, 6, 3, 5
GROUPS, KEPT_GROUPS = 3, 2
silu = torch.nn.functional.silu


def values(number, *shape):
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (torch.cos(3 * i + number) * (0.5 if number else 1)).reshape(shape).requires_grad_()


def choose(scores, k, groups):
    """The ids of one token, largest score first, of equal ones the lower."""
    allowed = range(EXPERTS)
    if groups:
        size = EXPERTS // GROUPS
        sums = [sum(sorted(scores[g * size : (g + 1) * size].tolist())[-2:]) for g in range(GROUPS)]
        kept = sorted(range(GROUPS), key=lambda g: (-sums[g], g))[:KEPT_GROUPS]
        allowed = [e for e in allowed if e // size in kept]
    return sorted(allowed, key=lambda e: (-scores[e].item(), e))[:k]


def run(k, sigmoid, normalized, scaling, groups, biased, shared, masked):
    x = values(0, TOKENS, FEATURES)
    router = values(1, EXPERTS, FEATURES)
    gate_up = values(2, EXPERTS, 2, HIDDEN, FEATURES)
    down = values(3, EXPERTS, FEATURES, HIDDEN)
    extra = [values(4, SHARED, FEATURES), values(5, SHARED, FEATURES), values(6, FEATURES, SHARED)]
    bias = values(7, EXPERTS).detach()
    mask = torch.tensor([0.0 if masked and t % 4 == 1 else 1.0 for t in range(TOKENS)], dtype=torch.float64)

    logits = x @ router.T
    scores = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, -1)
    counts = torch.zeros(EXPERTS, dtype=torch.float64)
    rows = []
    for t in range(TOKENS):
        ids = choose(scores[t].detach() + (bias if biased else 0), k, groups)
        weights = scores[t][ids]
        if normalized:
            weights = weights / weights.sum()
        weights = weights * scaling
        y = torch.zeros(FEATURES, dtype=torch.float64)
        for weight, e in zip(weights, ids):
            counts[e] += mask[t]
            y = y + weight * (down[e] @ (silu(gate_up[e, 0] @ x[t]) * (gate_up[e, 1] @ x[t])))
        if shared:
            y = y + extra[2] @ (silu(extra[0] @ x[t]) * (extra[1] @ x[t]))
        rows.append(y)
    y = torch.stack(rows)
    probabilities = scores / scores.sum(-1, keepdim=True)
    mean = (probabilities * mask[:, None]).sum(0) / mask.sum()
    balance = EXPERTS * ((counts / (mask.sum() * k)) * mean).sum()
    z = ((torch.logsumexp(logits, -1) ** 2) * mask).sum() / mask.sum()
    dy = torch.sin(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    ((y * dy).sum() + 0.3 * balance + 0.1 * z).backward()
    result = {"y": y, "losses": torch.stack([balance, z]), "dx": x.grad, "router": router.grad}
    result |= {"gate_up": gate_up.grad, "down": down.grad}
    if shared:
        result |= {"shared.gate": extra[0].grad, "shared.up": extra[1].grad, "shared.down": extra[2].grad}
    return {name: value.detach().reshape(-1).tolist() for name, value in result.items()}


CASES = {
    "mixtral": run(2, False, True, 1, False, False, False, False),
    "unnormalized": run(3, False, False, 1, False, False, False, True),
    "deepseek": run(3, True, True, 2.5, True, True, True, True),
}


def main():
    # REUSE-IgnoreStart
    print("// SPDX-FileCopyrightText: 2026 The Shardwise developers")
    print("// SPDX-License-Identifier: Apache-2.0")
    # REUSE-IgnoreEnd
    print("#pragma once\n")
    print(f"/// @file\n/// Made by tests/reference/experts.py with PyTorch {torch.__version__}.\n")
    print("// clang-format off\n#include <map>\n#include <string>\n#include <vector>\n")
    print("namespace shardwise::testing {\n")
    print("inline const std::map<std::string, std::map<std::string, std::vector<double>>> experts_of_pytorch{")
    for case, tensors in CASES.items():
        print(f'  {{"{case}", {{')
        for name, numbers in tensors.items():
            print(f'    {{"{name}", {{')
            for i in range(0, len(numbers), 5):
                print("      " + " ".join(f"{x!r}," for x in numbers[i : i + 5]))
            print("    }},")
        print("  }},")
    print("};\n\n}  // namespace shardwise::testing")


main()
