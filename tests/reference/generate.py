#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Computes a small Llama, Qwen, Gemma, Mixtral or DeepSeek with PyTorch, for tests/mpi/llama_reference.hpp to be compared with.

A reference is a folder with
  config.json          as Hugging Face writes it
  model.safetensors    the first weights, F32, by Hugging Face's names
  f32.safetensors, f64.safetensors
                       computed in that precision from these weights: input_ids and targets [batch, sequence], logits,
                       grad.<weight>, losses before each of the AdamW steps, final.<weight> after them

The loss is the mean cross entropy of all tokens. If config.json has output_router_logits, gradients are those of its sum
with the balance losses of the layers. Debian: python3-torch. The folders beside this file were made by
  generate.py grouped --heads 6 --kv-heads 2
  generate.py uneven --heads 5 --kv-heads 5 --features 20 --hidden 27 --vocabulary 29 --seed 1
  generate.py tied --heads 4 --kv-heads 1 --head-dim 6 --tied --scaling --theta 500 --seed 2
  generate.py qwen2 --family qwen2 --heads 6 --kv-heads 2 --theta 1000000 --seed 3
  generate.py qwen3 --family qwen3 --heads 6 --kv-heads 3 --head-dim 6 --features 20 --hidden 27 --tied --seed 4
  generate.py gemma2 --family gemma2 --heads 6 --kv-heads 2 --head-dim 6 --layers 3 --tied --seed 5
  generate.py gemma3 --family gemma3_text --heads 6 --kv-heads 2 --head-dim 6 --layers 4 --tied --theta 1000000 --seed 6
  generate.py mixtral --family mixtral --heads 6 --kv-heads 2 --experts 5 --seed 7
  generate.py qwen3_moe --family qwen3_moe --heads 6 --kv-heads 3 --head-dim 6 --features 20 --experts 7 --seed 8
  generate.py deepseek_moe --family deepseek --heads 6 --kv-heads 2 --layers 3 --experts 6 --seed 9
  generate.py deepseek --family deepseek_v3 --heads 6 --head-dim 13 --q-rank 10 --rope-dim 8 --yarn --seed 7
  generate.py deepseek_v3 --family deepseek_v3 --heads 6 --head-dim 13 --q-rank 10 --rope-dim 8 --layers 3 --experts 8 --seed 10
  generate.py deepseek_lite --family deepseek_v3 --heads 5 --head-dim 7 --features 20 --hidden 27 --seed 8
