"""Checkpoints: an index, which is a sorted string table, and files with the tensors one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from tpuc.api import DYNAMIC, InvalidModel, ScalarType, numpy_dtype
from tpuc_importing.files import read_bytes
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.types import element_of
from tpuc_tensorflow.loading.schema import new_message
from tpuc_tensorflow.loading.tensors import shape_of

_FOOTER = 48
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_TRAILER = 5
"""Bytes after a block: its compression, and a checksum."""


class Bundle:
    """The tensors of `PREFIX.index` and `PREFIX.data-*`, read individually. Raises InvalidModel for damaged files."""

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self._index = prefix.with_name(f"{prefix.name}.index")
        self._entries: dict[str, Any] = {}
        self._shards = 1
        try:
            for key, value in _table(read_bytes(self._index)):
                self._note(key, value)
        except (DecodeError, UnicodeDecodeError, IndexError, ValueError) as error:
            raise self._damaged(str(error)) from error

    def _note(self, key: bytes, value: bytes) -> None:
        message = new_message("BundleEntry" if key else "BundleHeader")
        message.ParseFromString(value)
        if key:
            self._entries[key.decode()] = message
        elif message.endianness:
            raise ValueError("its numbers are big-endian")
        else:
            self._shards = max(message.num_shards, 1)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def array(self, name: str) -> Array:
        """Return the tensor of a name."""
        entry = self._entries[name]
        path = self._prefix.with_name(f"{self._prefix.name}.data-{entry.shard_id:05d}-of-{self._shards:05d}")
        shape = shape_of(entry.shape)
        try:
            element = element_of(entry.dtype)
        except ValueError as error:
            raise self._damaged(str(error)) from error
        if shape is None or DYNAMIC in shape or not isinstance(element, ScalarType):
            raise self._damaged(f"tensor '{name}' has no shape or no numbers")
        dtype = numpy_dtype(element)
        content = read_bytes(path)[entry.offset : entry.offset + entry.size] if entry.offset >= 0 else b""
        if len(content) != entry.size or entry.size != math.prod(shape) * dtype.itemsize:
            raise InvalidModel(f"{path}: tensor '{name}' is incomplete. Copy the checkpoint again.")
        return np.frombuffer(content, dtype).reshape(shape)

    def _damaged(self, reason: str) -> InvalidModel:
        return InvalidModel(f"{self._index}: not an index of a checkpoint, or a damaged one: {reason}. Copy it again.")


def _table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values in order."""
    if len(content) < _FOOTER or not content.endswith(_MAGIC):
        raise ValueError("it does not end like a table")
    footer = content[-_FOOTER:]
    position = 0
    for _ in range(2):  # the block of metadata, which is empty
        _, position = _varint(footer, position)
    for _, handle in _block(content, *_handle(footer, position)):
        yield from _block(content, *_handle(handle, 0))


def _handle(data: bytes, position: int) -> tuple[int, int]:
    offset, position = _varint(data, position)
    size, _ = _varint(data, position)
    return offset, size


def _block(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield entries; each key omits the prefix it shares with the key before."""
    if offset + size + _TRAILER > len(content) or size < 4:
        raise ValueError("a block lies outside of it")
    if content[offset + size]:
        raise ValueError("its blocks are compressed")
    block = content[offset : offset + size]
    end = size - 4 - 4 * int.from_bytes(block[-4:], "little")
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        rest, position = _varint(block, position)
        length, position = _varint(block, position)
        key = key[:shared] + block[position : position + rest]
        position += rest
        yield key, block[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number in groups of seven bits, and the position after it."""
    result = shift = 0
    while True:
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return result, position
        if shift > 63:
            raise ValueError("a number is not terminated")
