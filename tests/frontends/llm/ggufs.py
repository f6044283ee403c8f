"""Write GGUF files of small models, with the floats that their blocks mean."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.llm.models import Array, config_of, weights_of

F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word.encode())) + word.encode()


def setting(key: str, value: Any) -> bytes:
    """Strings, whole numbers, fractions and lists of strings."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        words = [str(word) for word in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return text(key) + struct.pack("<IIQ", 9, 8, len(words)) + b"".join(map(text, words))
    return text(key) + (struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value))


def stored(array: Array, kind: int) -> tuple[bytes, Array]:
    """The bytes of a tensor and the floats that they mean."""
    if kind in (F32, F16):
        kept = array.astype("<f4" if kind == F32 else "<f2")
        return kept.tobytes(), kept.astype("f4")
    rows = array.reshape(-1, 32)
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(1)][:, None]
    scale = (largest / (-8 if kind == Q4_0 else 127)).astype("<f2")
    real_scale = np.where(scale == 0, 1, scale).astype("f4")
    if kind == Q8_0:
        numbers = np.clip(np.round(rows / real_scale), -127, 127).astype("i1")
        blocks = [one.tobytes() + row.tobytes() for one, row in zip(scale, numbers, strict=True)]
        return b"".join(blocks), (numbers * scale.astype("f4")).reshape(array.shape)
    numbers = np.clip(np.round(rows / real_scale) + 8, 0, 15).astype("u1")
    halves = numbers[:, :16] | numbers[:, 16:] << 4
    blocks = [one.tobytes() + row.tobytes() for one, row in zip(scale, halves, strict=True)]
    return b"".join(blocks), ((numbers.astype("f4") - 8) * scale.astype("f4")).reshape(array.shape)


def place_of(name: str) -> str:
    whole = {"model.embed_tokens.weight": "token_embd", "model.norm.weight": "output_norm", "lm_head.weight": "output"}
    if name in whole:
        return f"{whole[name]}.weight"
    _, _, index, *part, end = name.split(".")
    return f"blk.{index}.{NAMES['.'.join(part)]}.{end}"


def write_gguf(
    path: Path, kind: str, matrices: int = Q8_0, factors: Array | None = None, **changes: Any
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Write a model whose rows have multiples of 32 numbers; returns its `config.json` and its weights as floats."""
    config: dict[str, Any] = {**config_of(kind), "intermediate_size": 64, **changes}
    name, heads = config["model_type"], (config["num_attention_heads"], config["num_key_value_heads"])
    said: dict[str, Any] = {
        "general.architecture": name,
        "general.alignment": 64,
        "tokenizer.ggml.tokens": ["<unk>", "a"],
        f"{name}.block_count": config["num_hidden_layers"],
        f"{name}.embedding_length": config["hidden_size"],
        f"{name}.feed_forward_length": config["intermediate_size"],
        f"{name}.attention.head_count": heads[0],
        f"{name}.attention.head_count_kv": heads[1],
        f"{name}.attention.key_length": config["head_dim"],
        f"{name}.context_length": config["max_position_embeddings"],
        f"{name}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        f"{name}.rope.freq_base": config["rope_theta"],
    }
    infos, data = b"", b""
    weights: dict[str, Array] = {}
    for key, array in weights_of(config).items():
        form = F32 if array.ndim == 1 else F16 if "embed" in key else matrices
        blob, real = stored(array, form)
        weights[key] = real
        if name == "llama" and key.split(".")[-2] in ("q_proj", "k_proj"):
            count = heads["k_proj" in key]  # pairs become neighbors
            turned: Array = array.reshape(count, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
            blob = stored(turned, form)[0]
        infos += text(place_of(key)) + struct.pack(
            f"<I{array.ndim}QIQ", array.ndim, *array.shape[::-1], form, len(data)
        )
        data += blob + bytes(-len(blob) % 64)
    count = len(weights)
    if factors is not None:
        infos += text("rope_freqs.weight") + struct.pack("<IQIQ", 1, len(factors), F32, len(data))
        data, count = data + factors.astype("<f4").tobytes(), count + 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(said)) + b"".join(setting(*one) for one in said.items()) + infos
    path.write_bytes(head + bytes(-len(head) % 64) + data)
    return config, weights
