"""Write folders with matrices of integers in public formats, and what each format's own rule says that they mean.

The rules, one number at a time: GPTQ and AWQ from their papers' programs, compressed-tensors from its documentation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontends.llm.models import Array, config_of, fused, weights_of

Tensors = dict[str, Array]
AWQ_PLACES = (0, 2, 4, 6, 1, 3, 5, 7)
"""The neighbor that AWQ stores in the n-th four bits of a word."""
GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": False, "sym": False}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True, "version": "gemm"}


def tensors_config(bits: int = 4, group: int | None = 16, *, symmetric: bool = True, **more: Any) -> dict[str, Any]:
    """The configuration of compressed-tensors."""
    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "group" if group else "channel",
        "group_size": group,
    }
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups, **more}


def in_words(rows: Array, bits: int, places: tuple[int, ...] | None = None) -> Array:
    """Pack numbers from 0 on along the last dimension, the first in the lowest bits of a word."""
    count = 32 // bits
    filled = np.zeros((len(rows), -(-rows.shape[1] // count) * count), np.uint32)
    filled[:, : rows.shape[1]] = rows
    parts = filled.reshape(len(rows), -1, count)
    words = np.zeros(parts.shape[:2], np.uint32)
    for place in range(count):
        words |= parts[:, :, places[place] if places else place] << np.uint32(bits * place)
    return words.view(np.int32)


def drawn(outputs: int, inputs: int, said: dict[str, Any], random: np.random.Generator) -> tuple[Tensors, Array]:
    """The tensors of one matrix by their endings, and the floats that they mean."""
    if said["quant_method"] == "compressed-tensors":
        return _tensors(outputs, inputs, said, random)
    bits = said["bits"]
    size = said["group_size"] if said["group_size"] > 0 else inputs
    groups = -(-inputs // size)
    numbers = random.integers(0, 1 << bits, (outputs, inputs))
    zeros = random.integers(0, 1 << bits, (outputs, groups))
    if said.get("sym"):
        zeros[:] = 1 << bits - 1
    scales = random.uniform(0.001, 0.02, (outputs, groups)).astype("f2")
    owner = np.arange(inputs) // size
    if said.get("desc_act"):
        owner = random.permutation(owner)
    real = np.empty((outputs, inputs), np.float32)
    for column in range(inputs):
        own = owner[column]
        real[:, column] = (numbers[:, column] - zeros[:, own]) * scales[:, own].astype("f4")
    found = {"scales": np.ascontiguousarray(scales.T)}
    if said["quant_method"] == "awq":
        found |= {
            "qweight": in_words(numbers.T, 4, AWQ_PLACES),
            "qzeros": in_words(zeros.T, 4, AWQ_PLACES),
        }
        return found, real
    stored = zeros if said.get("checkpoint_format") == "gptq_v2" else (zeros - 1) % (1 << bits)
    found |= {
        "qweight": np.ascontiguousarray(in_words(numbers, bits).T),
        "qzeros": in_words(stored.T, bits),
        "g_idx": owner.astype(np.int32),
    }
    return found, real


def _tensors(outputs: int, inputs: int, said: dict[str, Any], random: np.random.Generator) -> tuple[Tensors, Array]:
    weights = said["config_groups"]["group_0"]["weights"]
    bits, size = weights["num_bits"], weights["group_size"] or inputs
    half, groups = 1 << bits - 1, -(-inputs // size)
    numbers = random.integers(-half, half, (outputs, inputs))
    zeros = random.integers(-half, half, (outputs, groups)) * (not weights["symmetric"])
    scales = random.uniform(0.001, 0.02, (outputs, groups)).astype("f2")
    owner = np.arange(inputs) // size
    if weights.get("actorder") == "group":
        owner = random.permutation(owner)
    real = np.empty((outputs, inputs), np.float32)
    for column in range(inputs):
        own = owner[column]
        real[:, column] = (numbers[:, column] - zeros[:, own]) * scales[:, own].astype("f4")
    found: Tensors = {"weight_scale": scales}
    if said["format"] == "pack-quantized":
        found |= {"weight_packed": in_words(numbers + half, bits), "weight_shape": np.array([outputs, inputs])}
    else:
        found |= {"weight": numbers.astype(np.int8)}
    if not weights["symmetric"]:
        packed = np.ascontiguousarray(in_words((zeros + half).T, bits).T)
        found["weight_zero_point"] = packed if said["format"] == "pack-quantized" else zeros.astype(np.int8)
    if weights.get("actorder") == "group":
        found["weight_g_idx"] = owner.astype(np.int32)
    return found, real


def write_mixed(path: Path, tensors: Tensors) -> None:
    """In the format of safetensors, each tensor in its own type."""
    names = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64", "int8": "I8"}
    header: dict[str, Any] = {}
    blob = b""
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        place = [len(blob), len(blob) + len(data)]
        header[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)


def write_quantized(
    folder: Path, kind: str, said: dict[str, Any], *, apart: bool = False, **changes: Any
) -> tuple[dict[str, Any], Tensors]:
    """Write a model whose projections are integers; returns its `config.json` and its weights as floats."""
    config: dict[str, Any] = {**config_of(kind), "intermediate_size": 64, **changes}
    random, weights, tensors = np.random.default_rng(7), weights_of(config), dict[str, Array]()
    stored = fused(weights) if kind == "phi3" else weights
    found: Tensors = {}
    for name, array in stored.items():
        if "_proj.weight" not in name:
            found[name] = tensors[name] = array
            continue
        outputs, inputs = array.shape
        parts, real = drawn(outputs, inputs, said, random)
        found[name] = real
        tensors |= {f"{name.removesuffix('.weight')}.{ending}": part for ending, part in parts.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config if apart else {**config, "quantization_config": said}))
    if apart:
        (folder / "quantize_config.json").write_text(json.dumps(said))
    write_mixed(folder / "model.safetensors", tensors)
    return config, found
