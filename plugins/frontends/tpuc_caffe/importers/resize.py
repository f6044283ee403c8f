"""Resizing of images."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_ops import top

from tpuc_caffe.importers.common import TABLE, Parameters, only_bottom, parameters


@TABLE.imports("Upsample")
def upsample(node: ForeignNode, build: ImportBuilder) -> Value:
    """Repeat every element as a block; forks call its size scale or stride."""
    x, stated = only_bottom(node, build), parameters(node, "upsample_param")
    scale = stated.get("scale", 1)
    scale = stated.get("stride", scale) if scale == 1 else scale
    scale_h = stated.get("scale_h", stated.get("stride_h", scale))
    scale_w = stated.get("scale_w", stated.get("stride_w", scale))
    if x.tensor.rank != 4 or min(scale_h, scale_w) < 1:
        raise build.refuse(node, f"only images (n, c, h, w) can be enlarged, and by integer factors, not {scale}")
    if stated.get("upsample_h", 0) or stated.get("upsample_w", 0):
        raise build.refuse(node, "upsample_h and upsample_w are not supported; state a scale")
    if stated.get("pad_out_h", False) or stated.get("pad_out_w", False):
        raise build.refuse(node, "pad_out_h and pad_out_w are not supported: they crop a row or column")
    if scale_h == scale_w == 1:
        return x
    return build.build(top.Upsample(scale_h=scale_h, scale_w=scale_w), [x], node.outputs[0])


@TABLE.imports("Interp")
def interp(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import bilinear interpolation with aligned corners."""
    x, stated, name = only_bottom(node, build), parameters(node, "interp_param"), node.outputs[0]
    if x.tensor.rank != 4:
        raise build.refuse(node, "only images (n, c, h, w) can be resized")
    begin, end = stated.get("pad_beg", 0), stated.get("pad_end", 0)
    n, c, *size = x.tensor.dims
    size = [extent + begin + end for extent in size]
    if begin > 0 or end > 0 or min(size) < 1:
        raise build.refuse(node, f"pad_beg {begin} and pad_end {end} must leave something of the operand")
    if begin or end:
        op = top.Slice(offset=(0, 0, -begin, -begin), steps=(1,) * 4, ends=(n, c, size[0] - begin, size[1] - begin))
        x = build.build(op, [x], f"{name}_part", [TensorType((n, c, *size), x.tensor.element)])
    rows, columns = (_extent(node, build, stated, axis, extent) for axis, extent in enumerate(size))
    if (rows, columns) == tuple(size):
        return x
    op = top.Interp(mode="linear", coord_mode="align_corners")
    return build.build(op, [x], name, [TensorType((n, c, rows, columns), x.tensor.element)])


def _extent(node: ForeignNode, build: ImportBuilder, stated: Parameters, axis: int, extent: int) -> int:
    """Return the stated extent, or the one after shrinking and zooming."""
    fixed = stated.get(("height", "width")[axis], 0)
    shrink, zoom = stated.get("shrink_factor", 1), stated.get("zoom_factor", 1)
    if shrink < 1 or zoom < 1 or fixed < 0:
        raise build.refuse(node, f"shrink_factor {shrink}, zoom_factor {zoom} or its size is not positive")
    if fixed:
        return fixed
    extent = (extent - 1) // shrink + 1
    return extent + (extent - 1) * (zoom - 1)
