"""The variable-length code of compressed GMEM tensors (tdma.md, "VLC compression")."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from tpuc.api import IllegalCommand
from tpuc.api.encoding import Ignored, Nested, Number, Present, flag

from tpuc_cv18.isa.geometry import round_up
from tpuc_cv18.isa.types import Array, DType

BLOCK = 16
"""Elements per block."""
HEADER_BYTES = 16
RAW = 7
"""Code of a block of plain 8-bit symbols."""
_UNARY_BITS = 16
_LONGEST_BLOCK = 512
"""Upper bound of the bits in a block with its fractions."""


@dataclass(frozen=True)
class Compression:
    """Compression parameters of the GMEM side; on loads the stream's own header applies."""

    signed: bool = False
    bias: int = 0
    bias_low: int = 0
    zero_guard: bool = False


COMPRESSION_FIELDS = ("cmprs_fmt", "compress_zero_guard", "compress_bias0", "compress_bias1")
COMPRESSION = Present(
    "compress_en",
    ["compression"],
    Nested(
        "compression",
        Compression,
        flag("signed", "cmprs_fmt"),
        Number("bias", "compress_bias0"),
        Number("bias_low", "compress_bias1"),
        flag("zero_guard", "compress_zero_guard"),
    ),
    otherwise=[Ignored(*COMPRESSION_FIELDS)],
)


def stream_limit(count: int, item_bytes: int, payload: int | None = None) -> int:
    """Largest size in bytes of a stream of `count` elements, with a bit stream of `payload` bytes, by default that of
    raw blocks.
    """
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
    """The byte value of each of the 256 symbols."""
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
    """Decompress `count` elements into a read-only array. A truncated stream yields zeros."""
    header = _Header.read(stream)
    if header.is_float != dtype.is_float:
        kind = "bf16" if header.is_float else "8-bit"
        raise IllegalCommand(f"compressed tensor: the stream holds {kind} elements, the command expects {dtype}")
    blocks = round_up(count, BLOCK) // BLOCK
    start = HEADER_BYTES + round_up(blocks, 16)
    codes = np.frombuffer(stream[HEADER_BYTES : HEADER_BYTES + blocks].ljust(blocks, b"\0"), np.uint8)
    skip = 4 if header.is_float and header.zero_guard else 0
    widths = _widths(codes, skip)
    payload = stream[start:]
    if header.is_float:
        kept = _kept_fractions(payload, codes, widths) if header.zero_guard else np.full(blocks, BLOCK)
        widths = widths + 8 * kept
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    bits = np.concatenate([bits, np.zeros(max(0, int(starts[-1]) - bits.size) + _LONGEST_BLOCK, np.uint8)])
    symbols = _symbols(bits, codes, starts[:-1], skip)
    values = _float_values(bits, symbols, starts[1:], header) if header.is_float else _integer_values(header)[symbols]
    flat = values.view(dtype.numpy).reshape(-1)[:count]
    flat.setflags(write=False)
    return flat


def _widths(codes: Array, skip: int) -> Array:
    """Bits of each block, without fractions."""
    planes, unary = (codes >> 5).astype(np.int64), (codes & 31).astype(np.int64) + _UNARY_BITS
    return np.where(planes == RAW, 8 * BLOCK, planes * BLOCK + (planes > 0) * skip + unary)


