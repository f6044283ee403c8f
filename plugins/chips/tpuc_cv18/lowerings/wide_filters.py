"""Filters with nine bits (unsigned bytes with a zero point) as sums of bytes: over duplicated operands, or in separate
commands.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import LoweringBuilder, TensorType, Value
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.isa.geometry import EU_BYTES, REQUANTIZE_LEAST
from tpuc_cv18.lowerings.common import Array
from tpuc_cv18.lowerings.windows import pads_fit, strides_fit

_LOW, _HIGH = -128, 127
_FEW = 32
"""Maximum number of channels that are worth separate copies."""
_MOST_BYTES = 4096
"""Maximum size of one filter that is held whole in local memory."""
_COMMAND, _STEP, _LAST = 72, 10, 8
"""Cycles of a separate command; per vector, cycles to write sums, and to move results to their place."""
_REPEATING = 5
"""Cycles per vector to duplicate the rows of an operand."""
_LARGER = 1.2
"""Slowdown by the smaller tiles that duplication causes."""
_DDR_BYTES = 11
"""DDR bandwidth in bytes per cycle."""


def byte_count(filters: Array) -> int:
    """The most bytes needed as summands of any filter value; 1 if all values are bytes."""
    low, high = int(filters.min(initial=0)), int(filters.max(initial=0))
    return max(1, -(-high // _HIGH), -(low // -_LOW))


def split(filters: Array, count: int, axis: int) -> Array:
    """Split the values into `count` bytes, concatenated along an axis."""
    whole = filters.astype(np.int64)
    return np.concatenate([(whole + part) // count for part in range(count)], axis).astype(filters.dtype)


def beyond_bytes(filters: Array) -> tuple[int, ...]:
    """Output and input channel of each filter with values beyond 8 bits, flattened."""
    pairs = np.argwhere(((filters < _LOW) | (filters > _HIGH)).any(axis=(2, 3)))
    return tuple(pairs.reshape(-1).tolist())


def parts_apart_pay(value: Value, op: top.Conv, filters: Array, result: TensorType, lanes: int) -> bool:
    """True when separate commands for the output channel groups with values beyond 8 bits are cheaper than duplicating
    the operand.
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
        return False  # halves allow sums twice as large, which represent it more finely
    repeating = _REPEATING * -(-ic // lanes) * _vectors(value.tensor)
    return continued < _LARGER * (_convolution_cycles(filters, 2, result, lanes) + repeating)


def _continued_cycles(op: top.Conv, filters: Array, result: TensorType, lanes: int) -> int:
    """Cycles of a convolution that adds the excess beyond 8 bits to the sums of its groups."""
    _, _, rows, columns = filters.shape
    pairs = np.array(beyond_bytes(filters)).reshape(-1, 2)
    commands = len({(one // lanes, channel) for one, channel in pairs.tolist()})
    groups = len(set((pairs[:, 0] // lanes).tolist()))
    added = commands * (rows * columns * (1 + op.strides[1]) + _STEP) + groups * _LAST
    once = _convolution_cycles(filters, 1, result, lanes)
    return once + _vectors(result) * added + _COMMAND * (commands + 2 * groups)


def _channels_apart_pay(op: top.Conv, filters: Array, result: TensorType, lanes: int) -> bool:
    """For depthwise filters: true when rows are duplicated for few groups only."""
    oc, _, rows, columns = filters.shape
    groups = len({one // lanes for one in beyond_bytes(filters)[::2]})
    spared = (-(-oc // lanes) - groups) * rows * columns * _vectors(result)
    return oc == op.group and _repeats_rows(op, 2) and spared > _COMMAND * (3 * groups + 1)


def _vectors(images: TensorType) -> int:
    """Vectors of one channel group."""
    n, _, height, width = images.dims
    return n * -(-height * width // EU_BYTES)


def _convolution_cycles(filters: Array, count: int, result: TensorType, lanes: int) -> int:
    """Cycles of a convolution with each byte counted `count` times."""
    oc, ic, rows, columns = filters.shape
    return _vectors(result) * -(-oc // lanes) * max(REQUANTIZE_LEAST, count * rows * columns * -(-ic // 2) + 1)


def convolution_in_bytes(
    value: Value, op: top.Conv, filters: Array, name: str, build: LoweringBuilder
) -> tuple[Value, top.Conv, Array]:
    """Rewrite a convolution with wide integers as one with bytes. Rows are duplicated in local memory; channels are
    duplicated where commands do not support that; a depthwise convolution stays unchanged in that case.

    Where filters have more bytes than the operand, only the channels with values beyond 8 bits are duplicated, in DDR.
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
    """The op over rows duplicated `count` times."""
    upper, left, bottom, right = op.pads
    rows, columns = op.kernel_shape
    return dataclasses.replace(
        op,
        kernel_shape=(rows * count, columns),
        strides=(op.strides[0] * count, op.strides[1]),
        pads=(upper * count, left, bottom * count, right),
    )


def _repeats_rows(op: top.Conv, count: int) -> bool:
    """True when commands support duplicated rows."""
    deep = _deep(op, count)
    return (op.dilations or (1, 1))[0] == 1 and pads_fit(deep) and strides_fit(deep)


def _wide_channels(filters: Array) -> Array:
    """Input channels of values beyond 8 bits."""
    return np.flatnonzero(((filters < _LOW) | (filters > _HIGH)).any(axis=(0, 2, 3)))


def _has_few(filters: Array, count: int, size: int) -> bool:
    """True when few channels of an operand with `size` elements are duplicated."""
    return _wide_channels(filters).size * (count - 1) <= _FEW and filters.size > 2 * size


def _some_again(value: Value, count: int, channels: Array, name: str, build: LoweringBuilder) -> Value:
    """The operand with copies of some of its channels appended."""
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
    """Split the values of these channels into bytes: the first in place, the others after all channels."""
    first, *others = np.split(split(filters[:, channels], count, 1), count, 1)
    whole = filters.copy()
    whole[:, channels] = first
    return np.concatenate([whole, *others], 1)


def repeated(value: Value, count: int, axis: int, name: str, build: LoweringBuilder) -> Value:
    """The operand concatenated with itself `count` times."""
    dims = list(value.tensor.dims)
    dims[axis] *= count
    return build(tpu.Concat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
