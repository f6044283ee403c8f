"""Ops on one tensor with constants or slopes: addition, multiplication, clipping, leaky relu, PRelu."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Candidate, Node, PackedConstant, Phase, PlacedTile, Space, Tile, View
from tpuc_ops.arrays import Array
from tpuc_ops.integers import is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.activation import emit_clamp, emit_relu
from tpuc_bm1684x.kernels.binary import emit_rescale
from tpuc_bm1684x.kernels.common import elementwise_space
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.kernels.planes import plane_candidates
from tpuc_bm1684x.operands import operand

_HALVES = (ArithmeticOp.MAX, ArithmeticOp.MIN)


class AddConstKernel(ElementwiseKernel):
    """Integers: multiply to 32 bits, add the constant, shift with half-up rounding."""

    def refuse(self, node: Node) -> str | None:
        if is_integer(node.result_type) and abs(node.op.const_val) >= 1 << 30:
            return f"a constant below 2**30 in the result's scale, this one is {node.op.const_val:g}"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("sum", 4),) if is_integer(node.result_type) else ()

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return (*plane_candidates(self, node, self.target), *super().kernels(node))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        source = operand(placed.operand(0))
        if not is_integer(node.result_type):
            arithmetic(asm, ArithmeticOp.ADD, shape, result, source, Scalar.of(node.op.const_val, source.dtype))
        else:
            total = Operand(placed.scratch["sum"].address, DType.INT32)
            factor: int = node.op.multiplier
            constant = round(node.op.const_val) - factor * zero_point(node.operand_types[0])
            arithmetic(asm, ArithmeticOp.MUL, shape, total, source, Scalar.of(factor, DType.INT32))
            arithmetic(asm, ArithmeticOp.ADD, shape, total, total, Scalar.of(constant, DType.INT32))
            point = zero_point(node.result_type)
            emit_rescale(total, placed.result, point, 1, node.op.rshift, Rounding.HALF_UP, asm)
        emit_relu(node, placed.result, asm)


class MulConstKernel(ElementwiseKernel):
    """Multiplies floats by a constant."""

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return (*plane_candidates(self, node, self.target), *super().kernels(node))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        factor = Scalar.of(node.op.const_val, source.dtype)
        arithmetic(asm, ArithmeticOp.MUL, placed.result.shape, result, source, factor)
        emit_relu(node, placed.result, asm)


class MulShiftKernel(ElementwiseKernel):
    """Rescales integers.

    An 8-bit multiplier without zero points takes one saturating multiplication with a shift, or two steps where the
    sign does not fit. Otherwise the values minus their zero point are requantized.
    """

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return () if _fits_product(node) and _is_direct(node) else (("wide", 2),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        source, rounding = operand(placed.operand(0)), Rounding(node.op.round_mode)
        if not _fits_product(node):
            wide = Operand(placed.scratch["wide"].address, DType.INT16)
            zero = Scalar.of(zero_point(node.operand_types[0]), DType.INT16)
            arithmetic(asm, ArithmeticOp.SUB, shape, wide, source, zero)
            point = zero_point(node.result_type)
            emit_rescale(wide, placed.result, point, node.op.multiplier, node.op.rshift, rounding, asm)
            return
        target = result if _is_direct(node) else Operand(placed.scratch["wide"].address, DType.INT16)
        arithmetic(
            asm,
            ArithmeticOp.MUL_SATURATE,
            shape,
            target,
            source,
            Scalar.of(node.op.multiplier, DType.INT8.with_sign(target.dtype.signed)),
            third=Scalar.of(-node.op.rshift, DType.INT8),
            rounding=rounding,
        )
        if target is not result:
            arithmetic(asm, ArithmeticOp.CAST, shape, result, target)


def _fits_product(node: Node) -> bool:
    """True when a saturating multiplication suffices."""
    points = zero_point(node.operand_types[0]) or zero_point(node.result_type)
    return not points and -128 <= node.op.multiplier <= 127


def _is_direct(node: Node) -> bool:
    """True when the product has the result's sign; a product is unsigned only if both factors are."""
    if not node.result_type.storage.is_unsigned:
        return True
    return node.operand_types[0].storage.is_unsigned and node.op.multiplier >= 0


class ClipKernel(ElementwiseKernel):
    """Clamps to two bounds in the stored type."""

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        emit_clamp(placed.operand(0), placed.result, node.op.bounds(node.result_type), asm)