def _kept_fractions(payload: bytes, codes: Array, widths: Array) -> Array:
    """Number of nonzero elements in each block. A block's position depends on all blocks before it."""
    kept = np.empty(codes.size, np.int64)
    position = 0
    for index, (code, width) in enumerate(zip(codes.tolist(), widths.tolist(), strict=True)):
        first = position >> 3
        word = int.from_bytes(payload[first : first + _LONGEST_BLOCK // 8], "little") >> (position & 7)
        word &= (1 << width) - 1
        planes = code >> 5
        if planes == RAW:
            zeros = word.to_bytes(BLOCK, "little").count(0)
        elif planes:
            zeros = word >> planes * BLOCK & 15
        else:
            zeros = (word & (word << 1 | 1)).bit_count()
        kept[index] = BLOCK - zeros
        position += width + 8 * (BLOCK - zeros)
    return kept


def _symbols(bits: Array, codes: Array, starts: Array, skip: int) -> Array:
    """Decode the symbols `[blocks, 16]`, one code at a time for all its blocks."""
    symbols = np.zeros((codes.size, BLOCK), np.uint8)
    element = np.arange(BLOCK)
    for code in np.unique(codes >> 5).tolist():
        chosen = np.flatnonzero(codes >> 5 == code)
        places = starts[chosen]
        if code == RAW:
            taken = bits[places[:, None] + np.arange(8 * BLOCK)]
            symbols[chosen] = np.packbits(taken, axis=1, bitorder="little")
            continue
        low = np.zeros((chosen.size, BLOCK), np.uint8)
        for plane in range(code):
            low |= bits[places[:, None] + plane * BLOCK + element] << np.uint8(plane)
        places = places + code * BLOCK + (skip if code else 0)
        upper = _unary(bits, places, (codes[chosen] & 31).astype(np.int64) + _UNARY_BITS)
        symbols[chosen] = low | (upper << code).astype(np.uint8)
    return symbols


def _unary(bits: Array, places: Array, lengths: Array) -> Array:
    """Decode 16 unary numbers per block, each the number of zeros before a one. A damaged code with another number of
    ones gives zeros.
    """
    column = np.arange(_UNARY_BITS + 31)
    window = bits[places[:, None] + column] * (column < lengths[:, None])
    whole = window.sum(axis=1) == BLOCK
    window[~whole] = column < BLOCK
    ones = np.nonzero(window)[1].reshape(-1, BLOCK)
    return np.diff(ones, axis=1, prepend=-1) - 1


def _float_values(bits: Array, symbols: Array, ends: Array, header: _Header) -> Array:
    """bf16 patterns: the exponent of each symbol, and its fraction from the end of the block."""
    exponents = _exponent_values(header)[symbols].astype(np.uint16)
    kept = exponents != 0 if header.zero_guard else np.ones(exponents.shape, np.bool_)
    behind = kept.sum(axis=1, keepdims=True) - np.cumsum(kept, axis=1) + kept  # this and later fractions of the block
    places = (ends[:, None] - 8 * behind)[kept]
    fractions = np.zeros(exponents.shape, np.uint16)
    taken = bits[np.clip(places, 0, bits.size - 8)[:, None] + np.arange(8)]
    fractions[kept] = np.packbits(taken, axis=1, bitorder="little")[:, 0]
    return (fractions & np.uint16(0x80)) << np.uint16(8) | exponents << np.uint16(7) | fractions & np.uint16(0x7F)


# -- writing -----------------------------------------------------------------------------------------------------------


def compress(values: Array, how: Compression) -> bytes:
    """Compress a tensor (bf16 as bits) like the functional model: the cheapest code for each block."""
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
    """The symbol of each value; the lowest one where several symbols share a value."""
    inverse = np.zeros(256, np.uint8)
    inverse[table[::-1]] = np.arange(255, -1, -1, dtype=np.uint8)
    return inverse


def _fractions(bits: Array, zero_guard: bool) -> list[int]:
    """Sign and mantissa of the elements that store them."""
    fractions = (bits >> 8 & 0x80 | bits & 0x7F).tolist()
    kept = (bits & 0x7F80 != 0).tolist() if zero_guard else [True] * len(fractions)
    return [fraction for fraction, keep in zip(fractions, kept, strict=True) if keep]


def _code_block(symbols: list[int], skip: int) -> tuple[int, int, int]:
    """The map byte, the bits and their number, for the cheapest code; ties go to fewer planes, and plain symbols are
    used where every code is longer.

    With planes, `skip` bits after them hold the number of zeros.
    """
    best: tuple[int, int, int] | None = None
    for planes in range(6):
        unary = sum((symbol >> planes) + 1 for symbol in symbols)
        extra = unary - _UNARY_BITS
        width = BLOCK * planes + unary + (skip if planes else 0)
        if extra < 32 and (best is None or width < best[2]):
            best = (planes, extra, width)
    if best is None or best[2] > 8 * BLOCK:
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
    for symbol in symbols:
        position += symbol >> planes
        word |= 1 << position
        position += 1
    return planes << 5 | extra, word, width
