"""Multiply bytes by a constant and add a constant, in 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import KernelChoice, Node, Phase, PlacedTile, Scratch, Tile
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, Target
from tpuc_cv18.kernels.elementwise import MAX_SHIFT, ElementwiseKernel, finish
from tpuc_cv18.kernels.unary import AddConstKernel
from tpuc_cv18.operands import operand

_SIGN, _MOST_SIGNED = 128, 127
_LOW, _HIGH = -(1 << 15), (1 << 15) - 1


class ByteSumKernel(ElementwiseKernel):
    """Multiplies by a byte into two planes, the lower of which is the result; then adds and shifts.

    A change of the sign convention alone takes one command.
    """

    def refuse(self, node: Node) -> str | None:
        op = node.op
        most = 255 if node.operand_types[0].storage.is_unsigned else 127
        if not (-128 <= op.multiplier <= most and 0 <= op.rshift <= MAX_SHIFT):
            return f"a multiplier of one byte and a shift up to {MAX_SHIFT}, not {op.multiplier} and {op.rshift}"
        if not (float(op.const_val).is_integer() and _LOW <= op.const_val <= _HIGH):
            return f"the constant must be a 16-bit integer, this one is {op.const_val:g}"
        if op.do_relu and op.relu_limit > 0:
            return "relu_limit has no kernel here"
        return super().refuse(node)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if _turns_sign(node):
            return ()
        return (Scratch("high", self.planes_bytes(tile_shape(tile)), above_results=True),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        op, shape, result, source = node.op, placed.result.shape, operand(placed.result), operand(placed.operand(0))
        if _turns_sign(node):
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.XOR,
                    shape=shape,
                    result=Operand(result.address, DType.UINT8, result.layout),
                    left=Operand(source.address, DType.UINT8, source.layout),
                    right=Scalar.of(_SIGN, DType.UINT8),
                )
            )
            return
        step, is_positive = placed.scratch["high"].address - result.address, op.multiplier > _MOST_SIGNED
        wide = Operand(result.address, DType.UINT16 if is_positive else DType.INT16, plane_step=step)
        factor = Scalar.of(op.multiplier, DType.UINT8 if is_positive else DType.INT8)
        asm.record(Arithmetic(operation=ArithmeticOp.MUL, shape=shape, result=wide, left=source, right=factor))
        finish(result, wide, shape, op.rshift, op.do_relu, asm, int(op.const_val))


def _turns_sign(node: Node) -> bool:
    """True when the op shifts all values by half of their range."""
    op, (source, result) = node.op, (node.operand_types[0].storage, node.result_type.storage)
    wanted = _SIGN if result.is_unsigned else -_SIGN
    is_move = (op.multiplier, op.rshift, op.const_val, op.do_relu) == (1, 0, wanted, False)
    return is_move and source.is_unsigned != result.is_unsigned


class AnyAddConstKernel(KernelChoice[tpu.AddConst]):
    """Chooses the kernel for bytes or for bf16."""

    def __init__(self, target: Target) -> None:
        self._bytes, self._floats = ByteSumKernel(target), AddConstKernel(target)

    def kernel(self, node: Node) -> ElementwiseKernel:
        return self._bytes if node.result_type.is_quantized else self._floats
