"""Sum, difference, product and quotient of two tensors."""

from __future__ import annotations

from typing import Any

from tpuc.api import LocalTensor, Node, Phase, PlacedTile
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Requantise, RequantiseOp, Scalar
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import zero_point_refusal
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.operands import operand

DIVISION_STEPS = 3  # as the vendor's compiler: at most 5 units in the last place off


class BinaryKernel(ElementwiseKernel):
    """Base of ops of two operands."""

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if any(factor != 1.0 for factor in getattr(node.op, "coeff", None) or ()) and not node.result_type.is_quantised:
            return "coefficients other than 1 have no kernel"
        return zero_point_refusal([*node.operand_types, node.result_type]) or super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("left", 2), ("right", 2)) if node.result_type.is_quantised else ()


class SumKernel(BinaryKernel):
    """`tpu.Add` and `tpu.Sub`.

    Integers: each operand times its multiplier, shifted half up into 16 bits; then a saturating sum or difference.
    """

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantised and len(node.op.rshifts) != len(node.operand_types):
            return "one shift per operand, this one has a common one"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        sources = self.sources(node, placed, asm)
        subtracts = node.op.name == "tpu.Sub"
        if subtracts and node.op.is_reverse:
            sources.reverse()
        if not node.result_type.is_quantised:
            operation = ArithmeticOp.SUB if subtracts else ArithmeticOp.ADD
            arithmetic(asm, operation, shape, result, *sources)
        else:
            self._integers(node, placed, sources, subtracts, asm)
        emit_relu(node, placed.result, asm)

    def _integers(
        self, node: Node, placed: PlacedTile, sources: list[Operand], subtracts: bool, asm: Bm1684xAssembler
    ) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        scales = list(zip(node.op.multipliers, node.op.rshifts, strict=True))
        if subtracts and node.op.is_reverse:
            scales.reverse()
        # A saturating sum is unsigned only when both of its operands are; there is no field for the result's sign.
        unsigned = not subtracts and min(node.op.multipliers) >= 0 and not any(s.dtype.signed for s in sources)
        wide = DType.UINT16 if unsigned else DType.INT16
        left, right = (Operand(placed.scratch[name].address, wide) for name in ("left", "right"))
        for source, target, (multiplier, shift) in zip(sources, (left, right), scales, strict=True):
            arithmetic(
                asm,
                ArithmeticOp.MUL_SATURATE,
                shape,
                target,
                source,
                Scalar.of(multiplier, DType.INT8.with_sign(wide.signed)),
                third=Scalar.of(-shift, DType.INT8),
                rounding=Rounding.HALF_UP,
            )
        operation = ArithmeticOp.SUB_SATURATE if subtracts else ArithmeticOp.ADD_SATURATE
        direct = result.dtype.signed != unsigned
        arithmetic(asm, operation, shape, result if direct else left, left, right)
        if not direct:
            arithmetic(asm, ArithmeticOp.CAST, shape, result, left)


class MulKernel(BinaryKernel):
    """Integers: the exact product in 16 bits, then one requantisation of it by a common multiplier and shift."""

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantised and node.op.quant_mode != "MultiplierShift":
            return f"only quant_mode MultiplierShift, this one is {node.op.quant_mode}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("product", 4),) if node.result_type.is_quantised else ()

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        left, right = self.sources(node, placed, asm)
        if not node.result_type.is_quantised:
            arithmetic(asm, ArithmeticOp.MUL, shape, result, left, right)
        else:
            product = Operand(placed.scratch["product"].address, DType.INT32)
            arithmetic(asm, ArithmeticOp.MUL, shape, product, left, right)
            emit_requantise(node, product, placed.result, asm)
        emit_relu(node, placed.result, asm)


def emit_requantise(node: Node, source: Operand, result: LocalTensor, asm: Bm1684xAssembler) -> None:
    """Stored result = `source * multiplier / 2**rshift`, rounded as the op says; `source` lies like the result."""
    op: Any = node.op
    asm.record(
        Requantise(
            operation=RequantiseOp.REQUANTISE,
            shape=result.shape,
            result=operand(result),
            input=source,
            multiplier=op.multiplier,
            shift=-op.rshift,
            zero_point=zero_point(node.result_type),
            rounding=Rounding(op.round_mode),
        )
    )


class DivKernel(BinaryKernel):
    """f32 only; the chip divides by iteration."""

    def refuse(self, node: Node) -> str | None:
        if node.result_type.storage.name != "f32":
            return f"only f32, this one is {node.result_type.storage.name}"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right = self.sources(node, placed, asm)
        if node.op.is_reverse:
            left, right = right, left
        result = operand(placed.result)
        arithmetic(asm, ArithmeticOp.DIV, placed.result.shape, result, left, right, iterations=DIVISION_STEPS)
        emit_relu(node, placed.result, asm)