"""

import argparse
import json
import math
import os
import struct

import torch
import torch.nn.functional as F


def write_safetensors(path, tensors):
    names = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    header, blocks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors, key=lambda n: (-tensors[n].element_size(), n)):
        block = tensors[name].detach().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": names[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [offset, offset + len(block)],
        }
        offset += len(block)
        blocks.append(block)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def frequencies(config, local=False):
    dim = config["head_dim"]
    theta = config["rope_local_base_freq" if local else "rope_theta"]
    f = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    scaling = None if local else config["rope_scaling"]
    if not scaling:
        return f
    if scaling["rope_type"] == "yarn":
        # The same between the numbers whose frequencies have beta_fast and beta_slow turns.
        number = lambda turns: dim * math.log(scaling["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low = max(math.floor(number(scaling["beta_fast"])), 0)
        high = min(math.ceil(number(scaling["beta_slow"])), dim - 1)
        mix = ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        return mix * f / scaling["factor"] + (1 - mix) * f
    # Llama 3.1: long wavelengths are stretched, short ones are not, and those between are mixed.
    length = 2 * math.pi / f
    turns = scaling["original_max_position_embeddings"] / length
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    mix = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - mix) * f / scaling["factor"] + mix * f


def rotate(x, angles):  # x [batch, sequence, heads, head_dim], angles [sequence, head_dim / 2]
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def magnitude(scaling, name):  # of YaRN
    return 0.1 * scaling[name] * math.log(scaling["factor"]) + 1 if scaling else 1


def latent_heads(of, config, h, angles):  # queries, keys and values of DeepSeek's attention
    batch, length, rope = *h.shape[:2], config["qk_rope_head_dim"]
    norm = lambda x, name: rms_norm(x, of(name), 1e-6)  # whatever rms_norm_eps is

    def rotate_pairs(x):  # as in modeling_deepseek_v3.py: pairs side by side become pairs of halves
        factor = magnitude(config["rope_scaling"], "mscale") / magnitude(config["rope_scaling"], "mscale_all_dim")
        return factor * rotate(x.unflatten(-1, (rope // 2, 2)).transpose(-1, -2).flatten(-2), angles)

    if config["q_lora_rank"] is None:
        q = F.linear(h, of("self_attn.q_proj"))
    else:
        q = F.linear(norm(F.linear(h, of("self_attn.q_a_proj")), "self_attn.q_a_layernorm"), of("self_attn.q_b_proj"))
    q = q.view(batch, length, config["num_attention_heads"], -1)
    latent, shared = F.linear(h, of("self_attn.kv_a_proj_with_mqa")).split([config["kv_lora_rank"], rope], -1)
    kv = F.linear(norm(latent, "self_attn.kv_a_layernorm"), of("self_attn.kv_b_proj"))
    kv = kv.view(batch, length, config["num_attention_heads"], -1)
    own, v = kv.split([config["qk_nope_head_dim"], config["v_head_dim"]], -1)
    shared = rotate_pairs(shared[:, :, None]).expand(-1, -1, config["num_attention_heads"], -1)
    q = torch.cat([q[..., : config["qk_nope_head_dim"]], rotate_pairs(q[..., config["qk_nope_head_dim"] :])], -1)
    return q, torch.cat([own, shared], -1), v


def rms_norm(x, weight, epsilon):
    return x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt() * weight


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def capped(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def mixture(of, config, h):
    """The result of a layer's experts, and its balance loss, which is k if all are used evenly."""
    mixtral = config["model_type"] == "mixtral"
    prefix, (gate, up, down) = (
        ("block_sparse_moe", ("w1", "w3", "w2")) if mixtral else ("mlp", ("gate_proj", "up_proj", "down_proj"))
    )
    k, x = config["num_experts_per_tok"], h.flatten(0, 1)
    swiglu = lambda x, name: F.linear(
        F.silu(F.linear(x, of(f"{name}.{gate}"))) * F.linear(x, of(f"{name}.{up}")), of(f"{name}.{down}")
    )
    logits = F.linear(x, of(f"{prefix}.gate"))
    if config.get("scoring_func") == "sigmoid":  # the best groups, by their two best experts; a bias chooses alone
        scores, groups = logits.sigmoid(), config["n_group"]
        choice = (scores + of("mlp.gate.e_score_correction_bias")).view(len(x), groups, -1)
        kept = choice.topk(2).values.sum(-1).topk(config["topk_group"]).indices
        allowed = torch.zeros(len(x), groups, dtype=torch.bool).scatter(1, kept, True)
        chosen = choice.masked_fill(~allowed[..., None], -math.inf).flatten(1).topk(k).indices
        weights = scores.gather(1, chosen)
    else:
        scores = logits.softmax(-1)
        weights, chosen = scores.topk(k)
    if mixtral or config["norm_topk_prob"]:
        weights = weights / weights.sum(-1, keepdim=True)
    weights = weights * config.get("routed_scaling_factor", 1)
    y, count = torch.zeros_like(x), scores.shape[-1]
    for expert in range(count):
        token, place = torch.where(chosen == expert)
        z = swiglu(x[token], f"{prefix}.experts.{expert}") * weights[token, place, None]
        y = y.index_add(0, token, z)
    if config.get("n_shared_experts"):
        y = y + swiglu(x, "mlp.shared_experts")
    share = F.one_hot(chosen, count).sum(1).to(x.dtype).mean(0)
    return y.view_as(h), count * (share * scores.mean(0)).sum()


def logits(w, config, ids):
    return logits_and_balance(w, config, ids)[0]


