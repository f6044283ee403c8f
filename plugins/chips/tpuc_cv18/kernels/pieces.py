"""Filters with a few values beyond 8 bits: the affected channel groups, and constants packed in pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Node, Tile
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops.arrays import Array

from tpuc_cv18.isa import Operand, Target
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.isa.types import Pair, Shape4
from tpuc_cv18.kernels.packing import BLOCK_BYTES, BLOCK_WITH_BIAS_BYTES


@dataclass(frozen=True)
class Piece:
    """A range of output channel groups of a tile, from `first` to before `end`, and the input channels of its filter
    values beyond 8 bits.
    """

    first: int
    end: int
    inputs: tuple[int, ...] = ()

    def channels(self, tile: Tile, lanes: Lanes) -> Pair:
        """First and end channel in the whole result."""
        c0, c1 = tile.range("c")
        return c0 + self.first * lanes.count, min(c0 + self.end * lanes.count, c1)


def pieces_of(node: Node, tile: Tile, lanes: Lanes) -> Sequence[Piece]:
    """Split a tile: each group with values beyond 8 bits is a piece, and the groups between them are joined."""
    c0, c1 = tile.range("c")
    groups = lanes.slots_of(c1 - c0)
    pieces: list[Piece] = []
    start = 0
    for group, inputs in sorted(wide_inputs(node, lanes, c0).items()):
        if not 0 <= group < groups:
            continue
        if start < group:
            pieces.append(Piece(start, group))
        pieces.append(Piece(group, group + 1, tuple(sorted(inputs))))
        start = group + 1
    if start < groups:
        pieces.append(Piece(start, groups))
    return pieces


def wide_inputs(node: Node, lanes: Lanes, first: int = 0) -> dict[int, set[int]]:
    """Input channels of values beyond 8 bits, by output channel group counted from the channel `first`."""
    inputs: dict[int, set[int]] = {}
    for oc, ic in zip(node.op.wide[::2], node.op.wide[1::2], strict=True):
        inputs.setdefault((oc - first) // lanes.count, set()).add(ic)
    return inputs


def block_bytes(groups: int, *, has_bias: bool) -> int:
    """Bytes of the requantization parameters of `groups` channel groups."""
    return round_up(groups * (BLOCK_WITH_BIAS_BYTES if has_bias else BLOCK_BYTES), EU_BYTES)


def most_block_bytes(node: Node, tile: Tile, lanes: Lanes, *, has_bias: bool) -> int:
    """Upper bound of `block_bytes` for a tile of that size at any position."""
    groups = lanes.slots_of(tile.size("c"))
    gaps = min(groups, 2 * len(wide_inputs(node, lanes)) + 1) - 1
    return block_bytes(groups, has_bias=has_bias) + gaps * EU_BYTES


def behind_each_other(parts: Iterable[Array], shape: Pair) -> Array:
    """Concatenate bytes per lane, each part 16-byte aligned."""
    packed = np.zeros(shape, np.uint8)
    place = 0
    for part in parts:
        packed[: part.shape[0], place : place + part.shape[1]] = part
        place += round_up(part.shape[1], EU_BYTES)
    return packed


def from_group(whole: Operand, shape: Shape4, group: int, target: Target) -> Operand:
    """The part of a single-image tensor from a channel group onward."""
    return moved(whole, group * whole.strides(shape, target)[1])


def moved(operand: Operand, offset: int) -> Operand:
    """The operand at a higher address."""
    return dataclasses.replace(operand, address=operand.address + offset)
