"""Element-wise kernels of one tensor and numbers, and tables of 256 entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tpuc.api import Node, PackedConstant, Phase, PlacedTile, ScalarType, Scratch, Shape4, Space, Tile
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Lookup, Operand, Scalar, Target, natural_strides
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, elementwise_space, flat_space
from tpuc_cv18.kernels.elementwise import MAX_SHIFT, ElementwiseKernel
from tpuc_cv18.operands import operand

_ENTRIES = 256


class LutKernel(LaneKernel[tpu.Lut]):
    """Every lane holds the whole table, or those of its channels; the stored byte, taken without sign, is the index."""

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.bits != 8:
            return f"entries of 8 bits, these have {node.operand_types[1].storage.bits}"
        return element_refusal(_without_constant(node), points=True)

    def space(self, node: Node) -> Space:
        alone = _without_constant(node)
        space_of = elementwise_space if _by_channel(node) else flat_space
        space = space_of(self.lanes, alone)
        return Space(space.axes, (*space.operands, None), space.results)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("table", ("c",)) if _by_channel(node) else PackedConstant("table", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if not _by_channel(node):
            return 1, _ENTRIES
        channels = tile.size("c")
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * _ENTRIES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        table = arrays[1]
        assert table is not None
        rows = np.ascontiguousarray(table).reshape(-1, _ENTRIES).view(np.uint8)
        return self.lanes.by_lane(rows[slice(*tile.range("c"))]) if _by_channel(node) else rows

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        x, result, table = placed.operand(0), placed.result, placed.constants["table"].address
        parts = _table_parts(result.shape, self.target) if _by_channel(node) else [(result.shape, 0, 0)]
        for shape, offset, group in parts:
            asm.record(
                Lookup(
                    shape=shape,
                    result=Operand(result.address + offset, DType.UINT8),
                    input=Operand(x.address + offset, DType.UINT8),
                    table=table + group * _ENTRIES,
                )
            )


def _by_channel(node: Node) -> bool:
    return node.operand_types[1].size != _ENTRIES


def _table_parts(shape: Shape4, target: Target) -> Iterator[tuple[Shape4, int, int]]:
    """Parts of a tile whose channels lie in lanes of their own: shape, offset in bytes, and index of the channels."""
    n, c, h, w = shape
    image, plane, _, _ = natural_strides(target, shape, 1)
    if c <= target.lanes:
        yield shape, 0, 0
        return
    for group in range(target.groups_of(c)):
        channels = min(target.lanes, c - group * target.lanes)
        for index in range(n):
            yield (1, channels, h, w), index * image + group * plane, group


def _without_constant(node: Node) -> Node:
    """With bytes that mean themselves: a table says what they become, whatever they meant."""
    index = node.operand_types[0]
    plain = index.with_element(ScalarType(index.storage.name))
    return Node(node.op, (plain,), node.result_types, node.name)


class MulShiftKernel(ElementwiseKernel):
    """A product with a signed byte, shifted half up."""

    def refuse(self, node: Node) -> str | None:
        op = node.op
        if not (-128 <= op.multiplier <= 127 and 0 <= op.rshift <= MAX_SHIFT):
            return f"a multiplier of one signed byte and a shift up to {MAX_SHIFT}, not {op.multiplier} and {op.rshift}"
        if op.round_mode != "HalfUp":
            return f"the chip rounds HalfUp, this one asks for {op.round_mode}"
        if node.result_type.storage.is_unsigned and (
            not node.operand_types[0].storage.is_unsigned or op.multiplier < 0
        ):
            return "an unsigned result of an unsigned operand and a positive multiplier only"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        result = operand(placed.result)
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.MUL,
                shape=placed.result.shape,
                result=result,
                left=operand(placed.operand(0)),
                right=Scalar.of(node.op.multiplier, result.dtype),
                shift=node.op.rshift,
            )
        )


class ConstantKernel(ElementwiseKernel):
    """Base: a bf16 tensor and a number."""

    operation: ArithmeticOp

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantised:
            return "bf16 only; integers take a table"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        asm.record(
            Arithmetic(
                operation=self.operation,
                shape=placed.result.shape,
                result=operand(placed.result),
                left=operand(placed.operand(0)),
                right=Scalar.of(node.op.const_val, DType.BF16),
                relu=node.op.do_relu,
            )
        )
        emit_limit(node, placed.result, asm)


class MulConstKernel(ConstantKernel):
    """Times a number."""

    operation = ArithmeticOp.MUL


class AddConstKernel(ConstantKernel):
    """Plus a number."""

    operation = ArithmeticOp.ADD


class PReluKernel(ElementwiseKernel):
    """What is above 0 and what is below, each scaled by itself; one of them is 0, so that a logical OR joins them.

    bf16 adds them.
    """

    def refuse(self, node: Node) -> str | None:
        op = node.op
        if not node.result_type.is_quantised:
            return super().refuse(node)
        if any(type_.storage.is_unsigned for type_ in (*node.operand_types, node.result_type)):
            return "int8 operand, slopes and result; unsigned values are never below 0"
        if op.multiplier_pos is None:
            return "the factor above 0 must be given"
        shifts = (op.rshift, op.rshift_pos or 0)
        if not (0 <= op.multiplier_pos <= 127 and min(shifts) >= 0 and max(shifts) <= MAX_SHIFT):
            return f"a factor of one byte and shifts up to {MAX_SHIFT}, not {op.multiplier_pos} and {shifts}"
        if op.round_mode != "HalfUp":
            return f"the chip rounds HalfUp, this one asks for {op.round_mode}"
        return super().refuse(node)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        size = node.operand_types[0].storage.bits // 8
        return (Scratch("below", self.planes_bytes(tile_shape(tile), size)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        x, slope = self.sources(placed)
        op, shape, result = node.op, placed.result.shape, operand(placed.result)
        floats = x.dtype.is_float
        below = Operand(placed.scratch["below"].address, x.dtype)
        zero = Scalar.of(0, x.dtype)

        def step(
            operation: ArithmeticOp, target: Operand, left: Operand, right: Operand | Scalar, shift: int, relu: bool
        ) -> None:
            asm.record(
                Arithmetic(
                    operation=operation, shape=shape, result=target, left=left, right=right, shift=shift, relu=relu
                )
            )

        step(ArithmeticOp.MIN, below, x, zero, 0, relu=False)
        if floats:
            step(ArithmeticOp.MUL, below, below, slope, 0, relu=False)
            step(ArithmeticOp.MAX, result, x, zero, 0, relu=False)
            step(ArithmeticOp.ADD, result, result, below, 0, relu=False)
            return
        negative = Operand(below.address, result.dtype)
        step(ArithmeticOp.MUL, negative, below, slope, op.rshift, relu=False)
        factor = Scalar.of(op.multiplier_pos, DType.INT8)
        step(ArithmeticOp.MUL, result, x, factor, op.rshift_pos or 0, relu=True)
        plain = (Operand(result.address, DType.UINT8), Operand(negative.address, DType.UINT8))
        step(ArithmeticOp.OR, plain[0], plain[0], plain[1], 0, relu=False)


class LeakyReluKernel(ElementwiseKernel):
    """bf16: the larger of the value and its product with a slope below 1, the smaller with one above."""

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantised:
            return "bf16 only; integers take a table"
        return super().refuse(node)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("scaled", self.planes_bytes(tile_shape(tile), 2)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        shape, x, result = placed.result.shape, operand(placed.operand(0)), operand(placed.result)
        scaled = Operand(placed.scratch["scaled"].address, DType.BF16)
        alpha = node.op.alpha or 0.0
        factor = Scalar.of(alpha, DType.BF16)
        asm.record(Arithmetic(operation=ArithmeticOp.MUL, shape=shape, result=scaled, left=x, right=factor))
        choose = ArithmeticOp.MAX if alpha <= 1.0 else ArithmeticOp.MIN
        asm.record(Arithmetic(operation=choose, shape=shape, result=result, left=x, right=scaled))
