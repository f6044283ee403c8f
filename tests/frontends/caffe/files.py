"""Writes caffemodels byte by byte, by the wire format's rules, and runs what is imported from them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import ImportOptions, Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_caffe.frontend import FRONTEND

Array = NDArray[Any]
Weights = Mapping[str, Sequence[Array]]


def varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def block(number: int, content: bytes) -> bytes:
    """A field with a length: text, numbers packed together, or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def count(number: int, value: int) -> bytes:
    """A field that is a whole number."""
    return varint(number << 3) + varint(value)


def blob(array: Array) -> bytes:
    """As Caffe writes it since 2014: packed floats (5) and a shape (7) of packed extents (1)."""
    shape = block(1, b"".join(varint(extent) for extent in array.shape))
    return block(7, shape) + block(5, array.astype("<f4").tobytes())


def old_blob(array: Array) -> bytes:
    """As before: four extents (1 to 4), each float with a tag of its own."""
    extents = (1,) * (4 - array.ndim) + array.shape
    numbers = b"".join(varint(5 << 3 | 5) + struct.pack("<f", value) for value in array.reshape(-1))
    return b"".join(count(index + 1, extent) for index, extent in enumerate(extents)) + numbers


def double_blob(array: Array) -> bytes:
    """As nets of doubles are written: numbers in field 8."""
    shape = block(1, b"".join(varint(extent) for extent in array.shape))
    return block(7, shape) + block(8, array.astype("<f8").tobytes())


def caffemodel(weights: Weights) -> bytes:
    """Layers (100) with name (1), type (2) and blobs (7)."""
    layers = [
        block(1, name.encode()) + block(2, b"Whatever") + b"".join(block(7, blob(array)) for array in arrays)
        for name, arrays in weights.items()
    ]
    return block(1, b"net") + b"".join(block(100, layer) for layer in layers)


def values(*shape: int, seed: int = 1) -> Array:
    """Numbers between -1 and 1, the same ones every time."""
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def read(
    text: str,
    folder: Path,
    weights: Weights | bytes | None = None,
    registry: Registry | None = None,
    **options: Any,
) -> Module:
    """The module of a prototxt and its weights."""
    path = folder / "net.prototxt"
    path.write_text(text, encoding="utf-8")
    if weights is not None:
        data = folder / "net.caffemodel"
        data.write_bytes(weights if isinstance(weights, bytes) else caffemodel(weights))
        options["model_data"] = data
    return FRONTEND.read(path, ImportOptions("net", **options), registry or Registry())


def layer(type: str, body: str = "", bottoms: str = "x", tops: str = "y", name: str = "it") -> str:
    """One layer of a prototxt; `body` holds its parameters."""
    ends = [f'bottom: "{one}"' for one in bottoms.split()] + [f'top: "{one}"' for one in tops.split()]
    return f'layer {{ name: "{name}" type: "{type}" {" ".join(ends)} {body} }}\n'


def inputs(**shapes: Sequence[int]) -> str:
    """Input layers."""
    return "".join(
        layer("Input", f"input_param {{ shape {{ {' '.join(f'dim: {e}' for e in shape)} }} }}", "", name, name)
        for name, shape in shapes.items()
    )


def run_layer(
    text: str, folder: Path, operands: Mapping[str, Array], weights: Sequence[Array] | None = None
) -> dict[str, Array]:
    """The results of a layer called `it` on these operands."""
    shapes = {name: array.shape for name, array in operands.items()}
    module = read(inputs(**shapes) + text, folder, None if weights is None else {"it": weights})
    module.verify()
    return Interpreter(module).run(operands)
