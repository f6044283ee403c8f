"""The types of GGUF's tensors: blocks of integers with scales, as the format defines them.

Source: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array

GROUP, SUPER = 32, 256
"""Numbers of a block, and of a block of blocks."""


@dataclass(frozen=True)
class Block:
    """A type: so many numbers in so many bytes, and the floats of rows of such bytes."""

    name: str
    numbers: int
    size: int
    real: Callable[[Array], Array]


def _halves(blocks: Array, place: int) -> Array:
    """Return the f16 at a byte of every block: [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, place : place + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Array) -> Array:
    """Return low halves of bytes, then high halves."""
    return np.concatenate([packed & 15, packed >> 4], -1)


def _q4_0(blocks: Array) -> Array:
    return (_nibbles(blocks[:, 2:]).astype(np.float32) - 8) * _halves(blocks, 0)


def _q4_1(blocks: Array) -> Array:
    return _nibbles(blocks[:, 4:]).astype(np.float32) * _halves(blocks, 0) + _halves(blocks, 2)


def _q8_0(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32) * _halves(blocks, 0)


def _q4_k(blocks: Array) -> Array:
    """Eight groups of 32: 4-bit integers, scales and minima of 6 bits, which share two f16."""
    low, middle, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], -1).astype(np.float32) * _halves(blocks, 0)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], -1).astype(np.float32)
    minima *= _halves(blocks, 2)
    packed = blocks[:, 16:].reshape(-1, 4, GROUP)
    numbers = np.stack([packed & 15, packed >> 4], 2).reshape(-1, 8, GROUP)
    return (scales[..., None] * numbers - minima[..., None]).reshape(len(blocks), SUPER)


def _q6_k(blocks: Array) -> Array:
    """Sixteen groups of 16: 6-bit integers in two parts, scales of 8 bits, which share one f16."""
    low = blocks[:, :128].reshape(-1, 2, 2, GROUP)
    high = blocks[:, 128:192].reshape(-1, 2, 1, GROUP)
    fours = np.concatenate([low & 15, low >> 4], 2)
    twos = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], 2)
    numbers = (fours | twos << 4).astype(np.float32) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32) * _halves(blocks, 208)
    return (numbers.reshape(-1, 16, 16) * scales[..., None]).reshape(len(blocks), SUPER)


def _floats(dtype: str) -> Callable[[Array], Array]:
    return lambda blocks: np.ascontiguousarray(blocks).view(dtype).astype(np.float32)


def _bf16(blocks: Array) -> Array:
    return (np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16).view(np.float32)


Q4_0, Q4_1, Q8_0 = 2, 3, 8
BLOCKS = {
    0: Block("F32", 1, 4, _floats("<f4")),
    1: Block("F16", 1, 2, _floats("<f2")),
    Q4_0: Block("Q4_0", GROUP, 18, _q4_0),
    Q4_1: Block("Q4_1", GROUP, 20, _q4_1),
    Q8_0: Block("Q8_0", GROUP, 34, _q8_0),
    12: Block("Q4_K", SUPER, 144, _q4_k),
    14: Block("Q6_K", SUPER, 210, _q6_k),
    30: Block("BF16", 1, 2, _bf16),
}
"""Types by their numbers in files."""


def real_of(kind: int, raw: Array) -> Array:
    """Return the floats of bytes of whole blocks."""
    block = BLOCKS[kind]
    return block.real(raw.reshape(-1, block.size)).reshape(-1)


def integers_of(kind: int, raw: Array, shape: tuple[int, ...]) -> tuple[int, Array, Array, Array] | None:
    """Return bits, packed integers, scales and zero points of a matrix of blocks with one scale; None for others."""
    if kind not in (Q4_0, Q8_0):
        return None
    rows, depth = shape
    blocks = raw.reshape(-1, BLOCKS[kind].size)
    scale = _halves(blocks, 0).reshape(rows, -1)
    if kind == Q8_0:
        numbers = (np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.int16) + 128).astype(np.uint8)
        return 8, numbers.reshape(rows, depth), scale, np.full(scale.shape, 128, np.uint8)
    numbers = _nibbles(blocks[:, 2:]).reshape(rows, depth)
    return 4, numbers[:, ::2] | numbers[:, 1::2] << 4, scale, np.full(scale.shape, 8, np.uint8)
