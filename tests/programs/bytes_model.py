# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Makes a folder with a random Llama of bytes, as others publish models: its table has more rows than its tokenizer has ids,
one id is missing among these, and one token makes all logits NaN."""

import array
import json
import os
import random
import struct

ROWS, HOLE, LAST, POISON = 310, 280, 290, 7  # of the table; without a token; the last token; whose row is NaN
FEATURES, HIDDEN, HEADS, LAYERS = 32, 64, 4, 2


def characters():
    """A printable character for each byte, as GPT-2's tokenizer has them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {byte: chr(byte if byte in plain else 256 + sorted(set(range(256)) - set(plain)).index(byte)) for byte in range(256)}


def write_tokenizer(folder):
    vocabulary = {character: byte for byte, character in characters().items()}
    for token in range(256, LAST + 1):
        if token != HOLE:
            vocabulary["w%d" % token] = token
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "post_processor": None, "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)


def write_model(folder, context, template=None):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": FEATURES,
                   "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
                   "num_key_value_heads": HEADS, "vocab_size": ROWS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "max_position_embeddings": context, "torch_dtype": "float32"}, file)
    write_tokenizer(folder)
    if template is not None:
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(template)
    draw = random.Random(1)
    tensors = {"model.embed_tokens.weight": (ROWS, FEATURES), "lm_head.weight": (ROWS, FEATURES), "model.norm.weight": (FEATURES,)}
    for layer in range(LAYERS):
        name = "model.layers.%d." % layer
        for part in "qkvo":
            tensors[name + "self_attn.%s_proj.weight" % part] = (FEATURES, FEATURES)
        tensors[name + "mlp.gate_proj.weight"] = tensors[name + "mlp.up_proj.weight"] = (HIDDEN, FEATURES)
        tensors[name + "mlp.down_proj.weight"] = (FEATURES, HIDDEN)
        tensors[name + "input_layernorm.weight"] = tensors[name + "post_attention_layernorm.weight"] = (FEATURES,)
    header, data = {}, b""
    for name, shape in tensors.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = array.array("f", [draw.gauss(0, 0.5) if len(shape) == 2 else 1.0 for _ in range(count)])
        if name == "model.embed_tokens.weight":
            values[POISON * FEATURES] = float("nan")
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
