"""Random compute commands of every class that the vendor's clock times: shapes, lanes, banks, layouts, types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc.api import Instruction
from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    CompareOp,
    CompareSelect,
    DType,
    Gather,
    GatherLines,
    GatherLinesOp,
    GatherOp,
    LaneTransfer,
    Layout,
    Operand,
    Requantize,
    RequantizeOp,
    Scalar,
    ScaleBias,
    ScaleOp,
    SpecialFunction,
    SpecialOp,
    TransferOp,
)
from tpuc_bm1684x.isa.geometry import SMEM_BASE, lane_address
from tpuc_bm1684x.isa.types import Shape4, Strides

from tests.chips.bm1684x.draw import FLOATS, INTEGERS, Draw

OFFSETS = (0, 0x100, 0x2000, 0x4000, 0x8000, 0xC000, 0x10000, 0x14000)
"""Some in one bank of 16 KiB, some not."""
BANK_BYTES, UNIT_BYTES = 0x4000, 64
SINGLE = (ArithmeticOp.NOT, ArithmeticOp.CAST, ArithmeticOp.COPY, ArithmeticOp.ABS)
SUMS = (ArithmeticOp.ADD, ArithmeticOp.SUB, ArithmeticOp.MUL)
SATURATING = (ArithmeticOp.ADD_SATURATE, ArithmeticOp.SUB_SATURATE, ArithmeticOp.MUL_SATURATE)
BITS = (ArithmeticOp.AND, ArithmeticOp.OR, ArithmeticOp.XOR)
SHIFTS = (ArithmeticOp.ARITHMETIC_SHIFT, ArithmeticOp.LOGICAL_SHIFT)
SELECTS = (ArithmeticOp.SELECT_GREATER, ArithmeticOp.SELECT_EQUAL, ArithmeticOp.SELECT_LESS)
OTHERS = (
    ArithmeticOp.MAX,
    ArithmeticOp.MIN,
    ArithmeticOp.DIV,
    ArithmeticOp.ABS_DIFFERENCE,
    ArithmeticOp.MULTIPLY_ADD,
)


def extents(draw: Draw) -> Shape4:
    bits = draw.pick((1, 8, 4, 5), (2, 6, 3, 8), (0, 7, 6, 6), (1, 8, 6, 7))
    n, c, h, w = (int(2 ** draw.rng.uniform(0, most)) for most in bits)
    return n, c, h, w


def lane(draw: Draw) -> int:
    return draw.pick(0, 0, 0, 0, 0, draw.number(0, 64))


def at(draw: Draw, first_lane: int, beyond: int = 0) -> int:
    """An address in that lane: one of few, so that operands meet, or about the beginning of a bank."""
    near = BANK_BYTES * draw.number(0, 6) + UNIT_BYTES * draw.number(-100, 100)
    return lane_address(first_lane, draw.pick(*OFFSETS, max(near, 0)) + beyond)


def strides(draw: Draw, shape: Shape4, dtype: DType, first_lane: int) -> Strides:
    """Per channel, repeated along W, H or N, with gaps between elements or rows."""
    _, c, h, w = shape
    slots = -(-(c + first_lane) // 64)
    plane, rows = -(-h * w // dtype.vector) * dtype.vector, -(-h // dtype.vector) * dtype.vector
    wider, row = draw.pick(2, draw.number(2, 40)), w + draw.number(1, 40)
    spread = -(-row * h // dtype.vector) * dtype.vector
    return draw.pick(
        (0, 1, 0, 0),
        (0, 0, 0, 0),
        (rows * slots, rows, 1, 0),
        (plane * slots, plane, 0, 1),
        (0, plane, w, 1),
        (plane * slots * wider, plane * wider, w * wider, wider),
        (spread * slots, spread, row, 1),
    )


def types(draw: Draw, operation: ArithmeticOp) -> tuple[DType, DType, DType]:
    """Of left, right and result."""
    same = draw.pick(*FLOATS, *INTEGERS)
    if operation in (*BITS, ArithmeticOp.NOT):
        same = draw.pick(*INTEGERS)
    elif operation is ArithmeticOp.ABS:
        same = draw.pick(*FLOATS, DType.INT8, DType.INT16, DType.INT32)
    elif operation is ArithmeticOp.ABS_DIFFERENCE:
        same = draw.pick(*FLOATS)
    elif operation in (ArithmeticOp.DIV, ArithmeticOp.MULTIPLY_ADD):
        same = DType.F32
    elif operation is ArithmeticOp.CAST:
        return same, same, draw.pick(*FLOATS, *INTEGERS)
    elif operation in SHIFTS:
        return draw.pick(*INTEGERS), DType.INT8, draw.pick(*INTEGERS)
    elif operation in SATURATING or (operation in SUMS and not same.is_float):
        return draw.pick(*INTEGERS[:4]), draw.pick(*INTEGERS[:4]), draw.pick(*INTEGERS)
    return same, same, same


def arithmetic(draw: Draw) -> Instruction:
    shape, first = extents(draw), lane(draw)

    def tensor(dtype: DType) -> Operand:
        aligned = draw.rng.random() < 0.5
        return Operand(at(draw, first), dtype, Layout.ALIGNED if aligned else strides(draw, shape, dtype, first))

    operation = draw.pick(*SINGLE, *SUMS, *SATURATING, *BITS, *SHIFTS, *SELECTS, *OTHERS)
    left, right, result = types(draw, operation)
    if operation in SINGLE:
        return Arithmetic(operation=operation, shape=shape, result=tensor(result), left=tensor(left))
    choices: dict[str, Any] = {}
    if operation in SATURATING or (operation in SUMS and not left.is_float):
        choices["third"] = Scalar.of(-1 if operation in SATURATING else 0, DType.INT8)
    elif operation in SELECTS:
        choices["third"] = Scalar.of(1, result)
    elif operation is ArithmeticOp.DIV:
        choices["iterations"] = draw.number(1, 5)
    operands: list[Any] = [tensor(left), tensor(right)]
    constant = draw.pick(None, None, 0, 1)
    if constant is not None and not (constant == 0 and operation in (*SHIFTS, *SELECTS, ArithmeticOp.MULTIPLY_ADD)):
        operands[constant] = Scalar.of(draw.number(1, 5), (left, right)[constant])
    left_source, right_source = operands
    return Arithmetic(
        operation=operation, shape=shape, result=tensor(result), left=left_source, right=right_source, **choices
    )


def requantize(draw: Draw) -> Instruction:
    shape, first = extents(draw), lane(draw)
    narrow = (DType.INT8, DType.UINT8, DType.INT16)
    operation, sources, results = draw.pick(
        (RequantizeOp.REQUANTIZE, (DType.INT32, DType.INT16), narrow),
        (RequantizeOp.FLOAT_REQUANTIZE, (*narrow, DType.INT32, DType.F32), narrow),
        (RequantizeOp.DEQUANTIZE, narrow, (DType.INT32, DType.INT16)),
        (RequantizeOp.FLOAT_DEQUANTIZE, narrow, (DType.F32,)),
    )
    return Requantize(
        operation=operation,
        shape=shape,
        result=Operand(at(draw, first), draw.pick(*results)),
        input=Operand(at(draw, first), draw.pick(*sources)),
        table=draw.pick(None, at(draw, first, 0x20000)),
    )


def special(draw: Draw) -> Instruction:
    shape, first = extents(draw), lane(draw)
    operation = draw.pick(SpecialOp.POLYNOMIAL, SpecialOp.EXPONENT, SpecialOp.RSQRT)
    dtype = DType.F32 if operation is SpecialOp.RSQRT else draw.pick(*FLOATS)
    terms = {SpecialOp.POLYNOMIAL: draw.number(2, 20), SpecialOp.RSQRT: draw.number(1, 5)}.get(operation, 0)
    return SpecialFunction(
        operation=operation,
        shape=shape,
        result=Operand(at(draw, first), dtype),
        input=Operand(at(draw, first), dtype),
        terms=terms,
        table=0x20000 if operation is SpecialOp.POLYNOMIAL else 0,
    )


def scale(draw: Draw) -> Instruction:
    shape, first, dtype = extents(draw), lane(draw), draw.pick(*FLOATS)
    operation, constant = draw.pick(*ScaleOp), draw.rng.random() < 0.4

    def parameter() -> Operand | Scalar:
        return Scalar.of(2, dtype) if constant else Operand(at(draw, first, 0x20000), dtype, Layout.COMPACT)

    return ScaleBias(
        operation=operation,
        shape=shape,
        result=Operand(at(draw, first), dtype),
        input=Operand(at(draw, first), dtype),
        scale=parameter(),
        bias=parameter() if operation is ScaleOp.MULTIPLY_ADD else None,
    )


def compare(draw: Draw) -> Instruction:
    shape, first, operation = extents(draw), lane(draw), draw.pick(*CompareOp)
    dtype, chosen = draw.pick(*FLOATS, *INTEGERS), draw.pick(*FLOATS, *INTEGERS)
    two = operation in (CompareOp.MAX_AND_SELECT, CompareOp.MIN_AND_SELECT)

    def source(kind: DType) -> Operand | Scalar:
        return draw.pick(Operand(at(draw, first), kind), Operand(at(draw, first), kind), Scalar.of(1, kind))

    return CompareSelect(
        operation=operation,
        shape=shape,
        result=Operand(at(draw, first), dtype if two else chosen),
        second=Operand(at(draw, first), chosen) if two else None,
        left=source(dtype),
        right=source(dtype),
        when_true=source(chosen),
        when_false=source(chosen),
    )


def transfer(draw: Draw) -> Instruction:
    n, c, h, w = extents(draw)
    operation, source = draw.pick(*TransferOp), at(draw, lane(draw))
    target = draw.pick(0, draw.number(0, 64))
    fitting = min(c, 64 - target)
    shape = {
        TransferOp.BROADCAST: (n, fitting, h, w),
        TransferOp.STATIC_BROADCAST: (1, fitting, 1, w),
        TransferOp.STATIC_DISTRIBUTE: (1, c, 1, 1),
    }.get(operation, (n, c, h, w))
    if operation in (TransferOp.STATIC_BROADCAST, TransferOp.STATIC_DISTRIBUTE):
        source = SMEM_BASE + 64 * draw.number(0, 10)
    dtype = draw.pick(DType.INT8, DType.F16, DType.F32)
    return LaneTransfer(operation=operation, shape=shape, dtype=dtype, result=at(draw, target), source=source)


def gather(draw: Draw) -> Instruction:
    n, c, h, w = extents(draw)
    w *= draw.pick(1, 20)
    first, dtype, index = lane(draw), draw.pick(DType.INT8, DType.F16, DType.F32), DType.UINT16
    entries = draw.pick(draw.number(1, 300), draw.number(1, 3000))
    operation = draw.pick(
        GatherOp.GATHER, GatherOp.SCATTER, GatherOp.GATHER_M, GatherOp.LANE_GATHER, GatherOp.LANE_GATHER_2D
    )
    layout, index_layout = draw.pick(Layout.TABLE, Layout.ALIGNED), Layout.ALIGNED
    table, size, shape = (1, entries), (c, w), (n, c, 1, w)
    match operation:
        case GatherOp.GATHER:
            index = draw.pick(DType.UINT8, DType.UINT16)
        case GatherOp.SCATTER:
            index, size, shape = draw.pick(DType.UINT8, DType.UINT16), (c, entries), (n, c, h, w)
        case GatherOp.GATHER_M:
            layout, shape = Layout.TABLE, (1, c, 1, w)
        case GatherOp.LANE_GATHER:
            layout, index_layout, size = Layout.ALIGNED, Layout.COMPACT, (w, 1)
        case _:
            layout, table, size = Layout.ALIGNED, (draw.number(1, 20), draw.number(1, 20)), (w, 1)
    return Gather(
        operation=operation,
        shape=shape,
        result=Operand(at(draw, first), dtype),
        table=Operand(at(draw, first), dtype, layout),
        table_size=table,
        index=Operand(at(draw, first), index, index_layout),
        index_size=size,
    )


def gather_lines(draw: Draw) -> Instruction:
    first = lane(draw)
    return GatherLines(
        operation=draw.pick(*GatherLinesOp),
        shape=extents(draw),
        dtype=draw.pick(DType.INT8, DType.F16, DType.F32),
        result=at(draw, first),
        table=at(draw, first),
        table_rows=draw.number(1, 60),
        table_layout=draw.pick(3, 4),
        index=Operand(at(draw, first), DType.UINT16),
    )


KINDS: tuple[Callable[[Draw], Instruction], ...] = (
    arithmetic,
    arithmetic,
    arithmetic,
    requantize,
    special,
    scale,
    compare,
    transfer,
    gather,
    gather_lines,
)
