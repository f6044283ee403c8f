"""Load files as messages: the text of the network, and the arrays of its weights."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tpuc.api import InvalidModel
from tpuc_importing.files import read_bytes
from tpuc_importing.messages import Fields
from tpuc_ops.arrays import Array

from tpuc_caffe.schema import TEXT, UNPACKED, WEIGHTS, new_net

UNKNOWN_FIELD = "has no field named"
MOST_TEXT_BYTES = 1 << 26
"""A prototxt contains no weights; this is a hundred times the largest one in use."""


def load_text(path: Path) -> tuple[Any, str]:
    """Parse the network text. Returns it, and a sentence about the first unknown field, if there is one.

    Raises InvalidModel for text that is not a network.
    """
    content = read_bytes(path)
    if len(content) > MOST_TEXT_BYTES:
        raise InvalidModel(
            f"{path}: {len(content)} bytes are not a network in text form. Pass the prototxt, not the weights."
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidModel(
            f"{path}: is not text (byte {error.start}). Give the prototxt here and the caffemodel with --model-data."
        ) from error
    net, unknown = new_net(TEXT), ""
    try:
        text_format.Parse(text, net)
    except text_format.ParseError as error:
        if UNKNOWN_FIELD not in str(error):
            raise _bad_text(path, error) from error
        unknown = f"{path}: {_reason(error)}"
        net = new_net(TEXT)
        try:
            text_format.Parse(text, net, allow_unknown_field=True)
        except (text_format.ParseError, RecursionError) as deeper:
            raise _bad_text(path, deeper) from deeper
    except RecursionError as error:
        raise _bad_text(path, error) from error
    if not net.layer and not net.layers:
        raise InvalidModel(f"{path}: has no layers. Give the prototxt of a network.")
    return net, unknown


def _bad_text(path: Path, error: Exception) -> InvalidModel:
    reason = "its brackets are nested too deeply" if isinstance(error, RecursionError) else _reason(error)
    return InvalidModel(f"{path}: is not a Caffe network, or a damaged one: {reason}. Export or download it again.")


def _reason(error: Exception) -> str:
    """Return `line 3: ...` with the parser's message, shortened where it quotes half the file."""
    line, _, rest = str(error).partition(":")
    _, _, said = rest.partition(" : ")
    said = " ".join((said or rest).split()).replace("caffe.", "").rstrip(".")
    said = said if len(said) <= 160 else f"{said[:160]}..."
    return f"line {line}: {said}" if line.isdigit() else " ".join(str(error).split())[:160]


def load_weights(path: Path) -> Mapping[str, tuple[Array, ...]]:
    """Return the weight arrays of each layer by name; raises InvalidModel for a damaged or foreign file."""
    content = read_bytes(path)
    net = _parse(path, content, WEIGHTS)
    if not net.layer and not net.layers:
        raise InvalidModel(
            f"{path}: not a caffemodel: there is no layer in its {len(content)} bytes. Give the weights of the network."
        )
    if _is_unpacked(net):
        net = _parse(path, content, UNPACKED)
    found: dict[str, tuple[Array, ...]] = {}
    for layer in (*net.layers, *net.layer):
        blobs = [*layer.blobs]
        name = layer.name
        if hasattr(layer, "layer") and layer.HasField("layer"):
            blobs, name = [*layer.layer.blobs, *blobs], layer.layer.name or name
        if blobs:
            found[name] = tuple(_array(path, name, blob) for blob in blobs)
    return found


def _parse(path: Path, content: bytes, table: Mapping[str, Fields]) -> Any:
    net = new_net(table)
    try:
        net.ParseFromString(content)
    except DecodeError as error:
        raise InvalidModel(
            f"{path}: not a caffemodel, or a truncated one ({len(content)} bytes). Download it again."
        ) from error
    return net


def _blobs(net: Any) -> Iterable[Any]:
    for layer in (*net.layers, *net.layer):
        yield from layer.blobs
        if hasattr(layer, "layer"):
            yield from layer.layer.blobs


def _is_unpacked(net: Any) -> bool:
    """True if numbers were not written as one block: each is then a block of its own or an unknown field."""
    return any(
        len(blob.data) > 1 or (not blob.data and not blob.double_data and math.prod(_shape(blob)) > 0)
        for blob in _blobs(net)
    )


def _shape(blob: Any) -> tuple[int, ...]:
    if blob.HasField("shape"):
        return tuple(blob.shape.dim)
    if any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        return (blob.num, blob.channels, blob.height, blob.width)
    return ()


def _array(path: Path, layer: str, blob: Any) -> Array:
    """Return the blob in its shape; the numbers may be floats, doubles, or blocks of their bytes."""
    doubles = len(blob.double_data) > 0
    numbers = blob.double_data if doubles else blob.data
    shape = _shape(blob)
    if len(numbers) and isinstance(numbers[0], bytes):
        size = 8 if doubles else 4
        block = numbers[0] if len(numbers) == 1 else b"".join(numbers)
        try:
            data = np.frombuffer(block[: len(block) // size * size], f"<f{size}")
        except (struct.error, ValueError) as error:
            raise _wrong_size(path, layer, shape, 0) from error
    else:
        data = np.fromiter(numbers, np.float64 if doubles else np.float32, len(numbers))
    if min(shape, default=1) < 0 or (math.prod(shape) != data.size):
        if shape or data.size != 1:
            raise _wrong_size(path, layer, shape, data.size)
        shape = (1,)
    with np.errstate(over="ignore"):
        return data.astype(np.float32, copy=False).reshape(shape)


def _wrong_size(path: Path, layer: str, shape: tuple[int, ...], size: int) -> InvalidModel:
    shown = "x".join(map(str, shape)) or "scalar"
    return InvalidModel(
        f"{path}: a weight of layer '{layer}' has the shape {shown} and holds {size} numbers. The file is damaged; "
        "download it again."
    )
