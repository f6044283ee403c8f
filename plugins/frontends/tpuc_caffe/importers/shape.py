"""Layers that only change the shape or order of elements, or give them several names."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import permute, reshape
from tpuc_ops import top
from tpuc_ops.shapes import reshaped

from tpuc_caffe.importers.common import TABLE, Shape, axis_of, only_bottom, parameters


@TABLE.imports("Split")
def split(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Return the bottom under several names."""
    return [only_bottom(node, build)] * len(node.outputs)


@TABLE.imports("Silence")
def silence(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:  # noqa: ARG001  # as every importer
    """Consume bottoms that nobody reads."""
    return []


@TABLE.imports("Flatten")
def flatten(node: ForeignNode, build: ImportBuilder) -> Value:
    """Merge the axes `axis` to `end_axis`."""
    x, stated = only_bottom(node, build), parameters(node, "flatten_param")
    start, end = axis_of(x, stated.get("axis", 1)), axis_of(x, stated.get("end_axis", -1))
    if start > end:
        raise build.refuse(node, f"axis {start} is after end_axis {end}")
    dims = x.tensor.dims
    return reshape(build, x, (*dims[:start], math.prod(dims[start : end + 1]), *dims[end + 1 :]), node.outputs[0])


@TABLE.imports("Reshape")
def reshape_(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a reshape; 0 keeps an extent, -1 takes the remainder, and axes outside the range stay."""
    x, stated = only_bottom(node, build), parameters(node, "reshape_param")
    wanted: Shape = stated.get("shape", {}).get("dim", ())
    dims = x.tensor.dims
    axis: int = stated.get("axis", 0)
    start = axis if axis >= 0 else len(dims) + 1 + axis
    count = stated.get("num_axes", -1)
    end = len(dims) if count == -1 else start + count
    if not 0 <= start <= end <= len(dims):
        raise build.refuse(node, f"axis {axis} with num_axes {count} do not lie within {len(dims)} axes")
    kept = [dims[place] if extent == 0 and place < len(dims) else extent for place, extent in enumerate(wanted, start)]
    return reshape(build, x, reshaped(dims, (*dims[:start], *kept, *dims[end:])), node.outputs[0])


@TABLE.imports("Permute")
def permute_(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a permutation; unlisted axes follow in order."""
    x = only_bottom(node, build)
    order: Shape = parameters(node, "permute_param").get("order", ())
    order = (*order, *(axis for axis in range(x.tensor.rank) if axis not in order))
    return permute(build, x, order, node.outputs[0])


@TABLE.imports("ShuffleChannel")
def shuffle_channel(node: ForeignNode, build: ImportBuilder) -> Value:
    """Interleave the channels of all groups: first channels, then second ones, and so on."""
    x, name = only_bottom(node, build), node.outputs[0]
    group = parameters(node, "shuffle_channel_param").get("group", 1)
    n, channels, *rest = x.tensor.dims
    if group < 1 or channels % group:
        raise build.refuse(node, f"{channels} channels do not divide into {group} groups")
    grouped = reshape(build, x, (n, group, channels // group, math.prod(rest)), f"{name}_groups")
    turned = permute(build, grouped, (0, 2, 1, 3), f"{name}_turned")
    return reshape(build, turned, x.tensor.dims, name)


@TABLE.imports("Reorg")
def reorg(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import Darknet's reorg: read the elements as `c / s^2` channels of `s` times as many rows and columns, move
    blocks to channels, and read the result in the stated shape.
    """
    x, stated, name = only_bottom(node, build), parameters(node, "reorg_param"), node.outputs[0]
    stride, back = stated.get("stride", 2), stated.get("reverse", False)
    if x.tensor.rank != 4 or stride < 1:
        raise build.refuse(
            node, f"only images (n, c, h, w) can be reorganized, with a stride of at least 1, not {stride}"
        )
    n, c, h, w = x.tensor.dims
    if c % stride**2 or (not back and (h % stride or w % stride)):
        raise build.refuse(node, f"{c}x{h}x{w} is not divisible by the stride {stride}")
    op = top.Depth2Space(block_h=stride, block_w=stride, is_CRD=False, is_inversed=not back)
    if back:
        spread = build.build(op, [x], f"{name}_blocks")
        return reshape(build, spread, (n, c // stride**2, h * stride, w * stride), name)
    x = reshape(build, x, (n, c // stride**2, h * stride, w * stride), f"{name}_spread")
    blocks = build.build(op, [x], f"{name}_blocks")
    return reshape(build, blocks, (n, c * stride**2, h // stride, w // stride), name)
