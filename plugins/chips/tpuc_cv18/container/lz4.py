"""Decompress LZ4 blocks (the public block format, without frames)."""

from __future__ import annotations

from tpuc.api import CorruptFile

_MINIMUM_MATCH = 4


def decompress_block(data: bytes, size: int) -> bytes:
    """Decompress a block into `size` bytes; raises CorruptFile."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            if at + literals > len(data):
                raise IndexError
            out += data[at : at + literals]
            at += literals
            if at >= len(data):
                break
            distance = data[at] | data[at + 1] << 8
            match, at = _length(data, at + 2, token & 15)
            _copy_match(out, distance, match + _MINIMUM_MATCH)
            if len(out) > size:
                raise IndexError
    except IndexError as error:
        raise CorruptFile(f"LZ4 block of {len(data)} bytes: ends or points outside at byte {at}") from error
    if len(out) != size:
        raise CorruptFile(f"LZ4 block of {len(data)} bytes: holds {len(out)} bytes, not {size}")
    return bytes(out)


def _length(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read a length that starts with 4 bits; return it and the position after it."""
    length = first
    if first == 15:
        while True:
            step = data[at]
            at += 1
            length += step
            if step != 255:
                break
    return length, at


def _copy_match(out: bytearray, distance: int, length: int) -> None:
    """Append `length` bytes from `distance` back; a match may overlap its own output."""
    start = len(out) - distance
    if distance == 0 or start < 0:
        raise IndexError
    piece = bytes(out[start : start + length])
    while len(piece) < length:
        piece += piece[: length - len(piece)]
    out += piece
