"""A small GPT-2 with random weights as a Hugging Face folder, and what it computes, in float64."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.llm.models import Array, write_tensors

CONFIG: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 32,
    "n_head": 4,
    "n_layer": 2,
    "n_positions": 40,
    "vocab_size": 60,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "eos_token_id": 2,
}


def write_gpt2(folder: Path, prefix: str = "transformer.", **changes: Any) -> dict[str, Array]:
    """Write a folder; returns its weights without the prefix."""
    config = {**CONFIG, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    random, hidden = np.random.default_rng(4), config["n_embd"]
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config["vocab_size"], hidden),
        "wpe.weight": (config["n_positions"], hidden),
    }
    for layer in range(config["n_layer"]):
        for part, inputs, outputs in (
            ("attn.c_attn", hidden, 3 * hidden),
            ("attn.c_proj", hidden, hidden),
            ("mlp.c_fc", hidden, 4 * hidden),
            ("mlp.c_proj", 4 * hidden, hidden),
        ):
            shapes[f"h.{layer}.{part}.weight"] = (inputs, outputs)
            shapes[f"h.{layer}.{part}.bias"] = (outputs,)
    names = ["ln_f", *(f"h.{layer}.ln_{one}" for layer in range(config["n_layer"]) for one in (1, 2))]
    shapes |= {f"{name}.{part}": (hidden,) for name in names for part in ("weight", "bias")}
    found = {name: random.normal(0, 0.25, shape).astype(np.float32) for name, shape in shapes.items()}
    write_tensors(folder / "model.safetensors", {f"{prefix}{name}": array for name, array in found.items()})
    return found


def gpt2_logits(weights: dict[str, Array], ids: list[int], config: dict[str, Any] = CONFIG) -> Array:
    """[tokens, vocabulary], by the formulas of the paper."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    size = config["n_embd"] // config["n_head"]

    def norm(x: Array, name: str) -> Array:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[
            f"{name}.bias"
        ]

    def linear(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][ids] + w["wpe.weight"][: len(ids)]
    for layer in range(config["n_layer"]):
        name = f"h.{layer}"
        q, k, v = np.split(linear(norm(x, f"{name}.ln_1"), f"{name}.attn.c_attn"), 3, axis=1)
        context = np.empty_like(q)
        for head in range(config["n_head"]):
            own = slice(head * size, (head + 1) * size)
            scores = np.where(np.tri(len(ids), dtype=bool), q[:, own] @ k[:, own].T / math.sqrt(size), -np.inf)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            context[:, own] = shares / shares.sum(-1, keepdims=True) @ v[:, own]
        x = x + linear(context, f"{name}.attn.c_proj")
        inner = linear(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        active = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + linear(active, f"{name}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T
