"""The file of the toy chip (manual, 5): a prefix, a JSON header, weights, two command streams and a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import F32, CorruptFile, ElementType, ScalarType, TensorInfo, TensorType, Uniform

MAGIC = b"TOY".ljust(8, b"\0")[:8]
VERSION = 1
_PREFIX = struct.Struct("<8sIIIII")  # magic, version, bytes of header, weights, compute stream, DMA stream
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True)
class ToyFile:
    """What a file holds. Addresses and sizes in bytes."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    weights: bytes
    weights_address: int
    activations_address: int
    activations_bytes: int
    compute: bytes
    dma: bytes

    @property
    def end_address(self) -> int:
        """The end of the DDR that the program uses."""
        return self.activations_address + self.activations_bytes


def write_file(content: ToyFile) -> bytes:
    """The bytes of a file."""
    header = json.dumps(
        {
            "name": content.name,
            "inputs": [_tensor_to_json(info) for info in content.inputs],
            "outputs": [_tensor_to_json(info) for info in content.outputs],
            "weights_address": content.weights_address,
            "activations_address": content.activations_address,
            "activations_bytes": content.activations_bytes,
        },
        sort_keys=True,
    ).encode()
    parts = (header, content.weights, content.compute, content.dma)
    body = _PREFIX.pack(MAGIC, VERSION, *map(len, parts)) + b"".join(parts)
    return body + _CHECKSUM.pack(zlib.crc32(body))


def read_file(data: bytes, source: str) -> ToyFile:
    """The content of a file; raises CorruptFile. `source` names it in the sentence."""
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFile(f"{source}: not a file for the toy chip; make one with `tpuc compile --chip toy`")
    if len(data) < _PREFIX.size:
        raise CorruptFile(f"{source}: truncated within its first {_PREFIX.size} bytes; copy or compile it again")
    _, version, *sizes = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"{source}: format version {version}, this package reads {VERSION}; compile it again")
    expected = _PREFIX.size + sum(sizes) + _CHECKSUM.size
    if len(data) != expected:
        raise CorruptFile(f"{source}: {len(data)} bytes where its header says {expected}; copy or compile it again")
    if _CHECKSUM.unpack_from(data, expected - _CHECKSUM.size)[0] != zlib.crc32(data[: -_CHECKSUM.size]):
        raise CorruptFile(f"{source}: its checksum does not fit its content; copy or compile it again")
    header, weights, compute, dma = _cut(data[_PREFIX.size :], sizes)
    try:
        return _content(json.loads(header), weights, compute, dma)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{source}: its header is not what version {VERSION} writes; compile it again") from error


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    parts: list[bytes] = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return parts


def _content(fields: Mapping[str, Any], weights: bytes, compute: bytes, dma: bytes) -> ToyFile:
    return ToyFile(
        str(fields["name"]),
        tuple(_tensor_from_json(tensor) for tensor in fields["inputs"]),
        tuple(_tensor_from_json(tensor) for tensor in fields["outputs"]),
        weights,
        int(fields["weights_address"]),
        int(fields["activations_address"]),
        int(fields["activations_bytes"]),
        compute,
        dma,
    )


def _tensor_to_json(info: TensorInfo) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": info.name, "shape": list(info.shape), "address": info.address}
    fields["storage"] = TensorType(info.shape, info.element).storage.name
    if isinstance(info.element, Uniform):
        fields |= {"scale": info.element.scale, "zero_point": info.element.zero_point}
    return fields


def _tensor_from_json(fields: Mapping[str, Any]) -> TensorInfo:
    storage = ScalarType(str(fields["storage"]))
    element: ElementType = storage
    if "scale" in fields:
        element = Uniform(storage, F32, float(fields["scale"]), int(fields["zero_point"]))
    return TensorInfo(str(fields["name"]), tuple(map(int, fields["shape"])), element, int(fields["address"]))
