"""Random convolutions, poolings, matrix products and DMA transfers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa import DType, Layout, Operand, PadMode, Scalar
from tpuc_bm1684x.isa.dma import dma_strides
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.isa.types import ROUNDINGS
from tpuc_bm1684x.isa.windows import Window

from tests.chips.bm1684x.draw import FLOATS, INTEGERS, RESULT, WEIGHT, A, Case, Draw, Place


def _window(draw: Draw, height: int, width: int) -> tuple[Window, tuple[int, int]] | None:
    insert = (draw.number(0, 3), draw.number(0, 3)) if draw.number(0, 5) == 0 else (0, 0)
    top, left, bottom, right = (draw.number(0, 3) if draw.number(0, 2) else 0 for _ in range(4))
    window = Window(
        kernel=(draw.number(1, 4), draw.number(1, 4)),
        stride=(draw.number(1, 4), draw.number(1, 4)),
        pads=(top, left, bottom, right),
        dilation=(draw.number(1, 3), draw.number(1, 3)),
        insert=insert,
        pad_mode=PadMode.CONSTANT,
        rotate=draw.number(0, 4) == 0,
    )
    padded = window.padded(height, width)
    size = [
        (have - (kernel - 1) * dilation - 1) // stride + 1
        for have, kernel, dilation, stride in zip(padded, window.kernel, window.dilation, window.stride, strict=True)
    ]
    return (window, (size[0], size[1])) if min(size) > 0 else None


def _geometry(draw: Draw) -> tuple[int, int, Window, tuple[int, int]]:
    while True:
        height, width = draw.number(1, 10), draw.number(1, 10)
        found = _window(draw, height, width)
        if found is not None:
            return (height, width, *found)


def conv(draw: Draw) -> Case:
    """int8, all operations."""
    height, width, window, (oh, ow) = _geometry(draw)
    n, ic, oc = draw.number(1, 3), draw.number(1, 80), draw.number(1, 80)
    dtype, weight_type = draw.pick(DType.INT8, DType.UINT8), draw.pick(DType.INT8, DType.UINT8)
    operation = isa.ConvOp(draw.pick(0, 0, 0, 1, 2))
    fused, shape = operation is not isa.ConvOp.NORMAL, (n, oc, oh, ow)
    result = Operand(RESULT, (DType.INT32, DType.INT8, DType.UINT8)[operation])
    mode = draw.pick(PadMode.CONSTANT, PadMode.CONSTANT, *PadMode)
    if max(window.pads) >= min(height, width):
        mode = PadMode.CONSTANT
    accumulate = not fused and draw.number(0, 3) == 0
    if accumulate:
        draw.put(result, shape)
    point = pad = bias = None
    if not fused:
        zero_type, channels = draw.pick(DType.INT8, DType.UINT8), (1, oc, 1, 1)
        table = draw.put(Operand(0x7800, zero_type, Layout.COMPACT), channels)
        point = draw.pick(None, Scalar.of(draw.number(0, 100), zero_type), table)
        pads = draw.put(Operand(0x7900, dtype, Layout.COMPACT), (1, ic, 1, 2))
        pad = draw.pick(None, Scalar.of(draw.number(0, 100), dtype), pads)
    elif draw.number(0, 2):
        bias = draw.put(Operand(0x7800, DType.INT16, Layout.COMPACT), (1, oc, 1, 1))
    instruction = isa.Conv(
        operation=operation,
        result=result,
        result_shape=shape,
        input=draw.put(Operand(A, dtype), (n, ic, height, width)),
        input_shape=(ic, height, width),
        weight=_packed_weight(draw, oc, ic, window, weight_type),
        kernel=window.kernel,
        stride=window.stride,
        pads=window.pads,
        dilation=window.dilation,
        insert=window.insert,
        pad_mode=mode,
        rotate=window.rotate,
        bias=bias,
        kernel_zero_point=point,
        pad_value=pad,
        shift=draw.number(0, 20) if fused else 0,
        accumulate=accumulate,
    )
    return draw.case(instruction, result, shape)


def _packed_weight(draw: Draw, oc: int, ic: int, window: Window, dtype: DType) -> Operand:
    pack = {1: 64, 2: 32, 4: 1}[dtype.bytes]
    groups, taps = -(-ic // pack), window.kernel[0] * window.kernel[1]
    values = draw.values(dtype, (oc, groups, taps, pack), 0.5)
    if ic % pack:
        values[:, -1, :, ic % pack :] = 0
    shape = (1, oc, groups * taps, pack)
    return draw.put(Operand(WEIGHT, dtype, Layout.COMPACT), shape, values.reshape(shape))


def float_conv(draw: Draw) -> Case:
    height, width, window, (oh, ow) = _geometry(draw)
    dtype = draw.pick(*FLOATS)
    n, ic, oc = draw.number(1, 3), draw.number(1, 20 if dtype is DType.F32 else 60), draw.number(1, 80)
    shape, result = (n, oc, oh, ow), Operand(RESULT, draw.pick(dtype, DType.F32))
    accumulate = draw.number(0, 3) == 0
    if accumulate:
        draw.put(Operand(RESULT, DType.F32), shape)
    bias = draw.put(Operand(0x7800, DType.F32, Layout.COMPACT), (1, oc, 1, 1))
    instruction = isa.Conv(
        result=result,
        result_shape=shape,
        input=draw.put(Operand(A, dtype), (n, ic, height, width)),
        input_shape=(ic, height, width),
        weight=_packed_weight(draw, oc, ic, window, dtype),
        kernel=window.kernel,
        stride=window.stride,
        pads=window.pads,
        dilation=window.dilation,
        insert=window.insert,
        rotate=window.rotate,
        bias=draw.pick(None, bias),
        pad_value=draw.pick(None, Scalar.of(0.5, dtype)),
        accumulate=accumulate,
    )
    return draw.case(instruction, result, shape)


def pool(draw: Draw) -> Case:
    height, width, window, (oh, ow) = _geometry(draw)
    dtype = draw.pick(DType.INT8, DType.UINT8, DType.INT8, *FLOATS)
    kinds = [isa.PoolOp.DEPTHWISE, isa.PoolOp.AVERAGE, isa.PoolOp.MAX]
    operation = draw.pick(*kinds, *([] if dtype.is_float else [isa.PoolOp.DEPTHWISE_RELU]))
    depthwise = operation in (isa.PoolOp.DEPTHWISE, isa.PoolOp.DEPTHWISE_RELU)
    n, c, weight, bias, kind, moved = draw.number(1, 3), draw.number(1, 80), None, None, dtype, 0
    if depthwise:
        own = dtype if dtype.is_float else draw.pick(DType.INT8, DType.UINT8)
        weight = draw.put(Operand(WEIGHT, own, Layout.COMPACT), (1, c, *window.kernel))
        wide = dtype if dtype.is_float else DType.INT32
        values = None if dtype.is_float else draw.rng.integers(-5000, 5000, (1, c, 1, 1))
        bias = draw.pick(None, draw.put(Operand(0x7800, wide, Layout.COMPACT), (1, c, 1, 1), values))
        signed = (dtype.signed or own.signed or bias is not None) and operation is isa.PoolOp.DEPTHWISE
        kind = dtype if dtype.is_float else draw.pick(DType.INT32, DType.INT8.with_sign(signed))
    elif operation is isa.PoolOp.AVERAGE:
        weight = Scalar.of(1 / 9 if dtype.is_float else draw.number(1, 100), dtype)
        kind = dtype if dtype.is_float else draw.pick(DType.INT32, dtype)
    if kind.bytes == 1 and operation is not isa.PoolOp.MAX:
        moved = draw.number(0, 12)
    result, shape = Operand(RESULT, kind), (n, c, oh, ow)
    instruction = isa.PoolOrDepthwise(
        operation=operation,
        result=result,
        shape=shape,
        input=draw.put(Operand(A, dtype), (n, c, height, width)),
        input_size=(height, width),
        kernel=window.kernel,
        stride=window.stride,
        pads=window.pads,
        dilation=window.dilation,
        insert=window.insert,
        rotate=window.rotate and depthwise,
        weight=weight,
        bias=bias,
        pad_value=draw.pick(None, Scalar.of(3, dtype)),
        shift=moved,
        rounding=draw.pick(*ROUNDINGS) if depthwise else ROUNDINGS[5],
    )
    return draw.case(instruction, result, shape)


def matmul(draw: Draw) -> Case:
    operation = draw.pick(*isa.MatMulOp)
    rows, columns, depth = draw.number(1, 80), draw.number(1, 80), draw.number(1, 80)
    kind = draw.pick(DType.INT8, DType.UINT8, DType.F16, DType.BF16)
    right_type = kind if kind.is_float else draw.pick(DType.INT8, DType.UINT8)
    result = Operand(RESULT, draw.pick(kind, DType.F32) if kind.is_float else DType.INT32)
    accumulate = operation is not isa.MatMulOp.NT and draw.number(0, 3) == 0
    if accumulate:
        draw.put(Operand(RESULT, DType.F32 if kind.is_float else DType.INT32), (1, rows, 1, columns))
    instruction = isa.MatMul(
        operation=operation,
        rows=rows,
        columns=columns,
        depth=depth,
        result=result,
        left=Operand(A, kind),
        right=Operand(WEIGHT, right_type),
        zero_point=None if kind.is_float else draw.pick(None, Scalar.of(draw.number(0, 100), right_type)),
        accumulate=accumulate,
    )
    for operand, shape in instruction.sources()[:2]:
        assert isinstance(operand, Operand)
        draw.put(operand, shape)
    return draw.case(instruction, result, (1, rows, 1, columns))


def split_matmul(draw: Draw) -> Case:
    """f32 with bias and with the old result, and fused int8, of matrices cut into pieces of columns."""
    rows, depth, columns = draw.number(1, 20), draw.number(1, 60), draw.number(1, 60)
    left_width, right_width, floats = draw.number(1, 17), draw.number(1, 17), bool(draw.number(0, 3))
    turned = floats and bool(draw.number(0, 2))
    operation = isa.SplitMatMulOp.NORMAL if floats else isa.SplitMatMulOp(draw.pick(2, 3))
    kind = DType.F32 if floats else DType.INT8
    last = DType.F32 if floats else DType.INT8.with_sign(operation is isa.SplitMatMulOp.REQUANTIZE)
    along, across = (depth, rows) if turned else (rows, depth)
    left_pieces, right_pieces = -(-across // left_width), -(-columns // right_width)
    result, dims = Operand(RESULT, last), (rows, right_pieces, 1, right_width)
    accumulate = floats and draw.number(0, 3) == 0
    if accumulate:
        draw.put(result, dims)
    bias = draw.put(Operand(0x7800, DType.F32 if floats else DType.INT16), (1, right_pieces, 1, right_width))
    instruction = isa.SplitMatMul(
        operation=operation,
        rows=along,
        left_pieces=left_pieces,
        left_width=left_width,
        left_last=across - (left_pieces - 1) * left_width,
        right_pieces=right_pieces,
        right_width=right_width,
        result=result,
        left=draw.put(Operand(A, kind), (along, left_pieces, 1, left_width)),
        right=draw.put(Operand(WEIGHT, kind), (depth, right_pieces, 1, right_width)),
        bias=draw.pick(None, bias),
        fused_shift=0 if floats else draw.number(0, 12),
        transpose_left=turned,
        accumulate=accumulate,
    )
    return draw.case(instruction, result, dims)


def dma(draw: Draw) -> Case:
    """Copies, transposes, broadcasts and fills between local memory and DDR."""
    dtype = draw.pick(*INTEGERS, *FLOATS)
    kind = draw.pick(isa.TensorCopy, isa.TransposeNC, isa.TransposeCW, isa.ChannelBroadcast, isa.Fill)
    shape = draw.shape(70, 4, 12)
    lane = draw.number(0, 20)
    source = draw.pick(DDR_BASE, isa.lmem(isa.lane_address(lane, A)))
    target = draw.pick(DDR_BASE + 0x20000, isa.lmem(isa.lane_address(draw.number(0, 3), RESULT)))
    if kind is isa.Fill:
        fill = isa.Fill(destination=target, shape=shape, dtype=dtype, value=draw.number(0, 1 << 8 * dtype.bytes))
        return Case(fill, [], Place(target, shape, dma_strides(target, shape, dtype), dtype))
    given: dict[str, Any] = {}
    if kind is isa.ChannelBroadcast:
        shape = (shape[0], 1, *shape[2:])
        given["channels"] = draw.number(1, 61)
        target = isa.lmem(isa.lane_address(draw.number(0, 3), RESULT))
    if kind is isa.TensorCopy and draw.number(0, 3) == 0:
        n, c, h, w = shape
        given["destination_shape"] = draw.pick((1, n * c, h, w), (n, h, c, w), (c, n, w * h, 1))
    instruction = kind(source=source, destination=target, shape=shape, dtype=dtype, **given)
    own, other = instruction.strides()
    if draw.number(0, 2):
        wider = [(*(2 * step for step in steps[:3]), 1) for steps in (own, other)]
        instruction = kind(
            source=source,
            destination=target,
            shape=shape,
            dtype=dtype,
            source_strides=wider[0],
            destination_strides=wider[1],
            **given,
        )
        own, other = instruction.strides()
    place = Place(source, shape, own, dtype)
    return Case(
        instruction,
        [(place, draw.values(dtype, shape))],
        Place(target, instruction.result_shape(), other, dtype),
    )


def rows(draw: Draw) -> Case:
    """Rows that are gathered or scattered by index, some of them beyond the last one, in DDR or local memory."""
    dtype, kind = draw.pick(*INTEGERS, *FLOATS), draw.pick(isa.RowGather, isa.RowScatter)
    channels, count, extent, width = (draw.number(1, limit) for limit in (6, 40, 30, 20))
    scatters = kind is isa.RowScatter
    index_channels = draw.pick(1, channels)
    source, target = draw.pick(DDR_BASE, isa.lmem(A)), draw.pick(DDR_BASE + 0x20000, isa.lmem(RESULT))
    numbers_at = draw.pick(DDR_BASE + 0x10000, isa.lmem(WEIGHT))
    sizes = [(channels, extent, width), (channels, count, width)]
    if scatters:
        sizes.reverse()
    gap = draw.number(0, 4)
    steps = [(high * (width + gap), width + gap) for _, high, _ in sizes]
    # Numbers that are different: which of several updates of a row is the last is of no interest here.
    numbers = np.stack([draw.rng.permutation(max(extent, count) + 5)[:count] for _ in range(index_channels)])
    instruction = kind(
        source=source,
        source_size=sizes[0],
        source_strides=steps[0],
        destination=target,
        destination_size=sizes[1],
        destination_strides=steps[1],
        index=numbers_at,
        index_size=(index_channels, count),
        index_strides=(count, 1),
        dtype=dtype,
        constant=0 if scatters else draw.number(0, 100),
    )
    places = [
        Place(address, (1, *size), (0, *step, 1), dtype)
        for address, size, step in zip((source, target), sizes, steps, strict=True)
    ]
    index = Place(numbers_at, (1, index_channels, count, 1), (0, count, 1, 1), DType.INT32)
    writes = [(place, draw.values(dtype, place.shape)) for place in places]
    writes.append((index, numbers.astype(np.int32).reshape(index.shape)))
    return Case(instruction, writes, places[1])
