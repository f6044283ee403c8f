"""Layers that move elements: slices, borders, repetition, concatenation; and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top

from tpuc_caffe.importers.common import TABLE, Shape, axis_of, check_bottoms, only_bottom, parameters
from tpuc_caffe.weights import Blob, fill

MOST_DUMMY_NUMBERS = 1 << 24
"""Maximum number of elements in a constant: more would fill the memory, and no network states them."""


@TABLE.imports("Concat")
def concat(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a concatenation; a single bottom is passed on."""
    stated = parameters(node, "concat_param")
    values = [build.value(name) for name in node.inputs]
    if len(values) == 1:
        return values[0]
    if not values:
        raise build.refuse(node, "it has no bottoms")
    axis = axis_of(values[0], stated.get("axis", stated.get("concat_dim", 1)))
    return build.build(top.Concat(axis=axis), values, node.outputs[0])


@TABLE.imports("Slice")
def slice_(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Import one slice per top, so that each is made only where it is needed."""
    x, stated = only_bottom(node, build), parameters(node, "slice_param")
    axis = axis_of(x, stated.get("axis", stated.get("slice_dim", 1)))
    extent, count = x.tensor.dims[axis], len(node.outputs)
    points: Shape = stated.get("slice_point", ())
    if not points:
        if extent % count:
            raise build.refuse(node, f"{extent} elements do not divide into {count} equal parts; state slice_point")
        points = tuple(range(extent // count, extent, extent // count))
    bounds = [0, *points, extent]
    if len(bounds) != count + 1 or any(start >= stop for start, stop in pairwise(bounds)):
        raise build.refuse(node, f"slice_point {list(points)} does not divide {extent} elements into {count} parts")
    return [
        _part(build, x, axis, range(start, stop), name)
        for name, (start, stop) in zip(node.outputs, pairwise(bounds), strict=True)
    ]


@TABLE.imports("Crop")
def crop(node: ForeignNode, build: ImportBuilder) -> Value:
    """Crop to the size of the second bottom, from `axis` on."""
    check_bottoms(node, build, 2)
    stated = parameters(node, "crop_param")
    x, reference = build.value(node.inputs[0]), build.shape(node.inputs[1])
    axis = axis_of(x, stated.get("axis", 2))
    offsets: Shape = stated.get("offset", (0,))
    count = x.tensor.rank - axis
    if len(reference) != x.tensor.rank or len(offsets) not in (1, count):
        raise build.refuse(
            node, f"{len(offsets)} offsets and a reference of {len(reference)} axes do not fit its operand"
        )
    starts = (0,) * axis + tuple(offsets) * (count if len(offsets) == 1 else 1)
    dims = (*x.tensor.dims[:axis], *reference[axis:])
    if any(not 0 <= start <= extent - size for start, size, extent in zip(starts, dims, x.tensor.dims, strict=True)):
        raise build.refuse(node, f"a part of {list(dims)} at {list(starts)} does not lie within {list(x.tensor.dims)}")
    return _box(build, x, starts, dims, node.outputs[0])


@TABLE.imports("Reverse")
def reverse(node: ForeignNode, build: ImportBuilder) -> Value:
    """Reverse the elements along an axis."""
    x = only_bottom(node, build)
    axis = axis_of(x, parameters(node, "reverse_param").get("axis", 0))
    return _part(build, x, axis, range(x.tensor.dims[axis] - 1, -1, -1), node.outputs[0])


@TABLE.imports("Tile")
def tile(node: ForeignNode, build: ImportBuilder) -> Value:
    """Repeat along one axis."""
    x, stated = only_bottom(node, build), parameters(node, "tile_param")
    axis, count = axis_of(x, stated.get("axis", 1)), stated.get("tiles", 1)
    if count < 1:
        raise build.refuse(node, f"it states {count} tiles")
    counts = tuple(count if index == axis else 1 for index in range(x.tensor.rank))
    return x if count == 1 else build.build(top.Tile(tile=counts), [x], node.outputs[0])


@TABLE.imports("Padding")
def padding(node: ForeignNode, build: ImportBuilder) -> Value:
    """Pad rows and columns."""
    x, stated = only_bottom(node, build), parameters(node, "padding_param")
    if x.tensor.rank != 4:
        raise build.refuse(node, "only images (n, c, h, w) can be padded")
    upper, bottom, left, right = (stated.get(f"pad_{side}", 0) for side in "tblr")
    op = top.Pad(paddings=(0, 0, upper, left, 0, 0, bottom, right), mode="constant", val=stated.get("pad_value", 0.0))
    return build.build(op, [x], node.outputs[0])


@TABLE.imports("Reduction")
def reduction(node: ForeignNode, build: ImportBuilder) -> Value:
    """Reduce everything from `axis` on."""
    x, stated, name = only_bottom(node, build), parameters(node, "reduction_param"), node.outputs[0]
    axis, factor = axis_of(x, stated.get("axis", 0)), stated.get("coeff", 1.0)
    operation = stated.get("operation", "SUM")
    modes = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSum", "MEAN": "ReduceMean"}
    if operation == "SUMSQ":
        x = build.build(top.Mul(), [x, x], f"{name}_squares")
    op = top.Reduce(axes=tuple(range(axis, x.tensor.rank)), mode=modes[operation], keepdims=axis == 0)
    inner = name if factor == 1.0 and axis else f"{name}_reduced"
    value = build.build(op, [x], inner)
    value = reshape(build, value, (1,), name if factor == 1.0 else f"{name}_number") if axis == 0 else value
    return value if factor == 1.0 else build.build(top.MulConst(const_val=factor), [value], name)


@TABLE.imports("ArgMax")
def arg_max(node: ForeignNode, build: ImportBuilder) -> Value:
    """Return indices along an axis, or their values; without an axis, those of a whole sample, and both if stated."""
    x, stated, name = only_bottom(node, build), parameters(node, "argmax_param"), node.outputs[0]
    if stated.get("top_k", 1) != 1:
        raise build.refuse(node, f"top_k {stated['top_k']} is not supported, only 1")
    with_values = stated.get("out_max_val", False)
    if "axis" in stated:
        axis = axis_of(x, stated["axis"])
        types = [x.tensor.with_shape((*x.tensor.dims[:axis], 1, *x.tensor.dims[axis + 1 :]))] * 2
        places = build.build(top.Arg(axis=axis), [x], f"{name}_places" if with_values else name, types)
        return _second(places) if with_values else places
    count = x.tensor.dims[0]
    flat = reshape(build, x, (count, 1, math.prod(x.tensor.dims[1:])), f"{name}_flat")
    types = [x.tensor.with_shape((count, 1, 1))] * 2
    places = build.build(top.Arg(axis=2), [flat], f"{name}_places" if with_values else name, types)
    if not with_values:
        return places
    return build.build(top.Concat(axis=1), [places, _second(places)], name)


@TABLE.imports("DummyData")
def dummy_data(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Import constants. Random data are refused, as they would differ in every run."""
    stated, count = parameters(node, "dummy_data_param"), len(node.outputs)
    shapes: list[Shape] = [tuple(shape.get("dim", ())) for shape in stated.get("shape", ())]
    if not shapes:
        extents = [stated.get(name, ()) for name in ("num", "channels", "height", "width")]
        shapes = [tuple(shape) for shape in zip(*extents, strict=True)]
    fillers = stated.get("data_filler", ({},))
    values: list[Value] = []
    for index, name in enumerate(node.outputs):
        shape = shapes[index if len(shapes) == count else 0]
        filler = fillers[index if len(fillers) == count else 0]
        if filler.get("type", "constant") != "constant":
            raise build.refuse(node, "random data are not supported; replace the layer by an Input layer")
        if not 0 < math.prod(shape) <= MOST_DUMMY_NUMBERS:
            raise build.refuse(node, f"its data would have {math.prod(shape)} numbers")
        values.append(build.weight(name, fill(np.random.default_rng(0), Blob("data", shape, filler))))
    return values


def _second(value: Value) -> Value:
    """Return the second result of the op that defines a value."""
    assert value.defining is not None
    return value.defining.results[1]


def _part(build: ImportBuilder, x: Value, axis: int, places: range, name: str) -> Value:
    """Return a range of positions along one axis."""
    dims = tuple(len(places) if index == axis else extent for index, extent in enumerate(x.tensor.dims))
    starts = tuple(places.start if index == axis else 0 for index in range(x.tensor.rank))
    return _box(build, x, starts, dims, name, {axis: places.step})


def _box(
    build: ImportBuilder, x: Value, starts: Shape, dims: Shape, name: str, steps: dict[int, int] | None = None
) -> Value:
    """Return `dims` elements from `starts` on; the value itself if that is all of it."""
    step = tuple((steps or {}).get(index, 1) for index in range(len(dims)))
    if dims == x.tensor.dims and min(step) > 0:
        return x
    ends = None
    if min(step) > 0:
        ends = tuple(start + size * stride for start, size, stride in zip(starts, dims, step, strict=True))
    op = top.Slice(offset=starts, steps=step, ends=ends)
    return build.build(op, [x], name, [TensorType(dims, x.tensor.element)])