class LeakyReluKernel(ElementwiseKernel):
    """Floats: `max(x, 0) + alpha * min(x, 0)`, which is exact because one term is always 0.

    Integers: the larger of both products, or the smaller one where negative values have the larger factor.
    """

    def refuse(self, node: Node) -> str | None:
        types = (*node.operand_types, node.result_type)
        if is_integer(node.result_type):
            if node.op.multiplier_neg is None:
                return "integers need multiplier_neg; use tpu.Lut"
            if any(type_.storage.is_unsigned or zero_point(type_) for type_ in types):
                return "only signed integers without zero points; use tpu.Lut"
        return super().refuse(node)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        if not is_integer(node.result_type):
            return (("below", 4),)
        return (("below", 1),) if node.op.multiplier is None else (("below", 1), ("above", 1))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = operand(placed.operand(0)), operand(placed.result)
        shape, zero = placed.result.shape, Scalar.of(0.0, x.dtype)
        below = Operand(placed.scratch["below"].address, x.dtype)
        if is_integer(node.result_type):
            self._larger(node, placed, below, asm)
            return
        arithmetic(asm, ArithmeticOp.MIN, shape, below, x, zero)
        arithmetic(asm, ArithmeticOp.MUL, shape, below, below, Scalar.of(node.op.alpha, x.dtype))
        arithmetic(asm, ArithmeticOp.MAX, shape, result, x, zero)
        arithmetic(asm, ArithmeticOp.ADD, shape, result, result, below)

    @staticmethod
    def _larger(node: Node, placed: PlacedTile, below: Operand, asm: Bm1684xAssembler) -> None:
        op, x, shape = node.op, operand(placed.operand(0)), placed.result.shape
        above, factor = x, 1.0
        products = [(below, op.multiplier_neg, op.rshift_neg or 0)]
        if op.multiplier is not None:
            above, factor = Operand(placed.scratch["above"].address, x.dtype), op.multiplier / 2.0 ** (op.rshift or 0)
            products.append((above, op.multiplier, op.rshift or 0))
        for target, multiplier, shift in products:
            number, third = Scalar.of(multiplier, DType.INT16), Scalar.of(-shift, DType.INT8)
            rounding = Rounding(op.round_mode)
            arithmetic(asm, ArithmeticOp.MUL_SATURATE, shape, target, x, number, third=third, rounding=rounding)
        is_less = op.multiplier_neg / 2.0 ** (op.rshift_neg or 0) <= factor
        operation = ArithmeticOp.MAX if is_less else ArithmeticOp.MIN
        arithmetic(asm, operation, shape, operand(placed.result), above, below)


class PReluKernel(ElementwiseKernel):
    """Adds `max(x, 0)` and `slope * min(x, 0)`, each rescaled to the result; the slopes of the channels are
    resident.
    """

    def refuse(self, node: Node) -> str | None:
        x, slope = node.operand_types[:2]
        channels = x.dims[1] if len(x.dims) > 1 else 1
        rest = (1,) * (len(slope.dims) - 1)
        if slope.size != channels or (len(slope.dims) == len(x.dims) and slope.dims[:1] + slope.dims[2:] != rest):
            return f"one slope per channel, there are {slope.size} of shape {slope.dims} for {channels} channels"
        return super().refuse(node)

    def space(self, node: Node) -> Space:
        space = elementwise_space(node, self.target)
        operands: tuple[View | None, ...] = (space.operands[0], *(None for _ in node.operand_types[1:]))
        return Space(space.axes, operands, space.results)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        """Slopes belong to channels, so there is a single space."""
        return (Candidate(self, self.space(node)),)

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        return (("above", 2), ("below", 2)) if is_integer(node.result_type) else (("above", 4), ("below", 4))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("slope", ("c",)),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * (
            node.operand_types[1].storage.bits // 8
        )

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        slopes = arrays[1]
        assert slopes is not None
        start, stop = tile.range("c")
        return self.lanes.by_lane(slopes.reshape(-1, 1)[start:stop])

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        x, result = operand(placed.operand(0)), operand(placed.result)
        integer = is_integer(node.result_type)
        wide = DType.INT16 if integer else x.dtype
        above, below = (Operand(placed.scratch[name].address, wide) for name in ("above", "below"))
        dtype = DType.INT8 if integer else x.dtype
        slope = Operand(placed.constants["slope"].address, dtype, (0, 1, 0, 0))
        if not integer:
            for operation, half in zip(_HALVES, (above, below), strict=True):
                arithmetic(asm, operation, shape, half, x, Scalar.of(0.0, x.dtype))
            arithmetic(asm, ArithmeticOp.MUL, shape, below, below, slope)
            arithmetic(asm, ArithmeticOp.ADD, shape, result, above, below)
            return
        zero = zero_point(node.operand_types[0])
        if zero:
            arithmetic(asm, ArithmeticOp.SUB, shape, above, x, Scalar.of(zero, wide))
        else:
            arithmetic(asm, ArithmeticOp.CAST, shape, above, x)
        arithmetic(asm, ArithmeticOp.MIN, shape, below, above, Scalar.of(0, wide))
        arithmetic(asm, ArithmeticOp.MAX, shape, above, above, Scalar.of(0, wide))
        self._scale(node, shape, below, slope, node.op.rshift, asm)
        if node.op.multiplier_pos is not None:
            factor = Scalar.of(node.op.multiplier_pos, DType.INT8)
            self._scale(node, shape, above, factor, node.op.rshift_pos or 0, asm)
        point = zero_point(node.result_type)
        if result.dtype.signed and not point:
            arithmetic(asm, ArithmeticOp.ADD_SATURATE, shape, result, above, below)
            return
        arithmetic(asm, ArithmeticOp.ADD_SATURATE, shape, above, above, below)
        if point:
            arithmetic(asm, ArithmeticOp.ADD_SATURATE, shape, above, above, Scalar.of(point, wide))
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
