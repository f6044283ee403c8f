"""Random convolutions, pools and matrix products that the vendor's clock times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tpuc.api import Instruction
from tpuc_bm1684x.isa import (
    Conv,
    ConvOp,
    DType,
    Layout,
    MatMul,
    MatMulOp,
    Operand,
    PoolOp,
    PoolOrDepthwise,
    Scalar,
    SplitMatMul,
    SplitMatMulOp,
)
from tpuc_bm1684x.isa.types import Pair

from tests.chips.bm1684x.draw import FLOATS, Draw
from tests.chips.bm1684x.timing.compute_commands import at, lane

BYTES = (DType.INT8, DType.UINT8)


@dataclass
class Window:
    """A kernel over an image, with the size of its result."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    insert: Pair
    pads: tuple[int, int, int, int]
    image: Pair
    result: Pair

    def fields(self) -> dict[str, Any]:
        names = ("kernel", "stride", "dilation", "insert", "pads")
        return {name: getattr(self, name) for name in names}


def window(draw: Draw, inserts: bool, strides: bool = True) -> Window:
    """One whose result has at least one pixel."""
    kernel, stride, dilation, insert = ((draw.number(1, 6), draw.number(1, 6)) for _ in range(4))
    stride = (min(stride[0], 4), min(stride[1], 4)) if strides else (1, 1)
    dilation = draw.pick((1, 1), (min(dilation[0], 3), min(dilation[1], 3)))
    insert = (min(insert[0] - 1, 2), min(insert[1] - 1, 2)) if inserts else (0, 0)
    pads = tuple(draw.number(0, 3) for _ in range(4))
    image = (draw.number(6, 60), draw.number(6, 60))
    sizes = [(size - 1) * (gap + 1) + 1 for size, gap in zip(image, insert, strict=True)]
    spans = [step * (taps - 1) + 1 for taps, step in zip(kernel, dilation, strict=True)]
    result = [(sizes[i] + pads[i] + pads[i + 2] - spans[i]) // stride[i] + 1 for i in range(2)]
    if min(result) < 1:
        return window(draw, inserts, strides)
    return Window(kernel, stride, dilation, insert, (pads[0], pads[1], pads[2], pads[3]), image, (result[0], result[1]))


def conv(draw: Draw) -> Instruction:
    """Floats, int8 with requantization, int8 to int32; some of them transposed."""
    first, dtype = lane(draw), draw.pick(*FLOATS, *BYTES)
    turned = draw.rng.random() < 0.25
    shape = window(draw, inserts=turned, strides=not turned)
    n, ic, oc = draw.number(1, 4), int(2 ** draw.rng.uniform(0, 8.5)), int(2 ** draw.rng.uniform(0, 8.5))
    fields: dict[str, Any] = shape.fields() | {
        "input": Operand(at(draw, draw.pick(first, first, lane(draw))), dtype),
        "input_shape": (ic, *shape.image),
        "result_shape": (n, oc, *shape.result),
        "rotate": turned,
    }
    table = at(draw, first, 0x20000)
    if dtype.is_float:
        biased, added = draw.pick(True, False), draw.rng.random() < 0.2
        return Conv(
            result=Operand(at(draw, first), DType.F32 if added else draw.pick(dtype, DType.F32)),
            weight=Operand(table, dtype, Layout.COMPACT),
            bias=Operand(table + 0x10000, DType.F32, Layout.COMPACT) if biased else None,
            accumulate=added,
            **fields,
        )
    if draw.rng.random() < 0.5:
        return Conv(
            operation=draw.pick(ConvOp.REQUANTIZE, ConvOp.REQUANTIZE_RELU),
            result=Operand(at(draw, first), draw.pick(*BYTES, DType.INT16)),
            weight=Operand(table, DType.INT8, Layout.COMPACT),
            bias=draw.pick(None, Operand(table + 0x10000, DType.INT16, Layout.COMPACT)),
            shift=draw.number(0, 15),
            **fields,
        )
    per_channel = draw.rng.random() < 0.4
    return Conv(
        result=Operand(at(draw, first), DType.INT32),
        weight=Operand(table, draw.pick(*BYTES), Layout.COMPACT),
        kernel_zero_point=Operand(table + 0x10000, DType.INT8, Layout.COMPACT)
        if per_channel
        else Scalar(draw.number(0, 9), DType.INT8),
        pad_value=Operand(table + 0x18000, dtype, Layout.COMPACT) if per_channel else Scalar(draw.number(0, 9), dtype),
        accumulate=draw.rng.random() < 0.2,
        **fields,
    )


def pool(draw: Draw) -> Instruction:
    """Maxima, averages, depthwise convolutions and transposed ones."""
    first, dtype = lane(draw), draw.pick(*FLOATS, *BYTES)
    operation = draw.pick(PoolOp.MAX, PoolOp.AVERAGE, PoolOp.DEPTHWISE, PoolOp.DEPTHWISE_RELU)
    if dtype.is_float and operation is PoolOp.DEPTHWISE_RELU:
        operation = PoolOp.DEPTHWISE
    depthwise = operation in (PoolOp.DEPTHWISE, PoolOp.DEPTHWISE_RELU)
    turned = depthwise and draw.rng.random() < 0.3
    inserts = turned or (operation is PoolOp.AVERAGE and draw.rng.random() < 0.3)
    shape = window(draw, inserts, strides=not turned)
    channels = (draw.number(1, 4), int(2 ** draw.rng.uniform(0, 8.5)))
    fields: dict[str, Any] = shape.fields() | {"rotate": turned}
    if operation is PoolOp.AVERAGE:
        fields["weight"] = Scalar.of(1, dtype)
    else:
        fields["pad_value"] = Scalar(0, dtype)
    if depthwise:
        kernel = dtype if dtype.is_float else draw.pick(*BYTES)
        biases = dtype if dtype.is_float else DType.INT32
        fields["weight"] = Operand(at(draw, first, 0x20000), kernel, Layout.COMPACT)
        fields["bias"] = draw.pick(None, Operand(at(draw, first, 0x28000), biases, Layout.COMPACT))
    same = dtype.is_float or operation is PoolOp.MAX
    return PoolOrDepthwise(
        operation=operation,
        result=Operand(at(draw, first), dtype if same else draw.pick(*BYTES, DType.INT16, DType.INT32)),
        shape=(*channels, *shape.result),
        input=Operand(at(draw, first), dtype),
        input_size=shape.image,
        **fields,
    )


def matmul(draw: Draw) -> Instruction:
    """Rows over lanes: plain, with the right or both operands transposed."""
    first, dtype, operation = lane(draw), draw.pick(*FLOATS, *BYTES), draw.pick(*MatMulOp)
    rows, columns, depth = (int(2 ** draw.rng.uniform(0, 8)) for _ in range(3))
    accumulate = operation is not MatMulOp.NT and draw.rng.random() < 0.2
    other, result, point = dtype, draw.pick(dtype, DType.F32), None
    if not dtype.is_float:
        other, result = draw.pick(*BYTES), DType.INT32
        point = draw.pick(Scalar(3, DType.INT8), Operand(at(draw, first), DType.INT8, Layout.COMPACT))
    elif accumulate:
        result = DType.F32
    return MatMul(
        operation=operation,
        rows=rows,
        columns=columns,
        depth=depth,
        result=Operand(at(draw, first), result),
        left=Operand(at(draw, first), dtype),
        right=Operand(at(draw, first), other),
        zero_point=point,
        accumulate=accumulate,
    )


def split_matmul(draw: Draw) -> Instruction:
    """Columns over lanes: f32, integers with a shift, int8 with requantization."""
    first, operation = lane(draw), draw.pick(*SplitMatMulOp)
    width = draw.number(1, 70)
    fields: dict[str, Any] = {}
    dtype, result = DType.INT8, draw.pick(DType.INT8, DType.INT16)
    bias = draw.pick(None, Operand(at(draw, first), DType.INT16))
    if operation is SplitMatMulOp.NORMAL:
        dtype = draw.pick(DType.F32, DType.F32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
        bias = draw.pick(None, Operand(at(draw, first), DType.F32)) if dtype is DType.F32 else None
        result = DType.F32 if dtype is DType.F32 else DType.INT32
        if dtype is not DType.F32:
            fields["shift"] = draw.pick(Scalar(0, DType.INT8), Operand(at(draw, first), DType.INT8, Layout.COMPACT))
    if dtype is DType.F32 or operation is not SplitMatMulOp.NORMAL:
        fields["accumulate"] = draw.rng.random() < 0.3
    return SplitMatMul(
        operation=operation,
        rows=int(2 ** draw.rng.uniform(0, 6)),
        left_pieces=draw.number(1, 80),
        left_width=width,
        left_last=draw.number(1, width + 1),
        right_pieces=draw.number(1, 140),
        right_width=draw.number(1, 70),
        result=Operand(at(draw, first), result),
        left=Operand(at(draw, first), dtype),
        right=Operand(at(draw, first), dtype),
        bias=bias,
        transpose_left=draw.rng.random() < 0.3,
        **fields,
    )


KINDS: tuple[Callable[[Draw], Instruction], ...] = (conv, conv, pool, pool, matmul, split_matmul)
