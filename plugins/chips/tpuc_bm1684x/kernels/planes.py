"""Compute single-channel planes across all lanes, as equal rows or interleaved pixels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    Candidate,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import LaneTransfer, TransferOp
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import OfChip, in_spaces, lanes_of
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of

_TURNS = "turns"


def plane_candidates(
    kernel: TileKernel[Any, Bm1684xAssembler], node: Node, target: Target = BM1684X
) -> Sequence[Candidate]:
    """Candidates for an elementwise function of a single-channel plane, the first operand. Rows of the plane in each
    lane suit a plane loaded from and stored to DDR. Interleaved elements leave the result in the plane's own lane.
    Empty for other tensors.
    """
    dims = node.result_type.dims
    if len(dims) != 4 or dims[:2] != (1, 1) or node.operand_types[0].dims != dims:
        return ()
    lanes = lanes_of(target)
    rows, rest = lanes.rows(node.result_type.size), (None,) * (len(node.operand_types) - 1)
    if rows is None or rows.shape[3] > MAX_EXTENT:
        return ()
    space = Space(lanes.parallel_axes(rows.shape), (rows, *rest), (rows,))
    turns = TurnsKernel(kernel, target)
    return (*in_spaces(kernel, (space,)), Candidate(turns, turns.space(node)))


class TurnsKernel(OfChip, TileKernel[Any, Bm1684xAssembler]):
    """Loads element i of a plane into lane i mod lanes (or mod a lower count that divides its size), computes with an
    inner kernel, and transposes the results into the plane's own lane.
    """

    def __init__(self, kernel: TileKernel[Any, Bm1684xAssembler], target: Target = BM1684X) -> None:
        super().__init__(target)
        self._kernel = kernel

    def space(self, node: Node) -> Space:
        _, _, h, w = node.result_type.dims
        lanes = _lanes(node, self.lanes)
        unit = lanes // math.gcd(lanes, w)
        turns = View((1, lanes, h * w // lanes, 1), (h * w, 1, lanes, 1))
        axes = (
            Axis("n", 1),
            Axis("c", 1),
            Axis("h", h, granularity=unit, limit=max(MAX_EXTENT // unit * unit, unit)),
            Axis("w", w, granularity=w),
        )
        return Space(axes, (turns, *(None for _ in node.operand_types[1:])), (View((1, 1, h, w)),))

    def tiling_key(self, node: Node) -> Hashable:
        return type(self._kernel), self._kernel.tiling_key(node)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [
            Box((0, 0, _turns(node, tile, self.lanes)[0], 0), _shape(node, tile, self.lanes)),
            *(None for _ in node.operand_types[1:]),
        ]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return self._kernel.constants(node)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self._kernel.constant_shape(node, name, _in_lanes(node, tile, self.lanes))

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return self._kernel.pack(node, name, _in_lanes(node, tile, self.lanes), arrays)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        size = self.lmem.tensor_bytes("aligned", _shape(node, tile, self.lanes), node.result_type.storage.bits // 8)
        return (*self._kernel.scratch(node, _in_lanes(node, tile, self.lanes)), Scratch(_TURNS, size))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result, address = _shape(node, placed.tile, self.lanes), placed.result, placed.scratch[_TURNS].address
        turns = LocalTensor(address, shape, "aligned", result.element)
        inner = PlacedTile(
            _in_lanes(node, placed.tile, self.lanes), placed.operands, (turns,), placed.constants, placed.scratch
        )
        self._kernel.emit(node, inner, phase, asm)
        _, lanes, count, _ = shape
        asm.record(
            LaneTransfer(
                operation=TransferOp.TRANSPOSE_WC,
                shape=(1, 1, count, lanes),
                dtype=dtype_of(result.element),
                result=result.address,
                source=address,
            )
        )


def _lanes(node: Node, across: Lanes) -> int:
    rows = across.rows(node.result_type.size)
    assert rows is not None
    return rows.shape[1]


def _turns(node: Node, tile: Tile, across: Lanes) -> tuple[int, int]:
    """Number of elements per lane before a tile, and up to its end."""
    width, lanes = node.result_type.dims[3], _lanes(node, across)
    first, end = tile.range("h")
    return first * width // lanes, end * width // lanes


def _in_lanes(node: Node, tile: Tile, across: Lanes) -> Tile:
    """The tile as seen by the inner kernel."""
    first, end = _turns(node, tile, across)
    return Tile(("n", "c", "h", "w"), (0, 0, first, 0), (1, _lanes(node, across), end, 1))


def _shape(node: Node, tile: Tile, across: Lanes) -> Shape4:
    first, end = _turns(node, tile, across)
    return (1, _lanes(node, across), end - first, 1)
