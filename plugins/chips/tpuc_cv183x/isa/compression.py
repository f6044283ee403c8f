"""The variable-length code of compressed tensors in GMEM (tdma.md, "VLC compression")."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from tpuc.api import IllegalCommand

from tpuc_cv183x.isa.command import FieldReader
from tpuc_cv183x.isa.geometry import round_up
from tpuc_cv183x.isa.types import Array, DType

BLOCK = 16
"""Elements per block."""
HEADER_BYTES = 16
RAW = 7
"""The code of a block of plain 8-bit symbols."""
_UNARY_BITS = 16


@dataclass(frozen=True, slots=True)
class Compression:
    """How the GMEM side is compressed; on loads the stream's own header decides."""

    names: ClassVar[frozenset[str]] = frozenset(
        {"cmprs_fmt", "compress_zero_guard", "compress_bias0", "compress_bias1"}
    )

    signed: bool = False
    bias: int = 0
    bias_low: int = 0
    zero_guard: bool = False

    def fields(self) -> dict[str, int]:
        """Raw fields."""
        return {
            "compress_en": 1,
            "cmprs_fmt": int(self.signed),
            "compress_bias0": self.bias,
            "compress_bias1": self.bias_low,
            "compress_zero_guard": int(self.zero_guard),
        }

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self | None:
        """What raw fields describe."""
        if not fields["compress_en"]:
            return None
        return cls(
            bool(fields["cmprs_fmt"]),
            fields["compress_bias0"],
            fields["compress_bias1"],
            bool(fields["compress_zero_guard"]),
        )


def stream_limit(count: int, item_bytes: int, payload: int | None = None) -> int:
    """Bytes of a stream of `count` elements whose bit stream has `payload` bytes, at most raw blocks of them."""
    blocks = round_up(count, BLOCK) // BLOCK
    if payload is None:
        payload = round_up(blocks * BLOCK * item_bytes, 16)
    return HEADER_BYTES + round_up(blocks, 16) + payload


@dataclass(frozen=True, slots=True)
class _Header:
    payload: int
    signed: bool
    is_float: bool
    bias: int
    bias_low: int
    zero_guard: bool

    @classmethod
    def read(cls, stream: bytes) -> _Header:
        word = int.from_bytes(stream[:8], "little")
        return cls(
            word & 0xFFFFFF,
            bool(word >> 28 & 1),
            bool(word >> 29 & 1),
            word >> 32 & 0xFF,
            word >> 40 & 0x7F,
            bool(word >> 47 & 1),
        )

    def write(self) -> bytes:
        word = self.payload | int(self.signed) << 28 | int(self.is_float) << 29 | self.bias << 32
        return (word | self.bias_low << 40 | int(self.zero_guard) << 47).to_bytes(HEADER_BYTES, "little")


# -- symbols and values ------------------------------------------------------------------------------------------------


def _integer_values(header: _Header) -> Array:
    """The byte of each of the 256 symbols."""
    symbols = np.arange(256, dtype=np.int64)
    if not header.signed:
        return symbols.astype(np.uint8)
    odd = symbols & 1 == 1
    values = np.where(odd, -(symbols + 1) // 2, symbols // 2)
    high = np.where(values + header.bias > 127, values + header.bias - 128, values + header.bias)
    low = np.where(values - header.bias_low < -128, values - header.bias_low + 128, values - header.bias_low)
    values = np.where(values > 0, high, np.where(values < 0, low, values))
    return values.astype(np.int8).view(np.uint8)


def _exponent_values(header: _Header) -> Array:
    """The exponent of each of the 256 symbols."""
    guard, bias = int(header.zero_guard), header.bias
    values = np.zeros(256, np.uint8)
    for symbol in range(256):
        if guard and symbol == 0:
            continue
        coded = symbol - guard
        if bias <= 128 and symbol >= 2 * bias:
            value = symbol
        elif bias > 128 and coded > 2 * (255 - bias):
            value = (255 - bias) + bias - symbol + guard
        else:
            value = bias - (coded + 1) // 2 if coded & 1 else bias + coded // 2
        values[symbol] = value & 0xFF
    return values


# -- reading -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def decompress(stream: bytes, count: int, dtype: DType) -> Array:
    """`count` elements of a stream; read-only. A stream that ends early gives zeros."""
    header = _Header.read(stream)
    if header.is_float != dtype.is_float:
        kind = "bf16" if header.is_float else "8-bit"
        raise IllegalCommand(f"compressed tensor: the stream holds {kind} elements, the command wants {dtype}")
    blocks = round_up(count, BLOCK) // BLOCK
    start = HEADER_BYTES + round_up(blocks, 16)
    bits = int.from_bytes(stream[start:], "little")
    map_ = stream[HEADER_BYTES : HEADER_BYTES + blocks]
    result = np.empty((blocks, BLOCK), dtype.numpy)
    if header.is_float:
        for index, block in enumerate(_float_blocks(stream[start:], map_, header)):
            result[index] = block
    else:
        table = _integer_values(header)
        symbols = np.array(list(_symbol_blocks(stream[start:], map_)), np.uint8).reshape(blocks, BLOCK)
        result[...] = table[symbols].view(dtype.numpy)
    del bits
    flat = result.reshape(-1)[:count]
    flat.setflags(write=False)
    return flat


def _take(payload: bytes, position: int, width: int) -> int:
    """`width` bits from bit `position`."""
    first, last = position >> 3, (position + width + 7) >> 3
    return int.from_bytes(payload[first:last], "little") >> (position & 7) & ((1 << width) - 1)


def _read_symbols(payload: bytes, position: int, code: int, skip: int) -> tuple[list[int], int]:
    """16 symbols of one block and the position after it; `skip` bits follow the planes of a coded block."""
    if code >> 5 == RAW:
        word = _take(payload, position, 8 * BLOCK)
        return list(word.to_bytes(BLOCK, "little")), position + 8 * BLOCK
    planes, unary = code >> 5, (code & 31) + _UNARY_BITS
    symbols = [0] * BLOCK
    for plane in range(planes):
        word = _take(payload, position, BLOCK)
        position += BLOCK
        for index in range(BLOCK):
            symbols[index] |= (word >> index & 1) << plane
    if planes:
        position += skip
    word = _take(payload, position, unary)
    for index in range(BLOCK):
        zeros = (word & -word).bit_length() - 1 if word else 0
        symbols[index] |= zeros << planes & 0xFF
        word >>= zeros + 1
    return symbols, position + unary


def _symbol_blocks(payload: bytes, map_: bytes) -> Iterator[list[int]]:
    position = 0
    for code in map_:
        symbols, position = _read_symbols(payload, position, code, 0)
        yield symbols


def _float_blocks(payload: bytes, map_: bytes, header: _Header) -> Iterator[list[int]]:
    exponents = _exponent_values(header).tolist()
    position, skip = 0, 4 if header.zero_guard else 0
    for code in map_:
        symbols, position = _read_symbols(payload, position, code, skip)
        values: list[int] = []
        for symbol in symbols:
            exponent = exponents[symbol]
            if header.zero_guard and not exponent:
                values.append(0)
                continue
            fraction = _take(payload, position, 8)
            position += 8
            values.append((fraction & 0x80) << 8 | exponent << 7 | fraction & 0x7F)
        yield values


# -- writing -----------------------------------------------------------------------------------------------------------


def compress(values: Array, how: Compression) -> bytes:
    """The stream of a tensor (bf16 as bits)."""
    raise IllegalCommand("compressed stores are not simulated; store without compression")
