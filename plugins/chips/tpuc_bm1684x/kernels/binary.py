"""Addition, subtraction, multiplication and division of two tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuc.api import Layouts, LocalTensor, Node, Phase, PlacedTile
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Requantize, RequantizeOp, Scalar
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import zero_point_refusal
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.operands import operand

DIVISION_STEPS = 3  # as the vendor's compiler: at most 5 units in the last place off
NARROW_DIVISION_STEPS = 2  # for results of 16 bits: at most 1e-5 of the quotient off


class BinaryKernel(ElementwiseKernel):
    """Base of kernels with two operands."""

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if any(factor != 1.0 for factor in getattr(node.op, "coeff", None) or ()) and not node.result_type.is_quantized:
            return "coefficients other than 1 have no kernel"
        return super().refuse(node)

    def layouts(self, node: Node) -> Layouts:
        """Parts of larger operands are read where they are, unless one is broadcast over lanes first."""
        layouts = super().layouts(node)
        return layouts if self.spread_operands(node) else replace(layouts, strided=frozenset((0, 1)))

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("left", 2), ("right", 2)) if node.result_type.is_quantized else ()


class SumKernel(BinaryKernel):
    """`tpu.Add` and `tpu.Sub`.

    Integers: multiply each operand by its multiplier and shift it, rounding half up, to 16 bits; then add or subtract
    with saturation, with a shift of the sum if the op has one. With a single common shift, the products are added in 32
    bits and shifted together, which supports zero points.
    """

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantized and len(node.op.rshifts) != 1:
            if len(node.op.rshifts) - len(node.operand_types) not in (0, 1):
                return f"one shift, one per operand, or one more; there are {len(node.op.rshifts)}"
            points = zero_point_refusal([*node.operand_types, node.result_type])
            if points is not None:
                return f"with a shift per operand {points}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        if node.result_type.is_quantized and len(node.op.rshifts) == 1:
            return (("left", 4), ("right", 4))
        return super().needed(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        sources = self.sources(node, placed, asm)
        subtracts = node.op.name == "tpu.Sub"
        if subtracts and node.op.is_reverse:
            sources.reverse()
        if not node.result_type.is_quantized:
            operation = ArithmeticOp.SUB if subtracts else ArithmeticOp.ADD
            arithmetic(asm, operation, shape, result, *sources)
        elif len(node.op.rshifts) == 1:
            self._shifted_together(node, placed, sources, subtracts, asm)
        else:
            self._integers(node, placed, sources, subtracts, asm)
        emit_relu(node, placed.result, asm)

    def _integers(
        self, node: Node, placed: PlacedTile, sources: list[Operand], subtracts: bool, asm: Bm1684xAssembler
    ) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        scales = list(zip(node.op.multipliers, node.op.rshifts, strict=False))
        last = node.op.rshifts[len(scales) :]
        if subtracts and node.op.is_reverse:
            scales.reverse()
        # A saturating sum is unsigned only when both of its operands are; there is no field for the result's sign.
        unsigned = not subtracts and min(node.op.multipliers) >= 0 and not any(s.dtype.signed for s in sources)
        wide = DType.UINT16 if unsigned else DType.INT16
        narrow = DType.INT8 if all(-128 <= multiplier <= 127 for multiplier, _ in scales) else DType.INT16
        left, right = (Operand(placed.scratch[name].address, wide) for name in ("left", "right"))
        for source, target, (multiplier, shift) in zip(sources, (left, right), scales, strict=True):
            arithmetic(
                asm,
                ArithmeticOp.MUL_SATURATE,
                shape,
                target,
                source,
                Scalar.of(multiplier, narrow.with_sign(wide.signed)),
                third=Scalar.of(-shift, DType.INT8),
                rounding=Rounding.HALF_UP,
            )
        operation = ArithmeticOp.SUB_SATURATE if subtracts else ArithmeticOp.ADD_SATURATE
        direct = result.dtype.signed != unsigned
        arithmetic(
            asm,
            operation,
            shape,
            result if direct else left,
            left,
            right,
            third=Scalar.of(-last[0], DType.INT8) if last else None,
            rounding=Rounding.HALF_UP if last else Rounding.HALF_TO_EVEN,
        )
        if not direct:
            arithmetic(asm, ArithmeticOp.CAST, shape, result, left)

    def _shifted_together(
        self, node: Node, placed: PlacedTile, sources: list[Operand], subtracts: bool, asm: Bm1684xAssembler
    ) -> None:
        """Sum products in 32 bits and requantize once. Zero points are folded into one constant that is added before
        the shift.
        """
        shape = placed.result.shape
        terms = [
            (multiplier, zero_point(type_))
            for multiplier, type_ in zip(node.op.multipliers, node.operand_types, strict=True)
        ]
        if subtracts and node.op.is_reverse:
            terms.reverse()
        left, right = (Operand(placed.scratch[name].address, DType.INT32) for name in ("left", "right"))
        for source, target, (multiplier, _) in zip(sources, (left, right), terms, strict=True):
            arithmetic(asm, ArithmeticOp.MUL, shape, target, source, Scalar.of(multiplier, DType.INT32))
        arithmetic(asm, ArithmeticOp.SUB if subtracts else ArithmeticOp.ADD, shape, left, left, right)
        first, second = (multiplier * point for multiplier, point in terms)
        zeros = first - second if subtracts else first + second
        if zeros:
            arithmetic(asm, ArithmeticOp.ADD, shape, left, left, Scalar.of(-zeros, DType.INT32))
        emit_rescale(left, placed.result, zero_point(node.result_type), 1, node.op.rshifts[0], Rounding.HALF_UP, asm)


class MulKernel(BinaryKernel):
    """Product of two tensors. Integers: the exact product without zero points, requantized once by a multiplier and a
    shift.
    """

    def refuse(self, node: Node) -> str | None:
        if node.result_type.is_quantized and node.op.quant_mode != "MultiplierShift":
            return f"only quant_mode MultiplierShift, this one is {node.op.quant_mode}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        if not node.result_type.is_quantized:
            return ()
        names = zip(("left", "right"), node.operand_types, strict=True)
        return (("product", 4), *((name, 2) for name, type_ in names if zero_point(type_)))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        left, right = self.sources(node, placed, asm)
        if not node.result_type.is_quantized:
            arithmetic(asm, ArithmeticOp.MUL, shape, result, left, right)
        else:
            product = Operand(placed.scratch["product"].address, DType.INT32)
            first, second = node.operand_types
            left = centered(left, zero_point(first), placed, "left", asm)
            right = centered(right, zero_point(second), placed, "right", asm)
            arithmetic(asm, ArithmeticOp.MUL, shape, product, left, right)
            emit_requantize(node, product, placed.result, asm)
        emit_relu(node, placed.result, asm)


def centered(source: Operand, point: int, placed: PlacedTile, name: str, asm: Bm1684xAssembler) -> Operand:
    """`source` minus its zero point, in the 16-bit scratch buffer `name`; `source` itself for zero point 0."""
    if not point:
        return source
    target = Operand(placed.scratch[name].address, DType.INT16)
    arithmetic(asm, ArithmeticOp.SUB, placed.result.shape, target, source, Scalar.of(point, DType.INT16))
    return target


def emit_requantize(node: Node, source: Operand, result: LocalTensor, asm: Bm1684xAssembler) -> None:
    """Requantize by the op's multiplier, shift and rounding; `source` has the result's layout."""
    op: Any = node.op
    emit_rescale(source, result, zero_point(node.result_type), op.multiplier, op.rshift, Rounding(op.round_mode), asm)


def emit_rescale(
    source: Operand,
    result: LocalTensor,
    point: int,
    multiplier: int,
    right_shift: int,
    rounding: Rounding,
    asm: Bm1684xAssembler,
) -> None:
    """Requantize (RQDQ) by one multiplier, shift and zero point; `source` has 16 or 32 bits."""
    asm.record(
        Requantize(
            operation=RequantizeOp.REQUANTIZE,
            shape=result.shape,
            result=operand(result),
            input=source,
            multiplier=multiplier,
            shift=-right_shift,
            zero_point=point,
            rounding=rounding,
        )
    )


class ExtremeKernel(BinaryKernel):
    """`tpu.Max` and `tpu.Min` of operands that share type and scale."""

    def refuse(self, node: Node) -> str | None:
        storages = {type_.storage.bits for type_ in (*node.operand_types, node.result_type)}
        if len(storages) > 1:
            return "operands and result of one type"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return ()

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        left, right = self.sources(node, placed, asm)
        operation = ArithmeticOp.MAX if node.op.name == "tpu.Max" else ArithmeticOp.MIN
        arithmetic(asm, operation, placed.result.shape, operand(placed.result), left, right)


class DivKernel(BinaryKernel):
    """Division in f32 only; the chip divides iteratively."""

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
