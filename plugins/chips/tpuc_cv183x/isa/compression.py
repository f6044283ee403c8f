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
    map_ = stream[HEADER_BYTES : HEADER_BYTES + blocks]
    result = np.empty((blocks, BLOCK), dtype.numpy)
    if header.is_float:
        for index, block in enumerate(_float_blocks(stream[start:], map_, header)):
            result[index] = block
    else:
        table = _integer_values(header)
        symbols = np.array(list(_symbol_blocks(stream[start:], map_)), np.uint8).reshape(blocks, BLOCK)
        result[...] = table[symbols].view(dtype.numpy)
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
    """The stream of a tensor (bf16 as bits), as the functional model writes it: per block the cheapest code."""
    is_float = values.dtype.itemsize == 2
    header = _Header(0, how.signed, is_float, how.bias, how.bias_low, how.zero_guard)
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = np.concatenate([flat, np.zeros(-flat.size % BLOCK, flat.dtype)])
    exponents = (flat >> 7 & 0xFF).astype(np.uint8) if is_float else flat.view(np.uint8)
    table = _exponent_values(header) if is_float else _integer_values(header)
    symbols = _inverse(table)[exponents].reshape(-1, BLOCK)
    bits, position, codes = 0, 0, bytearray()
    for index, block in enumerate(symbols.tolist()):
        code, word, width = _code_block(block, 4 if is_float and how.zero_guard else 0)
        codes.append(code)
        bits |= word << position
        position += width
        if is_float:
            for fraction in _fractions(flat[index * BLOCK : (index + 1) * BLOCK], how.zero_guard):
                bits |= fraction << position
                position += 8
    payload = round_up(round_up(position, 8) // 8, 16)
    header = _Header(payload, header.signed, is_float, header.bias, header.bias_low, header.zero_guard)
    return header.write() + bytes(codes) + bytes(-len(codes) % 16) + bits.to_bytes(payload, "little")


def _inverse(table: Array) -> Array:
    """The symbol of each value; the lowest where several have it."""
    inverse = np.zeros(256, np.uint8)
    inverse[table[::-1]] = np.arange(255, -1, -1, dtype=np.uint8)
    return inverse


def _fractions(bits: Array, zero_guard: bool) -> list[int]:
    """Sign and mantissa of the elements that carry them."""
    fractions = (bits >> 8 & 0x80 | bits & 0x7F).tolist()
    kept = (bits & 0x7F80 != 0).tolist() if zero_guard else [True] * len(fractions)
    return [fraction for fraction, keep in zip(fractions, kept, strict=True) if keep]


def _code_block(symbols: list[int], skip: int) -> tuple[int, int, int]:
    """Map byte, bits and their number: the fewest planes among the cheapest codes, plain symbols where none is shorter.

    `skip` bits behind the planes count the zeros.
    """
    best: tuple[int, int, int] | None = None
    for planes in range(6):
        unary = sum((symbol >> planes) + 1 for symbol in symbols)
        extra = unary - _UNARY_BITS
        width = BLOCK * planes + unary
        if extra < 32 and (best is None or width < best[2]):
            best = (planes, extra, width)
    if best is None or best[2] >= 8 * BLOCK:
        return RAW << 5, int.from_bytes(bytes(symbols), "little"), 8 * BLOCK
    planes, extra, width = best
    word = position = 0
    for plane in range(planes):
        for index, symbol in enumerate(symbols):
            word |= (symbol >> plane & 1) << (position + index)
        position += BLOCK
    if planes and skip:
        word |= (symbols.count(0) & 15) << position
        position += skip
        width += skip
    for symbol in symbols:
        position += symbol >> planes
        word |= 1 << position
        position += 1
    return planes << 5 | extra, word, width
