"""Small decoders with random weights as Hugging Face folders, and what they compute, in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CONFIG: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 2,
    "vocab_size": 60,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama3": {"model_type": "llama", "rope_scaling": LLAMA3},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 1},
    "gemma": {"model_type": "gemma", "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True},
    "gemma2": {
        "model_type": "gemma2",
        "hidden_act": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "query_pre_attn_scalar": 6,
        "attn_logit_softcapping": 4.0,
        "final_logit_softcapping": 9.0,
        "sliding_window": 5,
    },
    "gemma3": {
        "model_type": "gemma3_text",
        "hidden_act": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
        "query_pre_attn_scalar": 6,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_local_base_freq": 50.0,
    },
    "minicpm": {
        "model_type": "minicpm",
        "tie_word_embeddings": True,
        "scale_emb": 3,
        "scale_depth": 1.4,
        "dim_model_base": 8,
    },
    "granite": {
        "model_type": "granite",
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.6,
        "attention_multiplier": 0.2,
        "logits_scaling": 4.0,
    },
    "phi3": {"model_type": "phi3", "rope_scaling": None, "sliding_window": 40, "partial_rotary_factor": 1.0},
}


QK_NORMS = ("qwen3", "gemma3_text")
"""Models that normalize queries and keys."""


def config_of(kind: str) -> dict[str, Any]:
    return {**CONFIG, **KINDS[kind]}


def weights_of(config: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    wide, narrow = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        for part, outputs, inputs in (
            ("self_attn.q_proj", wide, hidden),
            ("self_attn.k_proj", narrow, hidden),
            ("self_attn.v_proj", narrow, hidden),
            ("self_attn.o_proj", hidden, wide),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ):
            shapes[f"{name}.{part}.weight"] = (outputs, inputs)
            if config["model_type"] == "qwen2" and part[-6] in "qkv":
                shapes[f"{name}.{part}.bias"] = (outputs,)
    found = {name: random.normal(0, 0.25, shape).astype(np.float32) for name, shape in shapes.items()}
    norms = ["model.norm"]
    for layer in range(config["num_hidden_layers"]):
        ends = ("pre_feedforward", "post_feedforward") if config["model_type"] in ("gemma2", "gemma3_text") else ()
        norms += [f"model.layers.{layer}.{one}_layernorm" for one in ("input", "post_attention", *ends)]
    found |= {f"{name}.weight": random.uniform(0.5, 1.5, hidden).astype(np.float32) for name in norms}
    if config["model_type"] in QK_NORMS:
        for layer in range(config["num_hidden_layers"]):
            for one in "qk":
                found[f"model.layers.{layer}.self_attn.{one}_norm.weight"] = random.uniform(0.5, 1.5, size).astype("f4")
    return found


def write_tensors(path: Path, tensors: dict[str, Array], dtype: str = "F32") -> None:
    """In the format of safetensors; BF16 by cutting float32."""
    header: dict[str, Any] = {}
    blob = b""
    for name, array in tensors.items():
        data = array.tobytes() if dtype == "F32" else (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)


def write_model(folder: Path, kind: str, **changes: Any) -> dict[str, Array]:
    """Write a folder; returns its weights."""
    config = {**config_of(kind), **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    weights = weights_of(config)
    write_tensors(folder / "model.safetensors", fused(weights) if config["model_type"] == "phi3" else weights)
    return weights


def fused(weights: dict[str, Array]) -> dict[str, Array]:
    """The weights as Phi-3 stores them."""
    found = dict(weights)
    for name in [name for name in weights if ".q_proj" in name or ".gate_proj" in name]:
        parts = ("q_proj", "k_proj", "v_proj") if ".q_proj" in name else ("gate_proj", "up_proj")
        whole = name.replace(parts[0], "qkv_proj" if ".q_proj" in name else "gate_up_proj")
        found[whole] = np.concatenate([found.pop(name.replace(parts[0], part)) for part in parts])
    return found


def frequency(config: dict[str, Any], pair: int, base: float | None = None) -> float:
    """Radians per position of a pair, with Llama 3's scaling as its authors published it."""
    plain = float((base or config["rope_theta"]) ** (-2.0 * pair / config["head_dim"]))
    rope = config.get("rope_scaling")
    if rope is None:
        return plain
    wave, original = 2 * np.pi / plain, rope["original_max_position_embeddings"]
    low, high = original / rope["low_freq_factor"], original / rope["high_freq_factor"]
    if wave < high:
        return plain
    if wave > low:
        return plain / rope["factor"]
    smooth = (original / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    return (1 - smooth) * plain / rope["factor"] + smooth * plain


def activated(gate: Array, is_gelu: bool) -> Array:
    if is_gelu:
        return 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    return gate / (1 + np.exp(-gate))


def window_of(config: dict[str, Any], layer: int, tokens: int) -> tuple[int, float | None]:
    """How many tokens a token sees, and the base of the rotary positions where it is a layer's own."""
    kinds: list[str] = config.get("layer_types", ["sliding_attention", "full_attention"] * 9)
    if config["model_type"] in ("gemma2", "gemma3_text") and kinds[layer] == "sliding_attention":
        return config["sliding_window"], config.get("rope_local_base_freq")
    return tokens, None


def multipliers(config: dict[str, Any]) -> tuple[float, float, float]:
    """Of embeddings, of what is added to the states, and of what the head reads."""
    if config["model_type"] == "minicpm":
        added = config["scale_depth"] / np.sqrt(config["num_hidden_layers"])
        return config["scale_emb"], added, config["dim_model_base"] / config["hidden_size"]
    if config["model_type"] == "granite":
        return config["embedding_multiplier"], config["residual_multiplier"], 1 / config["logits_scaling"]
    return 1.0, 1.0, 1.0


def logits(config: dict[str, Any], weights: dict[str, Array], ids: list[int]) -> Array:
    """[tokens, vocabulary], by the papers' formulas, one head after another."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    is_gemma = config["model_type"].startswith("gemma")
    is_ended = config["model_type"] in ("gemma2", "gemma3_text")
    size, heads, shared = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]

    def norm(x: Array, name: str) -> Array:
        factors = w[f"{name}.weight"] + is_gemma
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * factors

    def linear(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    def capped(x: Array, key: str) -> Array:
        cap = config.get(key)
        return x if cap is None else cap * np.tanh(x / cap)

    def ended(x: Array, name: str) -> Array:
        return norm(x, name) if is_ended else x

    def turned(x: Array, base: float | None) -> Array:
        out = np.empty_like(x)
        for position, row in enumerate(x):
            for pair in range(size // 2):
                angle = position * frequency(config, pair, base)
                a, b = row[pair], row[pair + size // 2]
                out[position, pair] = a * np.cos(angle) - b * np.sin(angle)
                out[position, pair + size // 2] = b * np.cos(angle) + a * np.sin(angle)
        return out

    of_embeddings, added, of_logits = multipliers(config)
    x = w["model.embed_tokens.weight"][ids] * of_embeddings
    if is_gemma:
        x = x * np.sqrt(config["hidden_size"])
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        window, base = window_of(config, layer, len(ids))
        h = norm(x, f"{name}.input_layernorm")
        q, k, v = (linear(h, f"{name}.self_attn.{one}_proj") for one in "qkv")
        context = np.empty_like(q)
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            theirs = slice(head // (heads // shared) * size, (head // (heads // shared) + 1) * size)
            query, key = q[:, own], k[:, theirs]
            if config["model_type"] in QK_NORMS:
                query, key = norm(query, f"{name}.self_attn.q_norm"), norm(key, f"{name}.self_attn.k_norm")
            scores = (
                turned(query, base)
                @ turned(key, base).T
                * config.get("attention_multiplier", 1 / np.sqrt(config.get("query_pre_attn_scalar", size)))
            )
            ages = np.subtract.outer(np.arange(len(ids)), np.arange(len(ids)))
            scores = np.where((ages >= 0) & (ages < window), capped(scores, "attn_logit_softcapping"), -np.inf)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            context[:, own] = shares / shares.sum(-1, keepdims=True) @ v[:, theirs]
        x = x + added * ended(linear(context, f"{name}.self_attn.o_proj"), f"{name}.post_attention_layernorm")
        h = norm(x, f"{name}.{'pre_feedforward' if is_ended else 'post_attention'}_layernorm")
        gate = linear(h, f"{name}.mlp.gate_proj")
        active = activated(gate, is_gemma)
        down = linear(active * linear(h, f"{name}.mlp.up_proj"), f"{name}.mlp.down_proj")
        x = x + added * ended(down, f"{name}.post_feedforward_layernorm")
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return capped(linear(norm(x, "model.norm") * of_logits, head), "final_logit_softcapping")
