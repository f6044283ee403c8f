"""Elementwise kernels of one tensor with constants or slopes."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Node, Phase, PlacedTile, Scratch, Tile
from tpuc_chip_parts.tiles import tile_shape

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.elementwise import MAX_SHIFT, ElementwiseKernel
from tpuc_cv18.operands import operand


class MulShiftKernel(ElementwiseKernel):
    """Multiplies by a signed byte and shifts, rounding half up."""

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
    """Base of ops on a bf16 tensor and a constant."""

    operation: ArithmeticOp

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantized:
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
    """Multiplies by a constant."""

    operation = ArithmeticOp.MUL


class AddConstKernel(ConstantKernel):
    """Adds a constant."""

    operation = ArithmeticOp.ADD


class PReluKernel(ElementwiseKernel):
    """Scales the positive and the negative part separately; one of them is 0, so a bitwise OR joins them. bf16
    adds them.
    """

    def refuse(self, node: Node) -> str | None:
        op = node.op
        if not node.result_type.is_quantized:
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
    """bf16: the maximum of the value and its product with the slope for slopes up to 1, the minimum for larger ones."""

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantized:
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
