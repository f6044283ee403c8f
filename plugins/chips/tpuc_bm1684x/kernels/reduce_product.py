"""Product reductions of contiguous dimensions along h within each lane, by repeated halving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    Box,
    KernelChoice,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_ops import tpu

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import OfChip, apart_refusal, reduced_axes, reduced_extents
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert, part_from
from tpuc_bm1684x.kernels.reduce import ReduceKernel
from tpuc_bm1684x.kernels.scan import longest
from tpuc_bm1684x.operands import operand


class ReduceProductKernel(OfChip, TileKernel[tpu.Reduce, Bm1684xAssembler]):
    """Multiplies the first half of the rows by the last half, in f32, until one row remains."""

    def refuse(self, node: Node) -> str | None:
        if not node.result_type.storage.is_float:
            return f"products of floats only, these are {node.result_type.storage}"
        refused = apart_refusal(reduced_axes(node))
        if refused is not None:
            return refused
        _, _, length = reduced_extents(node)
        most = longest(self.target.lane_bytes)
        return f"at most {most} factors, there are {length}" if length > most else None

    def space(self, node: Node) -> Space:
        outer, inner, length = reduced_extents(node)
        result = View((1, outer, 1, inner))
        return Space(self.lanes.parallel_axes(result.shape), (View((1, outer, length, inner)),), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (c0, c1), (w0, w1) = tile.range("c"), tile.range("w")
        return [Box((0, c0, 0, w0), (1, c1 - c0, reduced_extents(node)[2], w1 - w0))]

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (1, tile.size("c"), reduced_extents(node)[2], tile.size("w"))
        return (Scratch("factors", self.lmem.tensor_bytes("aligned", shape, 4)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result, source = placed.operand(0).shape, operand(placed.result), operand(placed.operand(0))
        factors = Operand(placed.scratch["factors"].address, DType.F32)
        convert(asm, shape, factors, source)
        length = shape[2]
        while length > 1:
            half = length // 2
            first, last = (part_from(factors, shape, asm.target, row=row) for row in (0, length - half))
            arithmetic(asm, ArithmeticOp.MUL, (shape[0], shape[1], half, shape[3]), first, first, last)
            length -= half
        convert(asm, placed.result.shape, result, part_from(factors, shape, asm.target))


class AnyReduceKernel(KernelChoice[tpu.Reduce]):
    """Chooses the kernel for products, or the pooling kernel."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._products, self._others = ReduceProductKernel(target), ReduceKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        return self._products if node.op.mode == "ReduceProd" else self._others
