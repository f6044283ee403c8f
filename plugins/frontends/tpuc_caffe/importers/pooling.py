"""Pooling. Caffe rounds the number of windows up."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops import top

from tpuc_caffe.importers.common import TABLE, Parameters, Shape, only_bottom, pair, parameters


@TABLE.imports("Pooling")
def pooling(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import pooling. Averages divide by the part of the window within the padding; the overhang from rounding up does
    not count.
    """
    x, stated, name = only_bottom(node, build), parameters(node, "pooling_param"), node.outputs[0]
    if x.tensor.rank != 4:
        raise build.refuse(node, "only images (n, c, h, w) can be pooled")
    method = stated.get("pool", "MAX")
    if method == "STOCHASTIC":
        raise build.refuse(node, "stochastic pooling draws random numbers; use MAX or AVE")
    if len(node.outputs) > 1:
        raise build.refuse(
            node, "the positions of the maxima, its second top, are not supported: upsample without them"
        )
    size: Shape = x.tensor.dims[2:]
    if stated.get("global_pooling", False):
        op = top.MaxPool(kernel_shape=size) if method == "MAX" else top.AvgPool(kernel_shape=size)
        return build.build(op, [x], name)
    kernel = pair(stated, "kernel_size", "kernel_h", "kernel_w", 0)
    strides = pair(stated, "stride", "stride_h", "stride_w", 1)
    pad = pair(stated, "pad", "pad_h", "pad_w", 0)
    if min(kernel) < 1 or min(strides) < 1 or min(pad) < 0:
        raise build.refuse(
            node, f"a kernel of {list(kernel)}, stride {list(strides)} and pad {list(pad)} do not form a window"
        )
    ends = _ends(node, build, stated, size, kernel, strides, pad)
    rounded_up = ends != pad
    if method == "MAX":
        return build.build(top.MaxPool(kernel_shape=kernel, strides=strides, pads=(*pad, *ends)), [x], name)
    counts = any(pad)
    op = top.AvgPool(
        kernel_shape=kernel,
        strides=strides,
        pads=(*pad, *(pad if counts else ends)),
        count_include_pad=counts,
        ceil_mode=True if counts and rounded_up else None,
    )
    return build.build(op, [x], name)


def _ends(
    node: ForeignNode,
    build: ImportBuilder,
    stated: Parameters,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pad: Sequence[int],
) -> Shape:
    """Return the padding at bottom and right with which the windows end exactly, at least the stated padding."""
    up = stated.get("round_mode", "CEIL") == "CEIL" and stated.get("ceil_mode", True)
    ends: list[int] = []
    for extent, taps, stride, before in zip(size, kernel, strides, pad, strict=True):
        room = extent + 2 * before - taps
        if room < 0 or before >= taps:
            raise build.refuse(node, f"its window of {taps} does not fit {extent} elements with {before} around them")
        count = (-(-room // stride) if up else room // stride) + 1
        if before and (count - 1) * stride >= extent + before:
            count -= 1  # the last window would lie in the padding altogether
        if (count - 1) * stride >= extent + before:
            raise build.refuse(node, f"with a stride of {stride} its last window lies outside of {extent} elements")
        ends.append(max((count - 1) * stride + taps - extent - before, before))
    return tuple(ends)
