"""Filters with a few values beyond a byte: affected groups of channels, and constants piece by piece."""

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
    """Groups of output channels of a tile, from `first` to before `end`, and the input channels of their numbers beyond
    bytes.
    """

    first: int
    end: int
    inputs: tuple[int, ...] = ()

    def channels(self, tile: Tile, lanes: Lanes) -> Pair:
        """Of the whole result."""
        c0, c1 = tile.range("c")
        return c0 + self.first * lanes.count, min(c0 + self.end * lanes.count, c1)


def pieces_of(node: Node, tile: Tile, lanes: Lanes) -> Sequence[Piece]:
    """Every group with numbers beyond bytes by itself, those between together."""
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
    """The input channels of numbers beyond bytes, by group of output channels from the `first` on."""
    inputs: dict[int, set[int]] = {}
    for oc, ic in zip(node.op.wide[::2], node.op.wide[1::2], strict=True):
        inputs.setdefault((oc - first) // lanes.count, set()).add(ic)
    return inputs


def block_bytes(groups: int, *, has_bias: bool) -> int:
    """Of the requantisation of so many groups of channels."""
    return round_up(groups * (BLOCK_WITH_BIAS_BYTES if has_bias else BLOCK_BYTES), EU_BYTES)


def most_block_bytes(node: Node, tile: Tile, lanes: Lanes, *, has_bias: bool) -> int:
    """Of a tile of that size anywhere."""
    groups = lanes.slots_of(tile.size("c"))
    gaps = min(groups, 2 * len(wide_inputs(node, lanes)) + 1) - 1
    return block_bytes(groups, has_bias=has_bias) + gaps * EU_BYTES


def behind_each_other(parts: Iterable[Array], shape: Pair) -> Array:
    """Bytes per lane, each part on its own 16 bytes."""
    packed = np.zeros(shape, np.uint8)
    place = 0
    for part in parts:
        packed[: part.shape[0], place : place + part.shape[1]] = part
        place += round_up(part.shape[1], EU_BYTES)
    return packed


def from_group(whole: Operand, shape: Shape4, group: int, target: Target) -> Operand:
    """A tensor of one image from one of its groups of channels on."""
    return moved(whole, group * whole.strides(shape, target)[1])


def moved(operand: Operand, offset: int) -> Operand:
    """So many bytes further."""
    return dataclasses.replace(operand, address=operand.address + offset)
