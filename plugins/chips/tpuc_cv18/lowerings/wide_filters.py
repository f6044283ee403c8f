"""Filters of unsigned bytes with a zero point, nine bits, as sums of bytes: over operands that are there repeatedly, or
in commands of their own.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import LoweringBuilder, TensorType, Value
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.isa.geometry import EU_BYTES, REQUANTISE_LEAST
from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.lowerings.windows import pads_fit, strides_fit

_LOW, _HIGH = -128, 127
_FEW = 32
"""Channels that are worth copies of their own."""
_MOST_BYTES = 4096
"""Of one filter that lies whole in local memory."""
_COMMAND, _STEP, _LAST = 72, 10, 8
"""Cycles of a command of its own; per vector, of sums that are written, and of the way of results to their place."""
_REPEATING = 5
"""Cycles per vector of an operand whose rows are repeated."""
_LARGER = 1.2
"""How much more that costs because tiles are smaller."""
_DDR_BYTES = 11
"""Per cycle."""


def byte_count(filters: Array) -> int:
    """How many bytes a number of the filters is a sum of at most; 1: they are bytes."""
    low, high = int(filters.min(initial=0)), int(filters.max(initial=0))
    return max(1, -(-high // _HIGH), -(low // -_LOW))


def split(filters: Array, count: int, axis: int) -> Array:
    """The numbers as so many bytes behind each other along an axis."""
    whole = filters.astype(np.int64)
    return np.concatenate([(whole + part) // count for part in range(count)], axis).astype(filters.dtype)


def beyond_bytes(filters: Array) -> tuple[int, ...]:
    """Output and input channel of each number that no byte holds, behind each other."""
    pairs = np.argwhere(((filters < _LOW) | (filters > _HIGH)).any(axis=(2, 3)))
    return tuple(pairs.reshape(-1).tolist())


def parts_apart_pay(value: Value, op: top.Conv, filters: Array, result: TensorType, lanes: int) -> bool:
    """Do the groups of output channels with numbers beyond bytes cost less in commands of their own than all of them
    over an operand that is there twice?
    """
    _, ic, rows, columns = filters.shape
    if byte_count(filters) != 2 or rows * columns * ic > _MOST_BYTES:
        return False
    if op.group > 1:
        return not zero_point(result) and _channels_apart_pay(op, filters, result, lanes)
    continued = _continued_cycles(op, filters, result, lanes)
    if _has_few(filters, 2, value.tensor.size):
        once = _convolution_cycles(filters, 1, result, lanes)
        return continued < once + 2 * value.tensor.size // _DDR_BYTES + _COMMAND
    if zero_point(result):
        return False  # halves have room for twice the sums, which bring it more finely
    repeating = _REPEATING * -(-ic // lanes) * _vectors(value.tensor)
    return continued < _LARGER * (_convolution_cycles(filters, 2, result, lanes) + repeating)


def _continued_cycles(op: top.Conv, filters: Array, result: TensorType, lanes: int) -> int:
    """Of a convolution in which what is beyond bytes is added to the sums of its groups."""
    _, _, rows, columns = filters.shape
    pairs = np.array(beyond_bytes(filters)).reshape(-1, 2)
    commands = len({(one // lanes, channel) for one, channel in pairs.tolist()})
    groups = len(set((pairs[:, 0] // lanes).tolist()))
    added = commands * (rows * columns * (1 + op.strides[1]) + _STEP) + groups * _LAST
    once = _convolution_cycles(filters, 1, result, lanes)
    return once + _vectors(result) * added + _COMMAND * (commands + 2 * groups)


def _channels_apart_pay(op: top.Conv, filters: Array, result: TensorType, lanes: int) -> bool:
    """Where every channel has a filter of its own: are rows repeated for few groups only?"""
    oc, _, rows, columns = filters.shape
    groups = len({one // lanes for one in beyond_bytes(filters)[::2]})
    spared = (-(-oc // lanes) - groups) * rows * columns * _vectors(result)
    return oc == op.group and _repeats_rows(op, 2) and spared > _COMMAND * (3 * groups + 1)


def _vectors(images: TensorType) -> int:
    """Of one group of channels."""
    n, _, height, width = images.dims
    return n * -(-height * width // EU_BYTES)


def _convolution_cycles(filters: Array, count: int, result: TensorType, lanes: int) -> int:
    """Of bytes, each so many times."""
    oc, ic, rows, columns = filters.shape
    return _vectors(result) * -(-oc // lanes) * max(REQUANTISE_LEAST, count * rows * columns * -(-ic // 2) + 1)


def convolution_in_bytes(
    value: Value, op: top.Conv, filters: Array, name: str, build: LoweringBuilder
) -> tuple[Value, top.Conv, Array]:
    """A convolution of whole numbers as one of bytes: over repeated rows, which local memory makes. Over repeated
    channels where commands cannot say that, and as it is where every channel has a filter of its own besides.

    Where filters are more bytes than the operand only those channels are repeated, in DDR, that have numbers beyond
    bytes.
    """
    count = byte_count(filters)
    if count == 1:
        return value, op, filters
    if op.group == 1 and _has_few(filters, count, value.tensor.size):
        wide = _wide_channels(filters)
        return _some_again(value, count, wide, name, build), op, some_split(filters, count, wide)
    if not _repeats_rows(op, count):
        if op.group > 1:
            return value, op, filters
        return repeated(value, count, 1, f"{name}_again", build), op, split(filters, count, 1)
    n, c, h, w = value.tensor.dims
    twice = value.tensor.with_shape((n, c, h * count, w)).at(None)
    value = build(tpu.Upsample(scale_h=count, scale_w=1), [value], twice, f"{name}_again")
    between = split(filters[:, :, :, None], count, 3)
    rows, columns = op.kernel_shape
    return value, _deep(op, count), between.reshape(*filters.shape[:2], rows * count, columns)


def _deep(op: top.Conv, count: int) -> top.Conv:
    """Over rows that are there so many times."""
    upper, left, bottom, right = op.pads
    rows, columns = op.kernel_shape
    return dataclasses.replace(
        op,
        kernel_shape=(rows * count, columns),
        strides=(op.strides[0] * count, op.strides[1]),
        pads=(upper * count, left, bottom * count, right),
    )


def _repeats_rows(op: top.Conv, count: int) -> bool:
    """Can commands say that?"""
    deep = _deep(op, count)
    return (op.dilations or (1, 1))[0] == 1 and pads_fit(deep) and strides_fit(deep)


def _wide_channels(filters: Array) -> Array:
    """The input channels of numbers that no byte holds."""
    return np.flatnonzero(((filters < _LOW) | (filters > _HIGH)).any(axis=(0, 2, 3)))


def _has_few(filters: Array, count: int, size: int) -> bool:
    """Are only few channels repeated, of an operand of so many numbers?"""
    return _wide_channels(filters).size * (count - 1) <= _FEW and filters.size > 2 * size


def _some_again(value: Value, count: int, channels: Array, name: str, build: LoweringBuilder) -> Value:
    """The operand with copies of some of its channels behind it."""
    n, c, h, w = value.tensor.dims
    alone = value.tensor.with_shape((n, 1, h, w)).at(None)
    copies: list[Value] = []
    for channel in channels.tolist():
        cut = tpu.Slice(offset=(0, channel, 0, 0), steps=(1, 1, 1, 1), ends=(n, channel + 1, h, w))
        copies.append(build(cut, [value], alone, f"{name}_channel{channel}"))
    copies *= count - 1
    whole = value.tensor.with_shape((n, c + len(copies), h, w)).at(None)
    return build(tpu.Concat(axis=1), [value, *copies], whole, f"{name}_again")


def some_split(filters: Array, count: int, channels: Array) -> Array:
    """The numbers of these channels as bytes, the first one in its place and the others behind all channels."""
    first, *others = np.split(split(filters[:, channels], count, 1), count, 1)
    whole = filters.copy()
    whole[:, channels] = first
    return np.concatenate([whole, *others], 1)


def repeated(value: Value, count: int, axis: int, name: str, build: LoweringBuilder) -> Value:
    """The operand so many times behind itself."""
    dims = list(value.tensor.dims)
    dims[axis] *= count
    return build(tpu.Concat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
