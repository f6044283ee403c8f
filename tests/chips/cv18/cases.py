"""Random legal instructions, one generator per operation and type family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tpuc_cv18.isa import (
    Arithmetic,
    ArithmeticOp,
    AveragePool,
    ChannelBlock,
    ChannelSum,
    Conv,
    Depthwise,
    DType,
    Layout,
    Lookup,
    MatMul,
    MaxPool,
    MinPool,
    Operand,
    PartialSum,
    Scalar,
    Target,
    natural_strides,
    split_columns,
)
from tpuc_cv18.isa.windows import Window

from tests.chips.cv18.dma_cases import DMA_GENERATORS
from tests.chips.cv18.draw import RESULT, THIRD, WEIGHT, A, B, Case, Draw

Generator = Callable[[Draw], Case]
INT8, UINT8, INT16, UINT16, BF16 = DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.BF16


# -- windows -----------------------------------------------------------------------------------------------------------


def draw_window(
    draw: Draw, size: tuple[int, int], dilate: bool = True, insert: bool = True
) -> tuple[Window, tuple[int, int]]:
    """A window that fits into the padded input of `size`, and the output size."""
    while True:
        window = Window(
            kernel=(draw.number(1, 4), draw.number(1, 4)),
            stride=(draw.number(1, 4), draw.number(1, 4)),
            pads=(draw.number(0, 3), draw.number(0, 3), draw.number(0, 3), draw.number(0, 3)),
            dilation=(draw.number(1, 3), draw.number(1, 3)) if dilate and draw.chance(3) else (1, 1),
            insert=(draw.number(0, 3), draw.number(0, 3)) if insert and draw.chance(4) else (0, 0),
        )
        if any(window.insert) and draw.chance():
            window = Window(**{**window.__dict__, "insert_last": (draw.number(0, 2), draw.number(0, 2))})
        have = window.padded(*size)
        need = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
        if all(h >= n for h, n in zip(have, need, strict=True)):
            out = [(h - n) // s + 1 for h, n, s in zip(have, need, window.stride, strict=True)]
            return window, (out[0], out[1])


def channel_block(draw: Draw, address: int, channels: int, has_bias: bool) -> ChannelBlock:
    """A written parameter block."""
    columns = [draw.rng.integers(-(1 << 20), 1 << 20, (channels, 1), np.int32).view(np.uint8)] if has_bias else []
    columns.append(draw.rng.integers(0, (1 << 31) - 1, (channels, 1), np.int32, endpoint=True).view(np.uint8))
    columns.append(draw.rng.integers(draw.least_shift, 16, (channels, 1)).astype(np.uint8))
    draw.put(address, np.concatenate([column.reshape(channels, -1) for column in columns], axis=1))
    return ChannelBlock(address, has_bias)


def result_type(draw: Draw, *sources: DType, bias_signed: bool = False) -> tuple[DType, bool]:
    """A legal 8-bit result type and relu."""
    if bias_signed or any(dtype.signed for dtype in sources):
        return draw.pick((INT8, False), (INT8, True), (UINT8, True))
    return UINT8, False


def conv(draw: Draw, floats: bool, block: bool) -> Case:
    kinds = (BF16, BF16) if floats else (draw.pick(INT8, UINT8), draw.pick(INT8, INT8, UINT8))
    ic, oc = draw.number(1, draw.some), draw.number(1, draw.most)
    size = (draw.number(1, 7), draw.number(1, 8))
    window, out = draw_window(draw, size)
    while window.kernel[0] * window.kernel[1] * ic * draw.target.groups_of(oc) * kinds[0].bytes > 0xE00:
        ic, oc = max(1, ic // 2), max(1, oc // 2)
    n = draw.number(1, 3)
    has_bias, bias_signed = not block and draw.chance(), draw.chance()
    has_block_bias = block and not draw.chance(4)
    dtype, relu = (
        (BF16, draw.chance())
        if floats
        else result_type(draw, *kinds, bias_signed=(bias_signed and has_bias) or has_block_bias)
    )
    shape = (n, oc, *out)
    natural = natural_strides(draw.target, shape, dtype.bytes)
    result = Operand(draw.address(RESULT, lanes=True), dtype)
    if result.lane:
        groups = draw.target.groups_of(result.lane + oc)
        result = Operand(result.address, dtype, (groups * natural[1], *natural[1:]))
    third = draw.beside(THIRD, result)
    return draw.case(
        Conv(
            result=result,
            result_shape=shape,
            input=draw.aligned(A, kinds[0], lanes=n == 1),
            input_shape=(ic, *size),
            weight=Operand(draw.beside(WEIGHT, result), kinds[1], Layout.COMPACT),
            **window.__dict__,
            pad_value=0 if floats else draw.pick(0, 5, 77),
            block=channel_block(draw, third, oc, has_block_bias) if block else None,
            bias=third if has_bias else None,
            bias_signed=bias_signed or floats,
            shift=0 if block or floats else draw.number(0, 16),
            relu=relu,
            double=not floats and ic >= 4 and ic % 2 == 0 and draw.chance(),
        )
    )


def partial_conv(draw: Draw, floats: bool) -> Case:
    case = conv(draw, floats, False)
    old = case.instruction
    first = draw.pick(PartialSum.FIRST, PartialSum.MIDDLE, PartialSum.LAST)
    ends = first is PartialSum.LAST
    kind = old.result.dtype
    relu = old.relu and ends
    if not ends and not floats:
        kind = INT8 if old.input.dtype.signed or old.weight.dtype.signed else UINT8
    result = Operand(RESULT, kind)
    bias, shift = (THIRD if old.bias else None, old.shift) if ends else (None, 0)
    weight = replace(old.weight, address=WEIGHT)
    return draw.case(replace(old, weight=weight, result=result, partial=first, relu=relu, bias=bias, shift=shift))


def depthwise(draw: Draw, floats: bool, block: bool) -> Case:
    kinds = (BF16, BF16) if floats else (draw.pick(INT8, UINT8), INT8)
    c, size, n = draw.number(1, draw.most), (draw.number(1, 7), draw.number(1, 8)), draw.number(1, 3)
    dilate = draw.target.dilates_per_channel or not block
    window, out = draw_window(draw, size, dilate=dilate)
    dtype, relu = (BF16, draw.chance()) if floats else result_type(draw, *kinds)
    shape = (n, c, *out)
    result = draw.tensor(RESULT, dtype, shape, lanes=True, gaps=False)
    third = draw.beside(THIRD, result)
    weight = draw.scalar(kinds[1]) if draw.chance(5) else Operand(draw.beside(WEIGHT, result), kinds[1])
    return draw.case(
        Depthwise(
            result=result,
            result_shape=shape,
            input=draw.tensor(A, kinds[0], (n, c, *size), lanes=True, gaps=False),
            input_size=size,
            weight=weight,
            **window.__dict__,
            pad_value=0 if floats else draw.pick(0, 5, 77),
            block=channel_block(draw, third, c, not draw.chance(4)) if block else None,
            bias=third if not block and draw.chance() else None,
            shift=0 if block or floats else draw.number(0, 12),
            relu=relu,
        )
    )


def pool(draw: Draw, floats: bool, kind: type[AveragePool | MaxPool]) -> Case:
    dtype = BF16 if floats else draw.pick(INT8, UINT8)
    size, (n, c, *_) = (draw.number(1, 7), draw.number(1, 8)), draw.shape()
    window, out = draw_window(draw, size, dilate=False, insert=kind is AveragePool)
    fields = {name: value for name, value in window.__dict__.items() if name != "dilation"}
    neutral = {BF16: 0xFF7F, INT8: -128, UINT8: 0} if kind is MaxPool else {BF16: 0x7F7F, INT8: 127, UINT8: 255}
    average = kind is AveragePool
    common = {
        "result": Operand(RESULT, dtype),
        "result_shape": (n, c, *out),
        "input": Operand(A, dtype),
        "input_size": size,
        "pad_value": draw.pick(0, 0 if average else neutral[dtype]),
        **fields,
    }
    if not average:
        return draw.case(kind(**common))
    factor = Scalar.of(draw.number(1, 100) / 100, BF16).bits if floats else draw.number(0, 256)
    return draw.case(AveragePool(**common, factor=factor, shift=0 if floats else draw.number(0, 14)))


# -- matmul ------------------------------------------------------------------------------------------------------------


def matmul(draw: Draw, floats: bool, requantize: bool, partial: bool = False) -> Case:
    kinds = (BF16, BF16) if floats else (draw.pick(INT8, UINT8), draw.pick(INT8, UINT8))
    rows, depth, columns = draw.number(1, 7), draw.number(1, 70), draw.number(1, 90)
    result_split = split_columns(columns, kinds[0], draw.target)
    if draw.chance(4):
        result_split = (draw.number(1, draw.target.lanes + 2), draw.pick(8, 16, 24))
    left_split = split_columns(depth, kinds[0], draw.target)
    if draw.chance(4):
        width = draw.number(1, 20)
        left_split = (-(-depth // width), width)
    stage = draw.pick(PartialSum.FIRST, PartialSum.MIDDLE, PartialSum.LAST) if partial else PartialSum.OFF
    finishes = not stage.writes
    bias = THIRD if finishes and draw.chance() else None
    bias_signed = draw.chance() or requantize
    dtype, relu = (
        (BF16, draw.chance()) if floats else result_type(draw, *kinds, bias_signed=bias_signed and bias is not None)
    )
    accumulate = not floats and not requantize and not partial and draw.chance(4)
    wide = not floats and not requantize and not partial and draw.chance(3)
    if wide or stage.writes:
        any_signed = (bias_signed and bias is not None) or any(kind.signed for kind in kinds)
        dtype, relu = dtype if floats else (INT8 if any_signed else UINT8), False
        if wide:
            dtype = INT16 if any_signed else UINT16
    return draw.case(
        MatMul(
            rows=rows,
            depth=depth,
            result=Operand(RESULT, dtype),
            result_split=result_split,
            left=Operand(A, kinds[0]),
            left_split=left_split,
            right=Operand(B, kinds[1]),
            bias=bias,
            bias_signed=bias_signed or floats,
            multiplier=draw.number(0, 1 << 31) if requantize and finishes else None,
            shift=0 if floats or not finishes else draw.number(draw.least_shift if requantize else 0, 16),
            accumulate=accumulate,
            left_shift=draw.number(0, 8) if accumulate else 0,
            relu=relu,
            partial=stage,
        )
    )


# -- tensor arithmetic -------------------------------------------------------------------------------------------------


def arithmetic(draw: Draw, op: ArithmeticOp, floats: bool) -> Case:
    shape = draw.shape()
    scaled = op in (ArithmeticOp.MUL, ArithmeticOp.MAC, ArithmeticOp.ADD, ArithmeticOp.SUB)
    wide = op in (ArithmeticOp.ADD, ArithmeticOp.SUB)
    relu = scaled and op is not ArithmeticOp.SUB and draw.chance(3)
    if floats:
        left = right = result = BF16
    elif op is ArithmeticOp.SHIFT:
        draw.lmem[:, B:RESULT] = draw.rng.integers(-16, 17, (draw.target.lanes, RESULT - B)).astype(np.uint8)
        left, right, result = INT16, INT8, INT16
    elif scaled:
        left, right = (draw.pick(INT16, UINT16) if wide else draw.pick(INT8, UINT8) for _ in range(2))
        if op is ArithmeticOp.SUB and not right.signed:
            left = INT16
        any_signed = left.signed or right.signed
        relu = relu and any_signed
        result = INT8 if any_signed else UINT8
        if relu and draw.chance():
            result = UINT8
        elif not relu and draw.chance():
            result = INT16 if any_signed else UINT16
    elif op in (ArithmeticOp.AND, ArithmeticOp.OR, ArithmeticOp.XOR):
        left = right = result = draw.pick(UINT8, UINT16)
    else:
        left = right = result = draw.pick(INT8, UINT8)
    target = draw.tensor(RESULT, result, shape, lanes=True)
    if op is ArithmeticOp.MAC and not floats:
        strides = target.strides(shape, draw.target)
        target = Operand(target.address, result, strides, strides[0] * shape[0])
    other = None
    if op is not ArithmeticOp.COPY:
        constant = draw.chance(4) and op is not ArithmeticOp.SUB
        fixed = Scalar(draw.number(-16, 17) & 0xFF, INT8) if op is ArithmeticOp.SHIFT else draw.scalar(right)
        other = fixed if constant else draw.tensor(B, right, shape, beside=target)
        if isinstance(other, Operand) and draw.chance(5):
            n, c, h, w = other.strides(shape, draw.target)
            layout = draw.pick((n, c, 0, w), (n, c, h, 0), (n, c, 0, 0), (0, c, h, w), (n, 0, h, w))
            other = Operand(other.address, right, layout, other.step(shape, draw.target) if right.planes > 1 else 0)
    requantize = op is ArithmeticOp.MUL and result.planes == 1 and not floats and draw.chance()
    return draw.case(
        Arithmetic(
            operation=op,
            shape=shape,
            result=target,
            left=draw.tensor(A, left, shape, lanes=True),
            right=other,
            shift=draw.number(draw.least_shift if requantize else 0, 12) if scaled and not floats else 0,
            left_shift=draw.number(0, 9) if op is ArithmeticOp.MAC and not floats else 0,
            multiplier=draw.number(0, 1 << 31) if requantize else None,
            relu=relu,
            floor=op is ArithmeticOp.MUL and not floats and not requantize and draw.chance(4),
        )
    )


def lookup(draw: Draw, floats: bool) -> Case:
    shape, kind = draw.shape(), BF16 if floats else UINT8
    return draw.case(
        Lookup(
            shape=shape,
            result=Operand(RESULT, kind),
            input=Operand(A, kind),
            table=B,
        )
    )


def channel_sum(draw: Draw) -> Case:
    kind = draw.pick(INT8, UINT8)
    return draw.case(
        ChannelSum(
            result=Operand(RESULT, kind, Layout.COMPACT),
            input=Operand(A, kind),
            input_shape=draw.shape(),
            shift=draw.number(0, 8),
        )
    )


def _both(make: Callable[..., Case], name: str, **fixed: object) -> dict[str, tuple[Generator, bool]]:
    return {
        f"{name}.int": (lambda draw: make(draw, floats=False, **fixed), False),
        f"{name}.bf16": (lambda draw: make(draw, floats=True, **fixed), True),
    }


WITHOUT = (ArithmeticOp.GREATER_EQUAL,)
"""Operations that some of the chips do not have."""
GENERATORS: dict[str, tuple[Generator, bool]] = {
    **_both(conv, "conv", block=False),
    "conv.block": (lambda draw: conv(draw, False, True), False),
    **_both(partial_conv, "conv.partial"),
    **_both(depthwise, "depthwise", block=False),
    "depthwise.block": (lambda draw: depthwise(draw, False, True), False),
    **_both(pool, "pool.max", kind=MaxPool),
    **_both(pool, "pool.average", kind=AveragePool),
    **_both(matmul, "matmul", requantize=False),
    **_both(matmul, "matmul.partial", requantize=False, partial=True),
    "matmul.requantize": (lambda draw: matmul(draw, False, True), False),
    **{
        f"{op.name.lower()}.int": (lambda draw, op=op: arithmetic(draw, op, False), False)
        for op in ArithmeticOp
        if op not in WITHOUT
    },
    **{
        f"{op.name.lower()}.bf16": (lambda draw, op=op: arithmetic(draw, op, True), True)
        for op in (*list(ArithmeticOp)[:6], ArithmeticOp.COPY)
    },
    **_both(lookup, "lookup"),
    **DMA_GENERATORS,
}
SUMS: dict[str, tuple[Generator, bool]] = {"sum.int": (channel_sum, False)}
"""For chips that add up the elements of channels."""
COMPARISONS: dict[str, tuple[Generator, bool]] = {
    **_both(pool, "pool.min", kind=MinPool),
    **_both(arithmetic, "greater_equal", op=ArithmeticOp.GREATER_EQUAL),
}
"""For chips that compare."""


def generators(target: Target) -> dict[str, tuple[Generator, bool]]:
    """Those of a chip."""
    sums = SUMS if target.has_channel_sums else {}
    return {**GENERATORS, **sums, **(COMPARISONS if target.has_comparisons else {})}


TAME = ("exponent_index",)
"""The functional model aborts on infinities here."""


def make_case(name: str, seed: int, target: Target) -> Case:
    """The case of a generator and a seed; one in four bf16 cases holds special patterns."""
    make, floats = generators(target)[name]
    rng = np.random.default_rng([sum(map(ord, name)), seed])
    return make(Draw(rng, target, floats, seed % 4 == 3 and name not in TAME))
