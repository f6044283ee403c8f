"""Random legal single instructions with their operands: shared by the goldens and the comparison with the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa import DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.geometry import LMEM_BASE
from tpuc_bm1684x.isa.types import ROUNDINGS

from tests.chips.bm1684x.copy_cases import linear, matrix
from tests.chips.bm1684x.draw import FLOATS, INTEGERS, RESULT, A, B, C, Case, D, Draw
from tests.chips.bm1684x.window_cases import conv, dma, float_conv, matmul, pool, rows, split_matmul

Op = isa.ArithmeticOp


def integer_sum(draw: Draw) -> Case:
    shape = draw.shape()
    operation = draw.pick(Op.ADD, Op.SUB, Op.MUL, Op.ADD_SATURATE, Op.SUB_SATURATE, Op.MUL_SATURATE)
    left, right = draw.pick(*INTEGERS), draw.pick(*INTEGERS)
    signed = left.signed or right.signed or operation in (Op.SUB, Op.SUB_SATURATE)
    result = Operand(RESULT, draw.pick(*INTEGERS).with_sign(signed))
    shift: Operand | Scalar | None = None
    match draw.number(0, 3):
        case 1:
            shift = Scalar.of(draw.number(-12, 4), DType.INT8)
        case 2:
            table = (1, shape[1], 1, 1)
            shift = draw.put(Operand(D, DType.INT8, Layout.COMPACT), table, draw.rng.integers(-10, 4, table))
    instruction = isa.Arithmetic(
        operation=operation,
        shape=shape,
        result=result,
        left=draw.tensor(A, left, shape),
        right=draw.source(B, right, shape),
        third=shift,
        rounding=draw.pick(*ROUNDINGS),
    )
    return draw.case(instruction, result, shape)


def float_arithmetic(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick(*FLOATS)
    operation = draw.pick(Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.ABS_DIFFERENCE, Op.SELECT_LESS, Op.MULTIPLY_ADD)
    result = draw.put(Operand(RESULT, dtype), shape)
    instruction = isa.Arithmetic(
        operation=operation,
        shape=shape,
        result=result,
        left=draw.tensor(A, dtype, shape),
        right=draw.source(B, dtype, shape),
        third=Scalar.of(1.5, dtype) if operation is Op.SELECT_LESS else None,
    )
    return draw.case(instruction, result, shape)


def division(draw: Draw) -> Case:
    shape = draw.shape()
    left = draw.tensor(A, DType.F32, shape)
    near = None if draw.edges else draw.rng.random(shape).astype(np.float32) * 9 + 0.1
    right = draw.put(Operand(B, DType.F32), shape, near)
    result = Operand(RESULT, DType.F32)
    instruction = isa.Arithmetic(
        operation=Op.DIV, shape=shape, result=result, left=left, right=right, iterations=draw.number(1, 5)
    )
    return draw.case(instruction, result, shape)


def bitwise(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick(*INTEGERS)
    one = (Op.NOT, Op.ABS, Op.COPY, Op.LEADING_ZEROS, Op.LEADING_ONES)
    operation = draw.pick(Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SELECT_GREATER, Op.SELECT_EQUAL, *one)
    result = Operand(RESULT, dtype)
    instruction = isa.Arithmetic(
        operation=operation,
        shape=shape,
        result=result,
        left=draw.tensor(A, dtype, shape),
        right=None if operation in one else draw.source(B, dtype, shape),
        third=Scalar.of(7, dtype) if operation in (Op.SELECT_GREATER, Op.SELECT_EQUAL) else None,
    )
    return draw.case(instruction, result, shape)


def shift(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick(*INTEGERS)
    width = 8 * dtype.bytes
    amounts = draw.rng.integers(-width + 1, width, shape)
    result = Operand(RESULT, dtype)
    instruction = isa.Arithmetic(
        operation=draw.pick(Op.LOGICAL_SHIFT, Op.ARITHMETIC_SHIFT, Op.CIRCULAR_SHIFT),
        shape=shape,
        result=result,
        left=draw.tensor(A, dtype, shape),
        right=draw.put(Operand(B, DType.INT8), shape, amounts),
        rounding=draw.pick(*ROUNDINGS),
    )
    return draw.case(instruction, result, shape)


def cast(draw: Draw) -> Case:
    shape, source, target = draw.shape(), draw.pick(*INTEGERS, *FLOATS), draw.pick(*INTEGERS, *FLOATS)
    if {source, target} == {DType.F16, DType.BF16}:
        target = DType.F32
    values = draw.values(source, shape, draw.pick(3.0, 300.0, 3e4))
    if source.is_float and draw.number(0, 2):
        values = (draw.rng.integers(-600, 600, shape) / 2).astype(source.numpy)
    result = Operand(RESULT, target)
    left = draw.put(Operand(A, source), shape, values)
    rounding = draw.pick(*ROUNDINGS[: 5 if source.is_float else 7])
    instruction = isa.Arithmetic(operation=Op.CAST, shape=shape, result=result, left=left, rounding=rounding)
    return draw.case(instruction, result, shape)


def requantize(draw: Draw) -> Case:
    shape = draw.shape()
    source, target = draw.pick(DType.INT32, DType.INT32, DType.INT16), draw.pick(DType.INT8, DType.UINT8, DType.INT16)
    result, points = Operand(RESULT, target), (-20, 20) if target.signed else (0, 256)
    multipliers = draw.rng.integers(1 << 20, 1 << 31, shape[1]) * draw.rng.choice([-1, 1], shape[1], p=[0.2, 0.8])
    records = np.stack([multipliers, draw.rng.integers(-50, 2, shape[1]), draw.rng.integers(*points, shape[1])], -1)
    given: dict[str, Any] = {}
    if draw.number(0, 2):
        draw.put(Operand(D, DType.INT32), (1, shape[1], 1, 3), records.reshape(1, shape[1], 1, 3))
        given = {"table": D}
    else:
        given = dict(zip(("multiplier", "shift", "zero_point"), map(int, records[0]), strict=True))
    instruction = isa.Requantize(
        operation=isa.RequantizeOp.REQUANTIZE,
        shape=shape,
        result=result,
        input=draw.put(Operand(A, source), shape),
        rounding=draw.pick(*ROUNDINGS),
        **given,
    )
    return draw.case(instruction, result, shape)


def dequantize(draw: Draw) -> Case:
    shape = draw.shape()
    result = Operand(RESULT, draw.pick(DType.INT32, DType.INT16))
    source = draw.pick(DType.INT8, DType.UINT8, DType.INT16)
    instruction = isa.Requantize(
        operation=isa.RequantizeOp.DEQUANTIZE,
        shape=shape,
        result=result,
        input=draw.put(Operand(A, source), shape),
        multiplier=draw.number(-(1 << 20), 1 << 20),
        shift=draw.number(-30, 2),
        zero_point=draw.number(0, 100),
        rounding=draw.pick(*ROUNDINGS),
    )
    return draw.case(instruction, result, shape)


def float_requantize(draw: Draw) -> Case:
    shape, into = draw.shape(), bool(draw.number(0, 2))
    operation = isa.RequantizeOp.FLOAT_REQUANTIZE if into else isa.RequantizeOp.FLOAT_DEQUANTIZE
    source = draw.pick(DType.INT32, DType.INT16) if into else draw.pick(DType.INT8, DType.UINT8)
    result = Operand(RESULT, draw.pick(DType.INT8, DType.UINT8) if into else DType.F32)
    instruction = isa.Requantize(
        operation=operation,
        shape=shape,
        result=result,
        input=draw.put(Operand(A, source), shape),
        scale=float(np.float32(draw.rng.standard_normal() / 10 ** draw.number(0, 6))),
        offset=float(np.float32(draw.rng.standard_normal() * 20)) if into else 0.0,
        zero_point=0 if into else draw.number(0, 100),
        rounding=draw.pick(*ROUNDINGS[:5]) if into else ROUNDINGS[0],
    )
    return draw.case(instruction, result, shape)


def compare(draw: Draw) -> Case:
    shape, kind, value = draw.shape(), draw.pick(*INTEGERS, *FLOATS), draw.pick(*INTEGERS, *FLOATS)
    operation = draw.pick(*isa.CompareOp)
    both = operation in (isa.CompareOp.MAX_AND_SELECT, isa.CompareOp.MIN_AND_SELECT)
    result, second = Operand(RESULT, kind if both else value), Operand(0x6000, value)
    instruction = isa.CompareSelect(
        operation=operation,
        shape=shape,
        result=result,
        left=draw.put(Operand(A, kind), shape),
        right=draw.pick(draw.put(Operand(0x1000, kind), shape), Scalar.of(1, kind)),
        when_true=draw.pick(draw.put(Operand(B, value), shape), Scalar.of(2, value)),
        when_false=draw.pick(draw.put(Operand(C, value), shape), Scalar.of(3, value)),
        second=second if both else None,
    )
    return draw.case(instruction, second if both else result, shape)


def scale_bias(draw: Draw) -> Case:
    shape, dtype, operation = draw.shape(), draw.pick(*FLOATS), draw.pick(*isa.ScaleOp)
    channels, result = (1, shape[1], 1, 1), Operand(RESULT, dtype)
    tables = [draw.put(Operand(address, dtype, Layout.COMPACT), channels) for address in (B, C)]
    instruction = isa.ScaleBias(
        operation=operation,
        shape=shape,
        result=result,
        input=draw.put(Operand(A, dtype), shape),
        scale=draw.pick(tables[0], Scalar.of(1.5, dtype)),
        bias=draw.pick(tables[1], Scalar.of(0.25, dtype)) if operation is isa.ScaleOp.MULTIPLY_ADD else None,
    )
    return draw.case(instruction, result, shape)


def special(draw: Draw) -> Case:
    shape, operation = draw.shape(), draw.pick(*isa.SpecialOp)
    if operation is isa.SpecialOp.POLYNOMIAL_13:
        operation = isa.SpecialOp.POLYNOMIAL
    dtype = DType.F32 if operation is isa.SpecialOp.RSQRT else draw.pick(*FLOATS)
    result = Operand(RESULT, dtype)
    if operation is isa.SpecialOp.EXPONENT:
        result = Operand(RESULT, DType.INT32 if dtype is DType.F32 else DType.INT16)
    terms = draw.number(1, 5)
    if operation is isa.SpecialOp.POLYNOMIAL:
        terms = draw.number(2, 10)
        draw.put(Operand(D, dtype), (1, 64, 1, terms), draw.values(dtype, (1, 1, 1, terms), 1.0))
    values = draw.values(dtype, shape)
    if operation is isa.SpecialOp.RSQRT and not draw.edges:
        values = np.abs(values) + np.float32(0.01)
    instruction = isa.SpecialFunction(
        operation=operation,
        shape=shape,
        result=result,
        input=draw.put(Operand(A, dtype), shape, values),
        terms=terms,
        table=D if operation is isa.SpecialOp.POLYNOMIAL else 0,
    )
    return draw.case(instruction, result, shape)


def transfer(draw: Draw) -> Case:
    operation, dtype, shape = draw.pick(*isa.TransferOp), draw.pick(*INTEGERS, *FLOATS), draw.shape(60, 4, 40)
    lane, source = 0, A
    match operation:
        case isa.TransferOp.STATIC_BROADCAST:
            shape, source = (1, shape[1], 1, shape[3]), 0x900_0400
        case isa.TransferOp.STATIC_DISTRIBUTE:
            shape, source = (1, shape[1], 1, 1), 0x900_05C0
        case isa.TransferOp.COPY | isa.TransferOp.BROADCAST:
            lane, source = draw.number(0, 5), isa.lane_address(draw.number(0, 64), A)
        case _:
            pass
    address = isa.lane_address(lane, RESULT)
    instruction = isa.LaneTransfer(operation=operation, shape=shape, dtype=dtype, result=address, source=source)
    if source < LMEM_BASE:
        draw.put(Operand(source, dtype), instruction.source_shape)
    return draw.case(instruction, instruction.result_operand, shape)


def gather(draw: Draw) -> Case:
    entries, index_type = draw.number(2, 200), draw.pick(DType.UINT8, DType.UINT16)
    dtype, shape = draw.pick(DType.INT8, DType.F16, DType.F32), draw.shape(80, 2, 30)
    shared, result = bool(draw.number(0, 2)), Operand(RESULT, dtype)
    row = draw.values(dtype, (1, 1 if shared else shape[1], 1, entries))
    draw.put(Operand(B, dtype), (1, 64 if shared else shape[1], 1, entries), row)
    index = draw.put(Operand(A, index_type), shape, draw.rng.integers(0, entries, shape))
    instruction = isa.Gather(
        shape=shape,
        result=result,
        table=Operand(B, dtype, Layout.TABLE if shared else Layout.ALIGNED),
        table_size=(1, entries),
        index=index,
        index_size=(shape[1], shape[3]),
    )
    return draw.case(instruction, result, shape)


def gather_lines(draw: Draw) -> Case:
    rows, dtype = draw.number(1, 12), draw.pick(DType.INT8, DType.F16, DType.F32)
    shape = (1, draw.number(1, 70), draw.number(1, 10), draw.number(1, 20))
    index_shape = (1, shape[1], 1, shape[2])
    index = draw.put(Operand(A, DType.UINT16), index_shape, draw.rng.integers(0, rows, index_shape))
    instruction = isa.GatherLines(shape=shape, dtype=dtype, result=RESULT, table=B, table_rows=rows, index=index)
    (table, table_shape), _ = instruction.parts()
    draw.put(table, table_shape)
    return draw.case(instruction, instruction.lines(RESULT, shape), shape)


GENERATORS: dict[str, Callable[[Draw], Case]] = {
    "integer_sum": integer_sum,
    "float_arithmetic": float_arithmetic,
    "division": division,
    "bitwise": bitwise,
    "shift": shift,
    "cast": cast,
    "requantize": requantize,
    "dequantize": dequantize,
    "float_requantize": float_requantize,
    "compare": compare,
    "scale_bias": scale_bias,
    "special": special,
    "transfer": transfer,
    "gather": gather,
    "gather_lines": gather_lines,
    "conv": conv,
    "float_conv": float_conv,
    "pool": pool,
    "matmul": matmul,
    "split_matmul": split_matmul,
    "dma": dma,
    "rows": rows,
    "matrix": matrix,
    "linear": linear,
}


_FLOATS = (
    "float_arithmetic division cast float_requantize compare scale_bias special float_conv pool matmul split_matmul"
)
FLOAT_GENERATORS = tuple(_FLOATS.split())


def make_case(name: str, seed: int, edges: bool = False) -> Case:
    """The case number `seed` of a generator, with ordinary numbers or those at the edges of floats."""
    return GENERATORS[name](Draw(np.random.default_rng([seed, sum(name.encode())]), edges))