def logits_and_balance(w, config, ids):
    """And the sum of the balance losses."""
    balance = 0
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    gemma, window = config["model_type"].startswith("gemma"), config.get("sliding_window")
    batch, length = ids.shape
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    x = w["model.embed_tokens.weight"][ids]
    if gemma:
        x = x * math.sqrt(config["hidden_size"])
    for layer in range(config["num_hidden_layers"]):
        of = lambda name: w.get(f"model.layers.{layer}.{name}.weight", w.get(f"model.layers.{layer}.{name}"))
        norm = lambda x, name: rms_norm(x, of(name) + (1 if gemma else 0), config["rms_norm_eps"])
        local = gemma and config["layer_types"][layer] == "sliding_attention"
        angles = positions * frequencies(config, local and "rope_local_base_freq" in config)
        h = norm(x, "input_layernorm")
        if "kv_lora_rank" in config:
            q, k, v = latent_heads(of, config, h, angles)
            dim = q.shape[-1] / magnitude(config["rope_scaling"], "mscale_all_dim") ** 4
        else:
            q, k, v = (
                F.linear(h, of(f"self_attn.{n}_proj"), w.get(f"model.layers.{layer}.self_attn.{n}_proj.bias"))
                .view(batch, length, -1, dim)
                for n in ("q", "k", "v")
            )
            if f"model.layers.{layer}.self_attn.q_norm.weight" in w:
                q, k = norm(q, "self_attn.q_norm"), norm(k, "self_attn.k_norm")
            q, k = rotate(q, angles), rotate(k, angles)
            k, v = (t.repeat_interleave(heads // kv_heads, dim=2) for t in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(config.get("query_pre_attn_scalar", dim))
        scores = capped(scores, config.get("attn_logit_softcapping"))
        hidden_keys = torch.ones(length, length, dtype=torch.bool).triu(1)
        if local:
            hidden_keys |= torch.ones(length, length, dtype=torch.bool).tril(-window)
        weights = scores.masked_fill(hidden_keys, -math.inf).softmax(-1)
        attended = torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, -1)
        y = F.linear(attended, of("self_attn.o_proj"))
        x = x + (norm(y, "post_attention_layernorm") if gemma else y)
        h = norm(x, "pre_feedforward_layernorm" if gemma else "post_attention_layernorm")
        if is_mixture(config, layer):
            y, loss = mixture(of, config, h)
            x, balance = x + y, balance + loss
            continue
        activation = gelu_tanh if gemma else F.silu
        hidden = activation(F.linear(h, of("mlp.gate_proj"))) * F.linear(h, of("mlp.up_proj"))
        y = F.linear(hidden, of("mlp.down_proj"))
        x = x + (norm(y, "post_feedforward_layernorm") if gemma else y)
    x = rms_norm(x, w["model.norm.weight"] + (1 if gemma else 0), config["rms_norm_eps"])
    y = F.linear(x, w["model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"])
    return capped(y, config.get("final_logit_softcapping")), balance


def is_mixture(config, layer):
    return "num_experts_per_tok" in config and layer >= config.get("first_k_dense_replace", 0)


def expert_shapes(config):
    features, mixtral = config["hidden_size"], config["model_type"] == "mixtral"
    hidden = config["intermediate_size"] if mixtral else config["moe_intermediate_size"]
    count = next(config[k] for k in ("num_local_experts", "num_experts", "n_routed_experts") if k in config)
    p, names = ("block_sparse_moe.", ("w1", "w3", "w2")) if mixtral else ("mlp.", ("gate_proj", "up_proj", "down_proj"))
    shapes = {p + "gate": (count, features)}
    mlps = {f"experts.{e}": hidden for e in range(count)}
    if "n_shared_experts" in config:
        mlps["shared_experts"] = hidden * config["n_shared_experts"]
    for mlp, size in mlps.items():
        sizes = ((size, features), (size, features), (features, size))
        shapes |= {f"{p}{mlp}.{name}": shape for name, shape in zip(names, sizes)}
    return shapes


def first_weights(config, generator):
    features, hidden = config["hidden_size"], config["intermediate_size"]
    gemma = config["model_type"].startswith("gemma")
    q, kv = (config[n] * config["head_dim"] for n in ("num_attention_heads", "num_key_value_heads"))
    shapes = {"model.embed_tokens": (config["vocab_size"], features), "model.norm": (features,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head"] = (config["vocab_size"], features)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        shapes |= {p + "input_layernorm": (features,), p + "post_attention_layernorm": (features,)}
        if "kv_lora_rank" in config:
            heads, q_rank, kv_rank = (config[n] for n in ("num_attention_heads", "q_lora_rank", "kv_lora_rank"))
            own, rope, value = (config[n] for n in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
            a = p + "self_attn."
            if q_rank is None:
                shapes |= {a + "q_proj": (heads * (own + rope), features)}
            else:
                shapes |= {a + "q_a_proj": (q_rank, features), a + "q_a_layernorm": (q_rank,)}
                shapes |= {a + "q_b_proj": (heads * (own + rope), q_rank)}
            shapes |= {a + "kv_a_proj_with_mqa": (kv_rank + rope, features), a + "kv_a_layernorm": (kv_rank,)}
            shapes |= {a + "kv_b_proj": (heads * (own + value), kv_rank), a + "o_proj": (features, heads * value)}
        else:
            shapes |= {p + "self_attn.q_proj": (q, features), p + "self_attn.o_proj": (features, q)}
            shapes |= {p + "self_attn.k_proj": (kv, features), p + "self_attn.v_proj": (kv, features)}
        if is_mixture(config, layer):
            shapes |= {p + name: shape for name, shape in expert_shapes(config).items()}
        else:
            shapes |= {p + "mlp.gate_proj": (hidden, features), p + "mlp.up_proj": (hidden, features)}
            shapes |= {p + "mlp.down_proj": (features, hidden)}
        if gemma:
            shapes |= {p + f"{n}_feedforward_layernorm": (features,) for n in ("pre", "post")}
        if config["model_type"] in ("qwen3", "qwen3_moe", "gemma3_text"):
            shapes |= {p + f"self_attn.{n}_norm": (config["head_dim"],) for n in ("q", "k")}
    weights = {}
    for name, shape in shapes.items():
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        x = 1 + 0.1 * x if len(shape) == 1 and not gemma else 0.1 * x
        weights[name + ".weight"] = x.to(torch.float32)
    if config.get("topk_method") == "noaux_tc":
        for name in [n for n in weights if n.endswith("mlp.gate.weight")]:
            x = torch.randn(len(weights[name]), generator=generator, dtype=torch.float64)
            weights[name.replace("weight", "e_score_correction_bias")] = (0.1 * x).to(torch.float32)
    if config["model_type"] == "qwen2":
        for name in [n for n in weights if n.split(".")[-2] in ("q_proj", "k_proj", "v_proj")]:
            x = torch.randn(len(weights[name]), generator=generator, dtype=torch.float64)
            weights[name.replace(".weight", ".bias")] = (0.1 * x).to(torch.float32)
    return weights


def compute(config, first, ids, targets, dtype):
    trained = lambda name: not name.endswith("e_score_correction_bias")
    w = {name: x.to(dtype, copy=True).requires_grad_(trained(name)) for name, x in first.items()}
    settings = config["reference"]
    adamw = torch.optim.AdamW([x for x in w.values() if x.requires_grad], lr=settings["lr"], weight_decay=settings["wd"])
    result, losses = {"input_ids": ids, "targets": targets}, []
    for step in range(settings["steps"]):
        y, balance = logits_and_balance(w, config, ids)
        loss = F.cross_entropy(y.flatten(0, 1), targets.flatten())
        adamw.zero_grad()
        factor = config["router_aux_loss_coef"] if config.get("output_router_logits") else 0
        (loss + factor * balance).backward()
        losses.append(loss.item())
        if step == 0:
            result["logits"] = y
            result |= {"grad." + name: x.grad.clone() for name, x in w.items() if x.requires_grad}
        adamw.step()
    result["losses"] = torch.tensor(losses, dtype=dtype)
    return result | {"final." + name: x for name, x in w.items()}


def main():
    names = dict(llama="Llama", qwen2="Qwen2", qwen3="Qwen3", gemma2="Gemma2", gemma3_text="Gemma3", deepseek_v3="DeepseekV3")
    names |= dict(mixtral="Mixtral", qwen3_moe="Qwen3Moe", deepseek="Deepseek")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    sizes = dict(features=24, layers=2, heads=4, kv_heads=4, hidden=36, vocabulary=31, sequence=7, batch=2, seed=0, steps=3, experts=0)
    for name, value in sizes.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--head-dim", type=int, help="features / heads if not given")
    parser.add_argument("--theta", type=float, default=10000.0)
    parser.add_argument("--scaling", action="store_true", help="scale the rotary embeddings as Llama 3.1 does")
    parser.add_argument("--family", default="llama", choices=names.keys())
    parser.add_argument("--q-rank", type=int, help="queries of DeepSeek are projected from latents")
    parser.add_argument("--rope-dim", type=int, default=4, help="numbers of a head of DeepSeek that are rotated")
    parser.add_argument("--yarn", action="store_true", help="scale the rotary embeddings as DeepSeek-V3 does")
    parser.add_argument("--tied", action="store_true", help="the head is the embedding's table")
    a = parser.parse_args()
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    config = dict(
        architectures=["LlamaForCausalLM"],
        model_type="llama",
        hidden_act="silu",
        hidden_size=a.features,
        intermediate_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.heads,
        num_key_value_heads=a.kv_heads,
        head_dim=a.head_dim or a.features // a.heads,
        vocab_size=a.vocabulary,
        rms_norm_eps=1e-5,
        rope_theta=a.theta,
        rope_scaling=scaling | dict(original_max_position_embeddings=16) if a.scaling else None,
        tie_word_embeddings=a.tied,
        max_position_embeddings=a.sequence,
        torch_dtype="float32",
        reference=dict(torch=torch.__version__, seed=a.seed, steps=a.steps, lr=1e-2, wd=0.1),
    )
    config |= dict(model_type=a.family, architectures=[names[a.family] + "ForCausalLM"])
    if a.family.startswith("gemma"):
        every = 2 if a.family == "gemma2" else 3
        kinds = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(a.layers)]
        # Caps as small as the scores and logits of such weights.
        caps = dict(attn_logit_softcapping=0.3, final_logit_softcapping=0.8) if a.family == "gemma2" else {}
        config |= dict(hidden_activation="gelu_pytorch_tanh", sliding_window=3, layer_types=kinds)
        config |= dict(query_pre_attn_scalar=5) | caps
        if a.family == "gemma3_text":
            config |= dict(rope_local_base_freq=100.0, sliding_window_pattern=every)
        config.pop("hidden_act")
    balance = dict(output_router_logits=True, router_aux_loss_coef=0.3)
    if a.family == "mixtral":
        config |= dict(num_local_experts=a.experts, num_experts_per_tok=2, output_router_logits=False)
    if a.family == "qwen3_moe":
        config |= dict(num_experts=a.experts, num_experts_per_tok=3, moe_intermediate_size=9, norm_topk_prob=True) | balance
    if a.family == "deepseek":
        config |= dict(n_routed_experts=a.experts, num_experts_per_tok=2, moe_intermediate_size=7, norm_topk_prob=False)
        config |= dict(n_shared_experts=2, first_k_dense_replace=1, moe_layer_freq=1, routed_scaling_factor=1.5)
        config |= dict(scoring_func="softmax", topk_method="greedy")
    if a.family == "deepseek_v3":
        config |= dict(num_key_value_heads=a.heads, q_lora_rank=a.q_rank, kv_lora_rank=9, v_head_dim=5)
        config |= dict(qk_nope_head_dim=config["head_dim"] - a.rope_dim, qk_rope_head_dim=a.rope_dim)
        config |= dict(head_dim=a.rope_dim, rope_interleave=True)
        if a.experts:
            config |= dict(n_routed_experts=a.experts, num_experts_per_tok=3, moe_intermediate_size=7, norm_topk_prob=True)
            config |= dict(n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1, routed_scaling_factor=2.5)
            config |= dict(scoring_func="sigmoid", topk_method="noaux_tc", n_group=4, topk_group=2)
        if a.yarn:
            yarn = dict(rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.25, mscale=0.7, mscale_all_dim=1.0)
            config |= dict(rope_scaling=yarn | dict(original_max_position_embeddings=16))
    generator = torch.Generator().manual_seed(a.seed)
    first = first_weights(config, generator)
    ids = torch.randint(a.vocabulary, (a.batch, a.sequence + 1), generator=generator)
    os.makedirs(a.folder, exist_ok=True)
    with open(os.path.join(a.folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
        file.write("\n")
    write_safetensors(os.path.join(a.folder, "model.safetensors"), first)
    for name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        tensors = compute(config, first, ids[:, :-1], ids[:, 1:], dtype)
        write_safetensors(os.path.join(a.folder, name + ".safetensors"), tensors)
        print(name, "losses", tensors["losses"].tolist())


if __name__ == "__main__":
    main()
