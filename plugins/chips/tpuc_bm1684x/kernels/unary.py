"""Ops of one tensor and constant numbers or slopes: sums, products, bounds, leaky units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import Node, PackedConstant, Phase, PlacedTile, Space, Tile, View
from tpuc_ops.integers import is_integer
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Requantise, RequantiseOp, Scalar
from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.activation import emit_clamp, emit_relu
from tpuc_bm1684x.kernels.common import elementwise_space, zero_point_refusal
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.kernels.packing import by_lane, slots_of
from tpuc_bm1684x.operands import operand

Array: TypeAlias = npt.NDArray[Any]

_HALVES = (ArithmeticOp.MAX, ArithmeticOp.MIN)


class AddConstKernel(ElementwiseKernel):
    """Integers: times the multiplier into 32 bits, plus the constant, shifted half up."""

    def refuse(self, node: Node) -> str | None:
        if is_integer(node.result_type) and abs(node.op.const_val) >= 1 << 30:
            return f"a constant below 2**30 in the result's scale, this one is {node.op.const_val:g}"
        return zero_point_refusal([*node.operand_types, node.result_type]) or super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("sum", 4),) if is_integer(node.result_type) else ()

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        source = operand(placed.operand(0))
        if not is_integer(node.result_type):
            arithmetic(asm, ArithmeticOp.ADD, shape, result, source, Scalar.of(node.op.const_val, DType.F32))
        else:
            total = Operand(placed.scratch["sum"].address, DType.INT32)
            constant = Scalar.of(round(node.op.const_val), DType.INT32)
            arithmetic(asm, ArithmeticOp.MUL, shape, total, source, Scalar.of(node.op.multiplier, DType.INT8))
            arithmetic(asm, ArithmeticOp.ADD, shape, total, total, constant)
            asm.record(
                Requantise(
                    operation=RequantiseOp.REQUANTISE,
                    shape=shape,
                    result=result,
                    input=total,
                    multiplier=1,
                    shift=-node.op.rshift,
                    rounding=Rounding.HALF_UP,
                )
            )
        emit_relu(node, placed.result, asm)


class MulConstKernel(ElementwiseKernel):
    """Floats times a number."""

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        factor = Scalar.of(node.op.const_val, DType.F32)
        source, result = operand(placed.operand(0)), operand(placed.result)
        arithmetic(asm, ArithmeticOp.MUL, placed.result.shape, result, source, factor)
        emit_relu(node, placed.result, asm)


class MulShiftKernel(ElementwiseKernel):
    """Integers in another scale: one saturating product with a shift, or two steps where the sign does not fit."""

    def refuse(self, node: Node) -> str | None:
        if not -128 <= node.op.multiplier <= 127:
            return f"an 8-bit multiplier, this one is {node.op.multiplier}"
        return zero_point_refusal([*node.operand_types, node.result_type]) or super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return () if _is_direct(node) else (("wide", 2),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        target = result if _is_direct(node) else Operand(placed.scratch["wide"].address, DType.INT16)
        arithmetic(
            asm,
            ArithmeticOp.MUL_SATURATE,
            shape,
            target,
            operand(placed.operand(0)),
            Scalar.of(node.op.multiplier, DType.INT8.with_sign(target.dtype.signed)),
            third=Scalar.of(-node.op.rshift, DType.INT8),
            rounding=Rounding(node.op.round_mode),
        )
        if target is not result:
            arithmetic(asm, ArithmeticOp.CAST, shape, result, target)


def _is_direct(node: Node) -> bool:
    """A product is unsigned only when both factors are."""
    if not node.result_type.storage.is_unsigned:
        return True
    return node.operand_types[0].storage.is_unsigned and node.op.multiplier >= 0


class ClipKernel(ElementwiseKernel):
    """Two bounds in the stored type."""

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        emit_clamp(placed.operand(0), placed.result, node.op.bounds(node.result_type), asm)


class LeakyReluKernel(ElementwiseKernel):
    """Floats: `max(x, 0) + alpha * min(x, 0)`, exact because one of the two is 0."""

    temporaries = (("below", 4),)

    def refuse(self, node: Node) -> str | None:
        if is_integer(node.result_type):
            return "integers have no kernel; use tpu.Lut"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, zero = placed.result.shape, Scalar.of(0.0, DType.F32)
        x, result = operand(placed.operand(0)), operand(placed.result)
        below = Operand(placed.scratch["below"].address, DType.F32)
        arithmetic(asm, ArithmeticOp.MIN, shape, below, x, zero)
        arithmetic(asm, ArithmeticOp.MUL, shape, below, below, Scalar.of(node.op.alpha, DType.F32))
        arithmetic(asm, ArithmeticOp.MAX, shape, result, x, zero)
        arithmetic(asm, ArithmeticOp.ADD, shape, result, result, below)


class PReluKernel(ElementwiseKernel):
    """The slope of each channel is resident: `max(x, 0)` and `slope * min(x, 0)`, each in the result's scale, added."""

    def refuse(self, node: Node) -> str | None:
        x, slope = node.operand_types[:2]
        channels = x.dims[1] if len(x.dims) > 1 else 1
        rest = (1,) * (len(slope.dims) - 1)
        if slope.size != channels or (len(slope.dims) == len(x.dims) and slope.dims[:1] + slope.dims[2:] != rest):
            return f"one slope per channel, there are {slope.size} of shape {slope.dims} for {channels} channels"
        return zero_point_refusal([x, node.result_type]) or super().refuse(node)

    def space(self, node: Node) -> Space:
        space = elementwise_space(node)
        operands: tuple[View | None, ...] = (space.operands[0], *(None for _ in node.operand_types[1:]))
        return Space(space.axes, operands, space.results)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("above", 2), ("below", 2)) if is_integer(node.result_type) else (("above", 4), ("below", 4))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("slope", ("c",)),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        return min(channels, LANES), slots_of(channels) * (node.operand_types[1].storage.bits // 8)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        slopes = arrays[1]
        assert slopes is not None
        start, stop = tile.range("c")
        return by_lane(slopes.reshape(-1, 1)[start:stop])

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        x, result = operand(placed.operand(0)), operand(placed.result)
        integer = is_integer(node.result_type)
        wide = DType.INT16 if integer else DType.F32
        above, below = (Operand(placed.scratch[name].address, wide) for name in ("above", "below"))
        dtype = DType.INT8 if integer else DType.F32
        slope = Operand(placed.constants["slope"].address, dtype, (0, 1, 0, 0))
        if not integer:
            for operation, half in zip(_HALVES, (above, below), strict=True):
                arithmetic(asm, operation, shape, half, x, Scalar.of(0.0, DType.F32))
            arithmetic(asm, ArithmeticOp.MUL, shape, below, below, slope)
            arithmetic(asm, ArithmeticOp.ADD, shape, result, above, below)
            return
        arithmetic(asm, ArithmeticOp.CAST, shape, above, x)
        arithmetic(asm, ArithmeticOp.MIN, shape, below, above, Scalar.of(0, wide))
        arithmetic(asm, ArithmeticOp.MAX, shape, above, above, Scalar.of(0, wide))
        self._scale(node, shape, below, slope, node.op.rshift, asm)
        if node.op.multiplier_pos is not None:
            factor = Scalar.of(node.op.multiplier_pos, DType.INT8)
            self._scale(node, shape, above, factor, node.op.rshift_pos or 0, asm)
        if result.dtype.signed:
            arithmetic(asm, ArithmeticOp.ADD_SATURATE, shape, result, above, below)
            return
        arithmetic(asm, ArithmeticOp.ADD_SATURATE, shape, above, above, below)
        arithmetic(asm, ArithmeticOp.CAST, shape, result, above)

    def _scale(
        self,
        node: Node,
        shape: tuple[int, int, int, int],
        values: Operand,
        factor: Operand | Scalar,
        shift: int,
        asm: Bm1684xAssembler,
    ) -> None:
        arithmetic(
            asm,
            ArithmeticOp.MUL_SATURATE,
            shape,
            values,
            values,
            factor,
            third=Scalar.of(-shift, DType.INT8),
            rounding=Rounding(node.op.round_mode),
        )
