"""Random legal DMA instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tpuc_cv18.isa import (
    Compression,
    DType,
    Fill,
    LinearCopy,
    MatrixCopy,
    MoveFunction,
    RotateChannels,
    TensorCopy,
    TransposeCW,
    TransposeNC,
    gmem,
    lane_address,
    natural_strides,
    split_columns,
)
from tpuc_cv18.machine import Machine

from tests.chips.cv18.draw import BASES, RESULT, A, Array, Case, Draw, Shape4

INT8, UINT8, BF16 = DType.INT8, DType.UINT8, DType.BF16
Steps = tuple[int, int, int]


def local(draw: Draw, start: int, shape: Shape4, size: int) -> tuple[int, Steps]:
    """A place in local memory."""
    address = draw.address(start, lanes=True)
    _n, c, h, _ = natural_strides(draw.target, shape, size)
    if draw.chance(3):
        h += size * draw.number(0, 3)
        c = -(-h * shape[2] // 16) * 16
    groups = draw.target.groups_of(address // 0x8000 + shape[1])
    return address, (c * groups, c, h)


def remote(draw: Draw, shape: Shape4, size: int) -> tuple[int, Steps]:
    """A place in GMEM."""
    _, c, h, w = shape
    h_step = w * size + (size * draw.number(0, 5) if draw.chance(3) else 0)
    c_step = h * h_step + (draw.number(0, 9) if draw.chance(3) else 0)
    return gmem(draw.number(0, BASES), draw.number(0, 64)), (c * c_step, c_step, h_step)


def copy(draw: Draw, direction: str, source: DType, target: DType, function: MoveFunction = MoveFunction.NONE) -> Case:
    shape = result = draw.shape()
    if draw.chance(3):
        n, c, h, w = shape
        result = draw.pick((n, c, 1, h * w), (n, c * h, 1, w), (n, c, w, h), (n, 1, c, h * w))
    places = []
    for side, extent, kind, start in zip(direction, (shape, result), (source, target), (A, RESULT), strict=True):
        if side == "l":
            places.append(local(draw, start, extent, kind.bytes))
        else:
            address, steps = remote(draw, extent, kind.bytes)
            places.append((address if start == A else address + 0x4000, steps))
    (from_, from_steps), (to, to_steps) = places
    if draw.chance(6):
        from_steps = (*from_steps[:1], 0, from_steps[2])
    return draw.case(
        TensorCopy(
            source=from_,
            destination=to,
            shape=shape,
            dtype=source,
            source_strides=from_steps,
            destination_strides=to_steps,
            destination_shape=None if result == shape else result,
            destination_dtype=None if source is target else target,
            toward_zero=source is BF16 and target is not BF16 and draw.chance(),
            function=function,
        )
    )


def transpose(draw: Draw, direction: str) -> Case:
    shape, kind = (draw.number(1, 9), draw.number(1, 9), draw.number(1, 6), draw.number(1, 9)), draw.pick(INT8, BF16)
    n, c, h, w = shape
    result = (c, n, h, w)
    if direction == "gl":
        (source, source_steps), (target, steps) = (
            remote(draw, shape, kind.bytes),
            local(draw, RESULT, result, kind.bytes),
        )
    else:
        (source, source_steps), (target, steps) = local(draw, A, shape, kind.bytes), remote(draw, result, kind.bytes)
    return draw.case(
        TransposeNC(
            source=source,
            destination=target,
            shape=shape,
            dtype=kind,
            source_strides=source_steps,
            destination_strides=steps,
        )
    )


def transpose_cw(draw: Draw) -> Case:
    shape = (draw.number(1, 4), draw.number(1, draw.some), draw.number(1, 6), draw.number(1, 9))
    n, c, h, w = shape
    source, source_steps = local(draw, A, shape, 1)
    target, steps = remote(draw, (n, w, h, c), 1)
    return draw.case(
        TransposeCW(
            source=source,
            destination=target,
            shape=shape,
            dtype=INT8,
            source_strides=source_steps,
            destination_strides=steps,
        )
    )


def rotate(draw: Draw) -> Case:
    kind = draw.pick(INT8, UINT8)
    shape = (draw.number(1, 3), draw.pick(3, 4), draw.number(1, 7), draw.number(1, 9))
    target, (_, c_step, _) = local(draw, RESULT, shape, 1)
    steps = (c_step * 2, c_step, shape[3])
    source = gmem(draw.number(0, BASES), draw.number(0, 64))
    return draw.case(
        RotateChannels(source=source, destination=target, shape=shape, dtype=kind, destination_strides=steps)
    )


def matrix(draw: Draw, direction: str, turned: bool = False) -> Case:
    kind = INT8 if turned else draw.pick(INT8, BF16)
    rows, columns = draw.number(1, 20), draw.number(1, 90)
    split = split_columns(rows if turned else columns, kind, draw.target)
    stride = columns * kind.bytes + draw.pick(0, 0, 3 * kind.bytes)
    there, here = gmem(draw.number(0, BASES), draw.number(0, 64)), draw.address(RESULT, lanes=split[0] < 3)
    return draw.case(
        MatrixCopy(
            source=there if direction == "gl" else here,
            destination=here if direction == "gl" else there,
            rows=rows,
            columns=columns,
            dtype=kind,
            split=split,
            row_stride=stride,
            transpose=turned,
        )
    )


def compressed(draw: Draw, kind: DType, zero_guard: bool = False) -> Case:
    """A store, with streams that a load reads back."""
    shape = (draw.number(1, 3), draw.number(1, draw.some), draw.number(1, 5), draw.number(1, 9))
    if kind is not BF16 and draw.chance():
        wide = draw.lmem.view(np.int8).astype(np.int16) >> draw.number(0, 7)
        draw.lmem[:] = (wide if kind is INT8 else np.abs(wide)).astype(np.uint8)
    if zero_guard and draw.chance():
        draw.lmem[:] = _close_exponents(draw).view(np.uint8).reshape(draw.lmem.shape)
    how = Compression(signed=kind is INT8, bias=127 if kind is BF16 else 0, zero_guard=zero_guard)
    source, steps = local(draw, A, shape, kind.bytes)
    target = gmem(draw.number(0, BASES), 16 * draw.number(0, 8))
    return draw.case(
        TensorCopy(source=source, destination=target, shape=shape, dtype=kind, source_strides=steps, compression=how)
    )


def _close_exponents(draw: Draw) -> Array:
    """bf16 patterns with zeros and exponents near 127, for which several codes take as many bits."""
    exponents = draw.lmem.view(np.uint16).reshape(-1) % 7 + 124
    exponents[draw.lmem.view(np.uint16).reshape(-1) % 11 < draw.number(0, 9)] = 0
    return exponents << np.uint16(7)


def decompressed(draw: Draw, kind: DType, zero_guard: bool = False) -> Case:
    """The load of such a stream."""
    case = compressed(draw, kind, zero_guard)
    store: TensorCopy = case.instruction
    machine = Machine(draw.target)
    case.load(machine)
    store.execute(machine)
    for base in range(BASES):
        draw.gmem[base] = machine.gmem[base]
    target, steps = local(draw, RESULT, store.shape, kind.bytes)
    return draw.case(
        TensorCopy(
            source=store.destination,
            destination=target,
            shape=store.shape,
            dtype=kind,
            destination_strides=steps,
            compression=store.compression,
        )
    )


def fill(draw: Draw, side: str) -> Case:
    kind, shape = draw.pick(INT8, BF16), draw.shape()
    address, steps = local(draw, RESULT, shape, kind.bytes) if side == "l" else remote(draw, shape, kind.bytes)
    value = draw.number(0, 0x10000) if kind is BF16 else draw.number(0, 256)
    return draw.case(Fill(destination=address, shape=shape, dtype=kind, value=value, strides=steps))


def linear(draw: Draw, direction: str) -> Case:
    here, there = lane_address(0, RESULT + draw.number(0, 64)), gmem(draw.number(0, BASES), draw.number(0, 64))
    other = gmem(draw.number(0, BASES), 0x4000 + draw.number(0, 64))
    source, target = {"gl": (there, here), "lg": (here, there), "gg": (there, other)}[direction]
    return draw.case(LinearCopy(source=source, destination=target, size=draw.number(1, 500)))


def _copies() -> dict[str, tuple[Callable[[Draw], Case], bool]]:
    found: dict[str, tuple[Callable[[Draw], Case], bool]] = {}
    for way in ("gl", "lg", "ll", "gg"):
        for kind in (INT8, BF16):
            found[f"copy.{way}.{kind}"] = (lambda draw, way=way, kind=kind: copy(draw, way, kind, kind), kind is BF16)
    for kind in (INT8, UINT8):
        for way in ("gl", "ll"):
            found[f"widen.{way}.{kind}"] = (lambda draw, way=way, kind=kind: copy(draw, way, kind, BF16), False)
        for way in ("lg", "ll"):
            found[f"narrow.{way}.{kind}"] = (lambda draw, way=way, kind=kind: copy(draw, way, BF16, kind), True)
    for function in (MoveFunction.EXPONENT_INDEX, MoveFunction.CLEAR_MANTISSA):
        name = function.name.lower()
        found[name] = (lambda draw, function=function: copy(draw, "ll", BF16, BF16, function), True)
    return found


DMA_GENERATORS: dict[str, tuple[Callable[[Draw], Case], bool]] = {
    **_copies(),
    "transpose.nc.load": (lambda draw: transpose(draw, "gl"), False),
    "transpose.nc.store": (lambda draw: transpose(draw, "lg"), False),
    "transpose.cw": (transpose_cw, False),
    "rotate": (rotate, False),
    "matrix.load": (lambda draw: matrix(draw, "gl"), False),
    "matrix.store": (lambda draw: matrix(draw, "lg"), False),
    "matrix.transpose": (lambda draw: matrix(draw, "gl", True), False),
    **{
        f"compress.{kind}": (lambda draw, kind=kind: compressed(draw, kind), kind is BF16)
        for kind in (INT8, UINT8, BF16)
    },
    "compress.guarded": (lambda draw: compressed(draw, BF16, True), True),
    **{
        f"expand.{kind}": (lambda draw, kind=kind: decompressed(draw, kind), kind is BF16)
        for kind in (INT8, UINT8, BF16)
    },
    "expand.guarded": (lambda draw: decompressed(draw, BF16, True), True),
    "fill.local": (lambda draw: fill(draw, "l"), False),
    "fill.gmem": (lambda draw: fill(draw, "g"), False),
    **{f"linear.{way}": (lambda draw, way=way: linear(draw, way), False) for way in ("gl", "lg", "gg")},
}
