"""Reflect and edge padding, and slices with negative steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_ops import top, tpu
from tpuc_ops.shapes import slice_ranges

from tpuc_bm1684x.kernels.borders import MOST_MIRRORED
from tpuc_bm1684x.lowerings.places import finished, reshaped
from tpuc_bm1684x.lowerings.repetition import joined, part, taken, tiled
from tpuc_bm1684x.operands import MAX_EXTENT

_MOST_COPIES = 256
"""Maximum number of single-element copies of a reversed part; above it, a row gather is used."""


def bordered(node: LoweringNode[top.Pad], build: LoweringBuilder) -> Value:
    """Pad in mode reflect or edge, one dimension at a time."""
    value, rank = node.operands[0], len(node.result_type.dims)
    sides = image_sides(node.op.paddings, node.operand_types[0].dims)
    if sides is not None and (node.op.mode == "edge" or max(sides) <= MOST_MIRRORED):
        return _image(node, build, sides)
    for axis in range(rank):
        before, after = node.op.paddings[axis], node.op.paddings[rank + axis]
        name = f"{node.name}_axis{axis}"
        if min(before, after) < 0:
            extent = value.tensor.dims[axis]
            value = part(build, value, axis, max(-before, 0), extent + min(after, 0), f"{name}_cut")
        before, after = max(before, 0), max(after, 0)
        if before or after:
            value = _bordered(build, value, axis, (before, after), node.op.mode, name)
    return build(tpu.Reshape(shape=node.result_type.dims), [value], value.tensor.at(None))


def image_sides(paddings: Sequence[int], dims: Sequence[int]) -> Sequence[int] | None:
    """Paddings above, to the left, below and to the right of images or of rows of three dimensions; None of others."""
    rank = len(dims)
    if rank not in (3, 4) or min(paddings) < 0 or max(dims[1:]) + max(paddings) > MAX_EXTENT:
        return None
    above, left, below, right = (0, paddings[2], 0, paddings[5]) if rank == 3 else (*paddings[2:4], *paddings[6:])
    return (above, left, below, right) if above + left + below + right == sum(paddings) else None


def _image(node: LoweringNode[top.Pad], build: LoweringBuilder, sides: Sequence[int]) -> Value:
    """Pad an image by one op in local memory."""
    above, left, below, right = sides
    *outer, width = node.operand_types[0].dims
    n, c, h = outer if len(outer) == 3 else (*outer, 1)
    value = reshaped(build, node.operands[0], (n, c, h, width), f"{node.name}_image")
    dims = (n, c, h + above + below, width + left + right)
    name = node.name if dims == node.result_type.dims else f"{node.name}_padded"
    paddings = (0, 0, above, left, 0, 0, below, right)
    op = tpu.Pad(paddings=paddings, mode=node.op.mode)
    value = build(op, [value], value.tensor.with_shape(dims).at(None), name)
    return value if dims == node.result_type.dims else finished(build, value, node.result_type)


def _bordered(build: LoweringBuilder, value: Value, axis: int, counts: tuple[int, int], mode: str, name: str) -> Value:
    extent, (before, after) = value.tensor.dims[axis], counts
    if mode == "reflect" and (max(counts) > _MOST_COPIES or max(counts) >= extent):
        indices = np.pad(np.arange(extent), counts, mode="reflect")
        return taken(build, value, axis, indices, name)
    parts = [value]
    if mode == "edge":
        if before:
            first = part(build, value, axis, 0, 1, f"{name}_first")
            parts.insert(0, tiled(build, first, axis, before, f"{name}_before"))
        if after:
            last = part(build, value, axis, extent - 1, extent, f"{name}_last")
            parts.append(tiled(build, last, axis, after, f"{name}_after"))
    else:
        if before:
            parts.insert(0, part(build, value, axis, before, 0, f"{name}_before", -1))
        if after:
            parts.append(part(build, value, axis, extent - 2, extent - 2 - after, f"{name}_after", -1))
    return joined(build, parts, axis, name)


def is_far_backwards(node: LoweringNode[top.Slice]) -> bool:
    """True when negative steps would take many copies."""
    count = 1
    for step, extent in zip(node.op.steps, node.result_type.dims, strict=True):
        count *= extent if step < 0 else 1
    return count > _MOST_COPIES


def taken_backwards(node: LoweringNode[top.Slice], build: LoweringBuilder) -> Value:
    """Slice the dimensions with positive steps, then gather each reversed dimension by index."""
    op = node.op
    value, dims = node.operands[0], node.operand_types[0].dims
    ranges = slice_ranges(dims, op.offset, op.steps, node.result_type.dims)
    lengths = node.result_type.dims
    kept = tuple(extent if step < 0 else length for extent, step, length in zip(dims, op.steps, lengths, strict=True))
    forwards = tpu.Slice(
        offset=tuple(0 if step < 0 else r.start for r, step in zip(ranges, op.steps, strict=True)),
        steps=tuple(1 if step < 0 else step for step in op.steps),
    )
    if kept != dims:
        value = build(forwards, [value], value.tensor.with_shape(kept).at(None), f"{node.name}_forwards")
    for axis, (r, length) in enumerate(zip(ranges, lengths, strict=True)):
        if op.steps[axis] < 0:
            indices = r.start + op.steps[axis] * np.arange(length)
            value = taken(build, value, axis, indices, f"{node.name}_axis{axis}")
    return build(tpu.Reshape(shape=lengths), [value], value.tensor.at(None))
