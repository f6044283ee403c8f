"""Convolution over three dimensions, and pooling with dilations or over more dimensions, as two-dimensional windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import optional_value, permute, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import Shape
from tpuc_onnx.importers.window import WindowAttributes

LOWEST = float(np.finfo(np.float32).min)


def is_unusual(node: ForeignNode, build: ImportBuilder) -> bool:
    """True for pooling with dilations, or over other than one to three dimensions."""
    rank = len(build.shape(node.inputs[0])) - 2
    return rank not in (1, 2, 3) or max(node.attributes.get("dilations", (1,))) > 1


def _pool_window(node: ForeignNode, build: ImportBuilder) -> tuple[WindowAttributes, WindowAttributes]:
    """Return the window as stated, with the padding to which rounding up amounts."""
    window = WindowAttributes.any(node, build, node.attributes["kernel_shape"])
    return window, window.ceiled(build.shape(node.inputs[0])[2:], build.shape(node.outputs[0])[2:])


def max_pool_by_axis(node: ForeignNode, build: ImportBuilder) -> Value:
    """Pool one axis after the other: by a pool over rows, or, with dilations, by the maximum of slices."""
    x, name, shape = build.value(node.inputs[0]), node.outputs[0], build.shape(node.outputs[0])
    _, window = _pool_window(node, build)
    rank = len(window.kernel)
    for axis in range(rank):
        own = name if axis == rank - 1 else f"{name}_axis{axis}"
        dilated = window.dilations[axis] > 1 and window.kernel[axis] > 1
        x = (_largest_tap if dilated else _largest)(build, x, axis, window, shape[axis + 2], own)
    return x


def _largest(build: ImportBuilder, x: Value, axis: int, window: WindowAttributes, count: int, name: str) -> Value:
    """Pool along one axis, as a pool over rows."""
    dims, place, rank = x.tensor.dims, axis + 2, len(window.kernel)
    rows = (dims[0], math.prod(dims[1:place]), dims[place], math.prod(dims[place + 1 :]))
    result = (*dims[:place], count, *dims[place + 1 :])
    pool = top.MaxPool(
        kernel_shape=(window.kernel[axis], 1),
        strides=(window.strides[axis], 1),
        pads=(window.pads[axis], 0, window.pads[axis + rank], 0),
    )
    inner = name if (*rows[:2], count, rows[3]) == result else f"{name}_largest"
    return reshape(build, build.build(pool, [reshape(build, x, rows, f"{name}_rows")], inner), result, name)


def _largest_tap(build: ImportBuilder, x: Value, axis: int, window: WindowAttributes, count: int, name: str) -> Value:
    rank = len(window.kernel)
    before, after = window.pads[axis], window.pads[axis + rank]
    if before or after:
        paddings = [0] * (2 * x.tensor.rank)
        paddings[axis + 2], paddings[axis + 2 + x.tensor.rank] = before, after
        x = build.build(top.Pad(paddings=tuple(paddings), val=LOWEST), [x], f"{name}_padded")
    taps = [
        _every(build, x, axis + 2, tap * window.dilations[axis], window.strides[axis], count, name)
        for tap in range(window.kernel[axis])
    ]
    return build.build(top.Max(), taps, name)


def average_pool_by_axis(node: ForeignNode, build: ImportBuilder) -> Value:
    """Sum by depthwise convolutions with ones, one axis after the other, and multiply by the reciprocal count."""
    x, name, shape = build.value(node.inputs[0]), node.outputs[0], build.shape(node.outputs[0])
    stated, window = _pool_window(node, build)
    rank, size = len(window.kernel), x.tensor.dims[2:]
    includes = bool(node.attributes.get("count_include_pad", 0))
    counts = np.ones((), np.float64)
    for axis in range(rank):
        before, after = stated.pads[axis], stated.pads[axis + rank]
        counted = np.full(size[axis] + window.pads[axis] + window.pads[axis + rank], 0.0)
        counted[: before + size[axis] + after if includes else 0] = 1
        counted[before : before + size[axis]] = 1
        starts = np.arange(shape[axis + 2])[:, None] * window.strides[axis]
        along = counted[starts + np.arange(window.kernel[axis]) * window.dilations[axis]].sum(1)
        counts = counts[..., None] * along
        x = _sums(build, x, axis, window, f"{name}_axis{axis}")
    shares = build.weight(f"{name}_shares", (1 / counts)[None, None])
    return build.build(top.Mul(), [x, shares], name)


def _sums(build: ImportBuilder, x: Value, axis: int, window: WindowAttributes, name: str) -> Value:
    """Sum along one axis, as a convolution over rows."""
    dims, place, rank = x.tensor.dims, axis + 2, len(window.kernel)
    channels, rest = math.prod(dims[1:place]), math.prod(dims[place + 1 :])
    rows = reshape(build, x, (dims[0], channels, dims[place], rest), f"{name}_rows")
    taps = window.kernel[axis]
    op = top.Conv(
        kernel_shape=(taps, 1),
        strides=(window.strides[axis], 1),
        pads=(window.pads[axis], 0, window.pads[axis + rank], 0),
        dilations=(window.dilations[axis], 1),
        group=channels,
    )
    ones = build.weight(f"{name}_ones", np.ones((channels, 1, taps, 1), np.float32))
    sums = build.build(op, [rows, ones, build.none()], f"{name}_sums")
    return reshape(build, sums, (*dims[:place], sums.tensor.dims[2], *dims[place + 1 :]), name)


def _every(build: ImportBuilder, x: Value, axis: int, first: int, step: int, count: int, name: str) -> Value:
    """Return `count` elements along an axis, `step` apart."""
    dims = x.tensor.dims
    offset, steps, ends = [0] * len(dims), [1] * len(dims), list(dims)
    offset[axis], steps[axis], ends[axis] = first, step, first + (count - 1) * step + 1
    op = top.Slice(offset=tuple(offset), steps=tuple(steps), ends=tuple(ends))
    return build.build(op, [x], f"{name}_axis{axis}_from{first}")


def conv_volume(node: ForeignNode, build: ImportBuilder) -> Value:
    """Convolve volumes as images: neighbors in depth become channels, as many as the filter is deep.

    Images come first, so parts of the depth are runs of whole images, and volumes that one convolution hands to the
    next keep this order.
    """
    x, name, shape = build.value(node.inputs[0]), node.outputs[0], build.shape(node.outputs[0])
    outputs, inputs, *kernel = build.shape(node.inputs[1])
    window = WindowAttributes.any(node, build, tuple(kernel))
    group = node.attributes.get("group", 1)
    x = permute(build, x, (0, 2, 1, 3, 4), f"{name}_by_depth")
    front, back = window.pads[0], window.pads[3]
    if front or back:
        x = build.build(top.Pad(paddings=(0, front, 0, 0, 0, 0, back, 0, 0, 0)), [x], f"{name}_padded")
    n, _, c, h, w = x.tensor.dims
    depth, taps = shape[2], kernel[0]
    parts = [
        reshape(
            build,
            _every(build, x, 1, tap * window.dilations[0], window.strides[0], depth, name),
            (n * depth, group, inputs, h, w),
            f"{name}_tap{tap}",
        )
        for tap in range(taps)
    ]
    stacked = parts[0] if taps == 1 else build.build(top.Concat(axis=2), parts, f"{name}_taps")
    images = reshape(build, stacked, (n * depth, c * taps, h, w), f"{name}_images")
    op = top.Conv(
        kernel_shape=window.kernel[1:],
        strides=window.strides[1:],
        pads=(*window.pads[1:3], *window.pads[4:]),
        dilations=window.dilations[1:],
        group=group,
    )
    flat = _filter_by_tap(node, build, (outputs, inputs * taps, *kernel[1:]))
    result = build.build(op, [images, flat, optional_value(node, build, 2)], f"{name}_2d")
    volumes = reshape(build, result, (n, depth, outputs, *shape[3:]), f"{name}_volumes")
    return permute(build, volumes, (0, 2, 1, 3, 4), name)


def _filter_by_tap(node: ForeignNode, build: ImportBuilder, flat: Shape) -> Value:
    """Return the filter with depth taps, and the channels of each tap, as channels."""
    name = node.inputs[1]
    array = build.constant(name)
    if array is not None:
        return build.weight(f"{name}_2d", array.swapaxes(1, 2).reshape(flat))
    return reshape(build, permute(build, build.value(name), (0, 2, 1, 3, 4), f"{name}_by_tap"), flat, f"{name}_2d")


def conv_transpose_volume(
    node: ForeignNode, build: ImportBuilder, window: WindowAttributes, extra: Sequence[int]
) -> Value:
    """Transposed convolution of volumes: first within images for all depth taps, then along the depth."""
    x, name, shape = build.value(node.inputs[0]), node.outputs[0], build.shape(node.outputs[0])
    n, c, depth, h, w = x.tensor.dims
    group, kernel = node.attributes.get("group", 1), window.kernel
    outputs = build.shape(node.inputs[1])[1] * group
    x = reshape(build, permute(build, x, (0, 2, 1, 3, 4), f"{name}_by_depth"), (n * depth, c, h, w), f"{name}_images")
    images = top.Deconv(
        kernel_shape=kernel[1:],
        strides=window.strides[1:],
        pads=(*window.pads[1:3], *window.pads[4:]),
        dilations=window.dilations[1:],
        group=group,
        output_padding=tuple(extra[1:]) if any(extra[1:]) else None,
    )
    flat = _flat_filter(node, build, (c, outputs // group * kernel[0], *kernel[1:]))
    y = build.build(images, [x, flat, build.none()], f"{name}_2d")
    rows, columns = y.tensor.dims[2:]
    y = reshape(build, y, (n, depth, outputs * kernel[0], rows * columns), f"{name}_depths")
    y = permute(build, y, (0, 2, 1, 3), f"{name}_taps")
    along = top.Deconv(
        kernel_shape=(kernel[0], 1),
        strides=(window.strides[0], 1),
        pads=(window.pads[0], 0, window.pads[3], 0),
        dilations=(window.dilations[0], 1),
        group=outputs,
        output_padding=(extra[0], 0) if extra[0] else None,
    )
    ones = np.tile(np.eye(kernel[0], dtype=np.float32).reshape(1, kernel[0], kernel[0], 1), (1, outputs, 1, 1))
    operands = [y, build.weight(f"{name}_ones", ones), optional_value(node, build, 2)]
    return reshape(build, build.build(along, operands, f"{name}_flat"), shape, name)


def _flat_filter(node: ForeignNode, build: ImportBuilder, flat: Shape) -> Value:
    """Return the filter by output channel, with depth taps as channels."""
    name = node.inputs[1]
    array = build.constant(name)
    if array is not None:
        return build.weight(f"{name}_2d", array.reshape(flat).swapaxes(0, 1))
    return permute(build, reshape(build, build.value(name), flat, f"{name}_flat"), (1, 0, 2, 3), f"{name}_2d")
