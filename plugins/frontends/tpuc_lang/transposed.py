"""Transposed convolutions over volumes, as convolutions of volumes with zeros between their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc_ops import top

from tpuc_lang.graph import LangError, Tensor, constant, make_one


def transposed_volumes(
    where: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    strides: Sequence[int],
    holes: Sequence[int],
    pads: Sequence[int],
    extra: Sequence[int] | None,
    group: int,
    name: str | None,
) -> Tensor:
    """Every element of `x: [n, c, d, h, w]` adds its multiple of `weight: [oc / group, c, kd, kh, kw]`."""
    if weight.data is None or not weight.is_const:
        raise LangError(f"{where}: the weight must be constant; give tensor '{weight.name}' data.")
    for axis, stride in zip((2, 3, 4), strides, strict=True):
        x = _spread(where, x, axis, stride)
    outputs, channels, *kernel = weight.shape
    groups = weight.data.reshape(outputs, group, channels // group, *kernel).swapaxes(0, 1)
    turned = groups.reshape(-1, channels // group, *kernel)[:, :, ::-1, ::-1, ::-1]
    around = [hole * (taps - 1) for hole, taps in zip(holes, kernel, strict=True)]
    more = (0, 0, 0) if extra is None else extra
    before = [one - cut for one, cut in zip(around, pads[:3], strict=True)]
    after = [one - cut + end for one, cut, end in zip(around, pads[3:], more, strict=True)]
    if any(one < 0 for one in (*before, *after)):  # the convolution cannot cut, so this goes first
        cut = [min(one, 0) for one in (*before, *after)]
        x = make_one(where, top.Pad(paddings=(0, 0, *cut[:3], 0, 0, *cut[3:])), [x])
    op = top.Conv(
        kernel_shape=tuple(kernel),
        strides=(1, 1, 1),
        pads=tuple(max(one, 0) for one in (*before, *after)),
        group=group,
        dilations=tuple(holes),
    )
    return make_one(where, op, [x, constant(np.ascontiguousarray(turned)), bias], name)


def _spread(where: str, x: Tensor, axis: int, stride: int) -> Tensor:
    """With zeros between the elements of an axis."""
    if stride == 1:
        return x
    before, extent, after = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    single = make_one(where, top.Reshape(shape=(before, extent, 1, after)), [x])
    padded = make_one(where, top.Pad(paddings=(0, 0, 0, 0, 0, 0, stride - 1, 0)), [single])
    joined = make_one(where, top.Reshape(shape=(before, extent * stride, after)), [padded])
    size = (extent - 1) * stride + 1
    op = top.Slice(offset=(0, 0, 0), steps=(1, 1, 1), ends=(before, size, after))
    sliced = make_one(where, op, [joined, None, None, None])
    return make_one(where, top.Reshape(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :])), [sliced])
