"""Operators that move elements: slices, borders, repetition, concatenation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_importing.operands import check_places, constant_input, integers, reshape
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_onnx.importers.common import TABLE, Shape, axes_of


@TABLE.imports("Concat")
def concat(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a concatenation; a single operand is passed on, and empty operands are skipped."""
    values = [build.value(name) for name in node.inputs if 0 not in build.shape(name)]
    if len(values) == 1:
        return values[0]
    axis = node.attributes["axis"] % values[0].tensor.rank
    return build.build(top.Concat(axis=axis), values, node.outputs[0])


@TABLE.imports("Slice")
def slice_(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a slice; starts and ends are attributes up to opset 9, constant operands later."""
    x = build.value(node.inputs[0])
    starts, ends = (_numbers(node, build, index, name) for index, name in ((1, "starts"), (2, "ends")))
    axes = axes_of(node, build, 3)
    steps = constant_input(node, build, 4, "the list of steps")
    parts = [slice(None)] * x.tensor.rank
    for index, axis in enumerate(axes if axes is not None else range(len(starts))):
        parts[axis] = slice(starts[index], ends[index], 1 if steps is None else integers(steps)[index])
    return _part(node, build, x, parts, node.outputs[0])


@TABLE.imports("Split")
def split(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Import one slice per result, so that each is made only where it is needed."""
    x = build.value(node.inputs[0])
    axis: int = node.attributes.get("axis", 0) % x.tensor.rank
    extent, count = x.tensor.dims[axis], len(node.outputs)
    given = node.attributes.get("split") or constant_input(node, build, 1, "the list of sizes")
    sizes = integers(given) if given is not None else (-(-extent // count),) * count
    stops = np.minimum(np.cumsum(sizes), extent).tolist()
    values: list[Value] = []
    for name, start, stop in zip(node.outputs, [0, *stops], stops, strict=False):
        parts = [slice(start, stop) if index == axis else slice(None) for index in range(x.tensor.rank)]
        values.append(_part(node, build, x, parts, name) if name and stop > start else build.none())
    return values


@TABLE.imports("Gather")
def gather(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a Gather; constant equidistant indices become a slice."""
    name, x = node.outputs[0], build.value(node.inputs[0])
    axis: int = node.attributes.get("axis", 0) % x.tensor.rank
    check_places(node, build, 1, x.tensor.dims[axis])
    indices = build.constant(node.inputs[1])
    if indices is None:
        return build.build(top.Gather(axis=axis), [x, build.value(node.inputs[1])], name)
    indices = np.where(indices < 0, indices + x.tensor.dims[axis], indices)
    step = _distance(indices)
    if step is None:
        return build.build(top.Gather(axis=axis), [x, build.weight(f"{node.inputs[1]}_indices", indices)], name)
    first, last = int(indices.reshape(-1)[0]), int(indices.reshape(-1)[-1])
    parts = [slice(first, last + 1, step) if index == axis else slice(None) for index in range(x.tensor.rank)]
    shape = build.shape(name)
    inner = name if len(shape) == x.tensor.rank else f"{name}_part"
    return reshape(build, _part(node, build, x, parts, inner), shape, name)


@TABLE.imports("Pad")
def pad(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a Pad; pads are attributes up to opset 10, constant operands later, and for some axes only since 18."""
    x, mode = build.value(node.inputs[0]), node.attributes.get("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise build.refuse(node, f"mode '{mode}' is not supported; use constant, reflect, edge or wrap")
    pads, rank = _numbers(node, build, 1, "pads"), x.tensor.rank
    axes = axes_of(node, build, 3)
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(chosen):
        before[axis], after[axis] = pads[index], pads[index + len(chosen)]
    if not any(before + after):
        return x
    if mode == "wrap":
        return _wrapped(node, build, x, before, after)
    value = constant_input(node, build, 2, "the padding value")
    number = float(node.attributes.get("value", 0.0)) if value is None else float(value.reshape(()))
    return build.build(top.Pad(paddings=(*before, *after), mode=mode, val=number), [x], node.outputs[0])


def _wrapped(node: ForeignNode, build: ImportBuilder, x: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """Pad with wrap-around along every axis."""
    name, rank = node.outputs[0], x.tensor.rank
    for axis, (front, back) in enumerate(zip(before, after, strict=True)):
        extent = x.tensor.dims[axis]
        if min(front, back) < 0 or max(front, back) > extent:
            raise build.refuse(node, f"pads {front} and {back} do not wrap around an axis of extent {extent}")
        whole, axis_name = [slice(None)] * rank, f"{name}_axis{axis}"
        pieces = [x]
        if front:
            part = [*whole[:axis], slice(extent - front, extent), *whole[axis + 1 :]]
            pieces.insert(0, _part(node, build, x, part, f"{axis_name}_front"))
        if back:
            part = [*whole[:axis], slice(0, back), *whole[axis + 1 :]]
            pieces.append(_part(node, build, x, part, f"{axis_name}_back"))
        last = not any((*before[axis + 1 :], *after[axis + 1 :]))
        if len(pieces) > 1:
            x = build.build(top.Concat(axis=axis), pieces, name if last else axis_name)
    return x


@TABLE.imports("Tile", "Expand")
def tile(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a repetition; dimensions of extent 1 are broadcast."""
    name, x = node.outputs[0], build.value(node.inputs[0])
    shape = build.shape(name)
    x = reshape(build, x, (1,) * (len(shape) - x.tensor.rank) + x.tensor.dims, f"{name}_ranked")
    counts = tuple(wanted // extent for wanted, extent in zip(shape, x.tensor.dims, strict=True))
    return x if max(counts, default=1) == 1 else build.build(top.Tile(tile=counts), [x], name)


@TABLE.imports("DepthToSpace", "SpaceToDepth")
def depth_to_space(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import DepthToSpace or SpaceToDepth; ONNX's inverse has only the order DCR."""
    size = node.attributes["blocksize"]
    op = top.Depth2Space(
        block_h=size,
        block_w=size,
        is_CRD=node.attributes.get("mode", "DCR") == "CRD",
        is_inversed=node.op_type == "SpaceToDepth",
    )
    return build.build(op, [build.value(node.inputs[0])], node.outputs[0])


def _numbers(node: ForeignNode, build: ImportBuilder, index: int, name: str) -> Shape:
    """Return a list from an attribute or a constant operand."""
    if name in node.attributes:
        return integers(node.attributes[name])
    array = constant_input(node, build, index, f"the list of {name}")
    if array is None:
        raise build.refuse(node, f"the list of {name} is missing")
    return integers(array)


def _part(node: ForeignNode, build: ImportBuilder, x: Value, parts: Sequence[slice], name: str) -> Value:
    """Return `x[parts]`; the value itself if that is all of it."""
    ranges = [range(*part.indices(extent)) for part, extent in zip(parts, x.tensor.dims, strict=True)]
    dims = tuple(map(len, ranges))
    if 0 in dims:
        raise build.refuse(node, f"the part {parts} of '{node.inputs[0]}' is empty")
    steps = tuple(places.step for places in ranges)
    if dims == x.tensor.dims and min(steps, default=1) > 0:
        return x
    # An end before the first element cannot be written: backwards, the result type says how many.
    ends = tuple(places.stop for places in ranges) if min(steps) > 0 else None
    op = top.Slice(offset=tuple(places.start for places in ranges), steps=steps, ends=ends)
    return build.build(op, [x], name, [TensorType(dims, x.tensor.element)])


def _distance(indices: Array) -> int | None:
    """Return the common positive step of one-dimensional indices, if there is one."""
    flat = indices.reshape(-1)
    if flat.size == 1:
        return 1
    steps = np.unique(np.diff(flat))
    return int(steps[0]) if indices.ndim == 1 and steps.size == 1 and steps[0] > 0 else None
