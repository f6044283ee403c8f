"""Custom operators of MediaPipe's networks: transposed convolutions with a bias, pooling with places, landmarks."""

from __future__ import annotations

import contextlib
import importlib
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_ops import top

from tpuc_tflite.building import NCHW, Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, finish, images
from tpuc_tflite.importers.convolution import FROM_OHWI, bias_of, filter_of
from tpuc_tflite.options import CUSTOM

_ROUNDING = 1e-5
"""How far beyond the outermost centers, of half the image, counts as inside: positions there are rounded."""
_MOST_TAPS, _MOST_PIXELS, _MOST_LANDMARKS = 1 << 10, 1 << 24, 1 << 16
_WORDS = (
    *("left_rotation_idx", "right_rotation_idx", "output_height", "output_width", "scale_x", "scale_y"),
    *("subset_idxs", "target_rotation_radians"),
)
"""The options that operators read."""
_SAME = 1
"""The padding of structures in memory, whose 0 is unknown; files' own tables count from 0."""


@TABLE.imports("custom::Convolution2DTransposeBias")
def transpose_conv_bias(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a transposed convolution; the padding follows from the windows, not from the result."""
    padding, *strides = _numbers(node, build, 3)
    strides = [strides[1], strides[0]]
    x, kernel = images(node, build), build.shape(node.inputs[1])[1:3]
    pads = [0, 0, 0, 0]
    for axis, (extent, taps, stride) in enumerate(zip(x.tensor.dims[2:], kernel, strides, strict=True)):
        total = max(0, taps - (extent - 1) % stride - 1) if padding == _SAME else 0
        pads[axis], pads[axis + 2] = total // 2, total - total // 2
    op = top.Deconv(kernel_shape=tuple(kernel), strides=tuple(strides), pads=tuple(pads), output_padding=(0, 0))
    return finish(node, build, op, [x, filter_of(node, build, 1, FROM_OHWI), bias_of(node, build, 2)], NCHW)


@TABLE.imports("custom::MaxPoolingWithArgmax2D")
def max_pool_with_places(node: ForeignNode, build: TfliteBuilder) -> Sequence[Arranged]:
    """Import pooling whose second result is the place in the window, plus 0.1; of equal elements the first counts."""
    kernel, strides = _windows(node, build)
    x, name = images(node, build), node.outputs[0]
    dims = x.tensor.dims
    counts = [(extent - taps) // stride + 1 for extent, taps, stride in zip(dims[2:], kernel, strides, strict=True)]
    best: Value | None = None
    place: Value | None = None
    for tap in range(math.prod(kernel)):
        y, x_ = divmod(tap, kernel[1])
        ends = [begin + (count - 1) * step + 1 for begin, count, step in zip((y, x_), counts, strides, strict=True)]
        cut = top.Slice(offset=(0, 0, y, x_), steps=(1, 1, *strides), ends=(*dims[:2], *ends))
        part = build.build(cut, [x], f"{name}_tap{tap}")
        is_last = tap == math.prod(kernel) - 1
        if best is None or place is None:
            best = part
            place = build.build(top.MulConst(const_val=0.0), [part], f"{name}_place{tap}")
            place = build.build(top.AddConst(const_val=0.1), [place], f"{name}_first")
            continue
        above = build.build(top.Compare(mode="Greater"), [part, best], f"{name}_above{tap}")
        where = top.Where(x_is_const=True, x_const_val=tap + 0.1)
        place = build.build(where, [above, build.none(), place], node.outputs[1] if is_last else f"{name}_place{tap}")
        best = build.build(top.Max(), [best, part], name if is_last else f"{name}_best{tap}")
    assert best is not None
    assert place is not None
    return [Arranged(best, NCHW), Arranged(place, NCHW)]


@TABLE.imports("custom::MaxUnpooling2D")
def max_unpool(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import the inverse: every element at its place in its window, zeros elsewhere."""
    kernel, strides = _windows(node, build)
    if kernel != strides or math.prod(kernel) < 2:
        raise build.refuse(node, f"windows of {kernel[0]}x{kernel[1]} with strides {strides[0]}x{strides[1]} overlap")
    x, name = images(node, build), node.outputs[0]
    places = build.build(top.Floor(), [images(node, build, 1)], f"{name}_places")
    parts: list[Value] = []
    for tap in range(math.prod(kernel)):
        hit = build.build(top.CompareConst(mode="Equal", const_val=float(tap)), [places], f"{name}_hit{tap}")
        parts.append(build.build(top.Mul(), [x, hit], f"{name}_part{tap}"))
    stacked = build.build(top.Concat(axis=1), parts, f"{name}_stacked")
    op = top.Depth2Space(block_h=kernel[0], block_w=kernel[1], is_CRD=False, is_inversed=False)
    return Arranged(build.build(op, [stacked], name), NCHW)


@TABLE.imports("custom::TransformLandmarks")
def transform_landmarks(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import points `[1, n, 2 or 3]` moved by a matrix; a third coordinate stays."""
    _second_version(node, build)
    points, matrix, name = build.value(node.inputs[0]), build.value(node.inputs[1]), node.outputs[0]
    width = points.tensor.dims[-1]
    flat = _part(build, points, 2, 0, 2, f"{name}_flat") if width == 3 else points
    turn = _part(build, _part(build, matrix, 1, 0, 2, f"{name}_rows"), 2, 0, 2, f"{name}_turn")
    turn = build.build(top.Permute(order=(0, 2, 1)), [turn], f"{name}_turned")
    shift = _part(build, _part(build, matrix, 1, 0, 2, f"{name}_upper"), 2, 3, 4, f"{name}_shift")
    shift = build.reshape(shift, (1, 1, 2), f"{name}_shift_row")
    product = build.build(top.MatMul(), [flat, turn, build.none()], f"{name}_product")
    if width == 2:
        return build.build(top.Add(), [product, shift], name)
    moved = build.build(top.Add(), [product, shift], f"{name}_moved")
    return build.build(top.Concat(axis=2), [moved, _part(build, points, 2, 2, 3, f"{name}_depth")], name)


@TABLE.imports("custom::TransformTensorBilinear")
def transform_tensor(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import an image sampled where a matrix moves the centers of the result's pixels; outside of the outermost
    centers are zeros.
    """
    _second_version(node, build)
    options = _options(node, build)
    height, width = _number(node, build, options, "output_height"), _number(node, build, options, "output_width")
    if height * width > _MOST_PIXELS:
        raise build.refuse(node, f"its result of {height}x{width} pixels is larger than any image")
    x, matrix, name = images(node, build), build.value(node.inputs[1]), node.outputs[0]
    rows, columns = np.divmod(np.arange(height * width), width)
    centers = np.stack([columns + 0.5, rows + 0.5, np.zeros(rows.size), np.ones(rows.size)]).astype(np.float32)
    upper = _part(build, matrix, 1, 0, 2, f"{name}_rows")
    places = build.build(top.MatMul(), [upper, build.weight(f"{name}_centers", centers), build.none()], f"{name}_moved")
    # from pixels to -1 at the first center and 1 at the last one
    steps = np.array([2 / max(extent - 1, 1) for extent in x.tensor.dims[:1:-1]], np.float32).reshape(1, 2, 1)
    scaled = build.build(top.Mul(), [places, build.weight(f"{name}_steps", steps)], f"{name}_scaled")
    grid = build.build(top.Add(), [scaled, build.weight(f"{name}_begin", -1 - steps / 2)], f"{name}_grid")
    far = build.build(top.Abs(), [grid], f"{name}_far")
    far = build.build(top.Reduce(axes=(1,), mode="ReduceMax", keepdims=True), [far], f"{name}_farthest")
    inside = build.build(top.CompareConst(mode="LessOrEqual", const_val=1 + _ROUNDING), [far], f"{name}_inside")
    inside = build.reshape(inside, (1, 1, height, width), f"{name}_mask")
    grid = build.build(top.Permute(order=(0, 2, 1)), [grid], f"{name}_pairs")
    grid = build.reshape(grid, (1, height, width, 2), f"{name}_positions")
    sampled = build.build(top.GridSampler(align_corners=True), [x, grid], f"{name}_sampled")
    return Arranged(build.build(top.Mul(), [sampled, inside], name), NCHW)


@TABLE.imports("custom::Landmarks2TransformMatrix")
def landmarks_to_matrix(node: ForeignNode, build: TfliteBuilder) -> Value:
    """Import the matrix `[1, 4, 4]` from pixels of a crop to those of the image: the crop is the box around a subset of
    the landmarks, in which the line from one landmark to another has a stated direction.
    """
    _second_version(node, build)
    options, landmarks, name = _options(node, build), build.value(node.inputs[0]), node.outputs[0]
    left, right, height, width = (
        _number(node, build, options, word, least)
        for word, least in (
            ("left_rotation_idx", 0),
            ("right_rotation_idx", 0),
            ("output_height", 1),
            ("output_width", 1),
        )
    )
    stated, count = options.get("subset_idxs"), landmarks.tensor.dims[1]
    subset = cast("list[int]", stated) if isinstance(stated, list) else []
    if not subset or any(type(index) is not int for index in subset):
        raise build.refuse(node, "its option subset_idxs is no list of landmarks")
    if min([*subset, 0]) < 0 or max([*subset, left, right]) >= count:
        raise build.refuse(node, f"its options name a landmark that is none of the {count}")
    points = _part(build, landmarks, 2, 0, 2, f"{name}_flat")
    turn = _turn(build, points, (left, right), float(options.get("target_rotation_radians", 0.0)), name)
    indices = build.weight(f"{name}_subset", np.array(subset, np.float32))
    chosen = build.build(top.Gather(axis=1), [points, indices], f"{name}_chosen")
    upright = build.build(top.Permute(order=(0, 2, 1)), [turn], f"{name}_upright")
    # rows of points times the inverse of what turns the box back
    turned = build.build(top.MatMul(), [chosen, turn, build.none()], f"{name}_turned")
    ends = [
        build.build(top.Reduce(axes=(1,), mode=mode, keepdims=True), [turned], f"{name}_{mode}")
        for mode in ("ReduceMax", "ReduceMin")
    ]
    middle = build.build(top.MulConst(const_val=0.5), [build.build(top.Add(), ends, f"{name}_sum")], f"{name}_middle")
    center = build.build(top.MatMul(), [middle, upright, build.none()], f"{name}_center")
    sizes = [float(options.get(f"scale_{axis}", 1.0)) / size for axis, size in (("x", width), ("y", height))]
    scale = build.weight(f"{name}_scale", np.array(sizes, np.float32).reshape(1, 1, 2))
    extent = build.build(top.Mul(), [build.build(top.Sub(), ends, f"{name}_box"), scale], f"{name}_extent")
    linear = build.build(top.Mul(), [turn, extent], f"{name}_linear")
    corner = build.weight(f"{name}_corner", np.array([[-width / 2], [-height / 2]], np.float32))
    offset = build.build(top.MatMul(), [linear, corner, build.none()], f"{name}_offset")
    shift = build.build(top.Add(), [offset, build.reshape(center, (1, 2, 1), f"{name}_origin")], f"{name}_shift")
    depth = build.build(top.MulConst(const_val=0.0), [shift], f"{name}_depth")
    upper = build.build(top.Concat(axis=2), [linear, depth, shift], f"{name}_upper")
    lower = build.weight(f"{name}_lower", np.array([[[0, 0, 1, 0], [0, 0, 0, 1]]], np.float32))
    return build.build(top.Concat(axis=1), [upper, lower], name)


def _turn(build: TfliteBuilder, points: Value, pair: tuple[int, int], target: float, name: str) -> Value:
    """`[1, 2, 2]`: (cos, sin), (-sin, cos) of what the line between two points lacks to the target direction. The
    line's own sine and cosine are its sides.
    """
    ends = [_part(build, points, 1, index, index + 1, f"{name}_end{number}") for number, index in enumerate(pair)]
    line = build.build(top.Sub(), ends[::-1], f"{name}_line")
    squares = build.build(top.Mul(), [line, line], f"{name}_squares")
    total = build.build(top.Reduce(axes=(2,), mode="ReduceSum", keepdims=True), [squares], f"{name}_total")
    length = build.build(top.Sqrt(), [total], f"{name}_length")
    sides = build.build(top.Div(), [line, length], f"{name}_sides")
    cos, sin = math.cos(target), math.sin(target)
    columns = np.array([[cos, sin, -sin, cos], [sin, -cos, cos, sin]], np.float32)
    flat = build.build(top.MatMul(), [sides, build.weight(f"{name}_target", columns), build.none()], f"{name}_turns")
    return build.reshape(flat, (1, 2, 2), f"{name}_turn")


def _part(build: TfliteBuilder, value: Value, axis: int, start: int, end: int, name: str) -> Value:
    dims = value.tensor.dims
    offset, ends = [0] * len(dims), list(dims)
    offset[axis], ends[axis] = start, end
    return build.build(top.Slice(offset=tuple(offset), steps=(1,) * len(dims), ends=tuple(ends)), [value], name)


def _windows(node: ForeignNode, build: TfliteBuilder) -> tuple[tuple[int, int], tuple[int, int]]:
    """Kernel and strides of pooling whose windows lie inside the image."""
    padding, stride_w, stride_h, filter_w, filter_h, activation = _numbers(node, build, 6)
    kernel, strides = (filter_h, filter_w), (stride_h, stride_w)
    if activation:
        raise build.refuse(node, f"its fused activation {activation} is not supported")
    extents = build.shape(node.inputs[0])[1:3]
    if math.prod(kernel) > _MOST_TAPS:
        raise build.refuse(node, f"windows of {kernel[0]}x{kernel[1]} are larger than {_MOST_TAPS} elements")
    inside = [
        (-(-extent // stride) - 1) * stride + taps <= extent
        for extent, taps, stride in zip(extents, kernel, strides, strict=True)
    ]
    if padding == _SAME and node.op_type == "MaxPoolingWithArgmax2D" and not all(inside):
        raise build.refuse(node, "windows that reach beyond the image are not supported")
    return kernel, strides


def _numbers(node: ForeignNode, build: TfliteBuilder, count: int) -> list[int]:
    """The first integers of a structure in memory, all of them sizes or kinds."""
    data: bytes = node.attributes.get(CUSTOM, b"")
    if len(data) < 4 * count:
        raise build.refuse(node, f"its options have {len(data)} bytes, and {4 * count} are needed")
    numbers = list(struct.unpack_from(f"<{count}i", data))
    if min(numbers) < 0 or max(numbers) > 1 << 16 or 0 in numbers[1 : min(count, 5)]:
        raise build.refuse(node, f"its options {', '.join(map(str, numbers))} are not window sizes")
    return numbers


def _options(node: ForeignNode, build: TfliteBuilder) -> Mapping[str, Any]:
    """Options that name themselves (FlexBuffers)."""
    flexbuffers: Any = importlib.import_module("flatbuffers.flexbuffers")  # few networks have them
    try:
        options = flexbuffers.GetRoot(node.attributes.get(CUSTOM, b"")).AsMap
        found: dict[str, Any] = {}
        for word in _WORDS:
            with contextlib.suppress(KeyError):
                found[word] = _stated(options[word])
    except (ValueError, IndexError, struct.error, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise build.refuse(node, "its options cannot be read") from error
    return found


def _stated(option: Any) -> Any:
    """A number, or a list of numbers. Only these are read: vectors in vectors can unfold without end."""
    if option.IsNumeric:
        return option.Value
    if not option.IsTypedVector and not option.IsVector:
        raise TypeError("neither a number nor a list")
    numbers: Any = option.AsTypedVector if option.IsTypedVector else option.AsVector
    if len(numbers) > _MOST_LANDMARKS:
        raise ValueError("too long a list")
    return [_stated_number(numbers[place]) for place in range(len(numbers))]


def _stated_number(option: Any) -> Any:
    if not option.IsNumeric:
        raise TypeError("not a number")
    return option.Value


def _number(node: ForeignNode, build: TfliteBuilder, options: Mapping[str, Any], name: str, least: int = 1) -> int:
    value = options.get(name)
    if not isinstance(value, int) or not least <= value <= 1 << 16:
        raise build.refuse(node, f"its option {name} is missing or no whole number from {least} to {1 << 16}")
    return value


def _second_version(node: ForeignNode, build: TfliteBuilder) -> None:
    if node.version != 2:
        raise build.refuse(node, f"its version is {node.version}, and only version 2 is supported")
