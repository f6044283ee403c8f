"""Compute convolutions over volumes as convolutions of images: depth slices become channels."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import F32
from tpuc_ops import top

from tpuc_lang.graph import LangError, Quantization, Tensor, constant, make_one

if TYPE_CHECKING:
    from tpuc_lang.filters import Filter


def conv_volumes(
    form: Filter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    name: str | None,
    dtype: str,
    meaning: Quantization | None,
) -> Tensor:
    """Convolve `x: [n, c, d, h, w]` with `weight: [oc, c / group, kd, kh, kw]`.

    Each depth slice of the result is computed from an image whose channels are those of x times the filter's depth.
    """
    where, strides, holes, pads = form.where, form.strides, form.holes, form.pads
    if pads[0] or pads[3]:
        x = make_one(where, top.Pad(paddings=(0, 0, pads[0], 0, 0, 0, 0, pads[3], 0, 0)), [x])
    outputs, inputs, deep, *kernel = weight.shape
    count, channels, extent, *size = x.shape
    depth = (extent - holes[0] * (deep - 1) - 1) // strides[0] + 1
    if depth < 1:
        raise LangError(
            f"{where}: kernel {deep} covers {holes[0] * (deep - 1) + 1} slices, but there are only {extent}."
        )
    taps = [_slices(where, x, tap * holes[0], strides[0], depth) for tap in range(deep)]
    parts = [make_one(where, top.Reshape(shape=(count, channels, 1, depth, *size)), [tap]) for tap in taps]
    stacked = parts[0] if deep == 1 else make_one(where, top.Concat(axis=2), parts)
    moved = make_one(where, top.Permute(order=(0, 3, 1, 2, 4, 5)), [stacked])
    images = make_one(where, top.Reshape(shape=(count * depth, channels * deep, *size)), [moved])
    op = top.Conv(
        kernel_shape=tuple(kernel),
        strides=strides[1:],
        pads=(*pads[1:3], *pads[4:]),
        group=form.group,
        dilations=holes[1:],
    )
    result = make_one(where, op, [images, _flat(where, weight, (outputs, inputs * deep, *kernel)), bias])
    volumes = make_one(where, top.Reshape(shape=(count, depth, *result.shape[1:])), [result])
    order = top.Permute(order=(0, 2, 1, 3, 4))
    return make_one(where, order, [volumes], name, dtype=dtype, quantization=meaning)


def transposed_volumes(
    form: Filter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    name: str | None,
    dtype: str,
    meaning: Quantization | None,
) -> Tensor:
    """Transposed convolution of `x: [n, c, d, h, w]` with `weight: [oc / group, c, kd, kh, kw]`.

    It is computed as a convolution of x with zeros inserted between its elements.
    """
    where, group, pads = form.where, form.group, form.pads
    if weight.data is None or not weight.is_const:
        raise LangError(f"{where}: the weight must be constant; give tensor '{weight.name}' data.")
    for axis, stride in zip((2, 3, 4), form.strides, strict=True):
        x = _spread(where, x, axis, stride)
    outputs, channels, *kernel = weight.shape
    groups = weight.data.reshape(outputs, group, channels // group, *kernel).swapaxes(0, 1)
    turned = constant(groups.reshape(-1, channels // group, *kernel)[:, :, ::-1, ::-1, ::-1])
    around = [hole * (taps - 1) for hole, taps in zip(form.holes, kernel, strict=True)]
    more = form.output_padding or (0, 0, 0)
    before = [one - cut for one, cut in zip(around, pads[:3], strict=True)]
    after = [one - cut + end for one, cut, end in zip(around, pads[3:], more, strict=True)]
    if min(*before, *after) < 0:  # the convolution cannot cut, so this goes first
        cut = [min(one, 0) for one in (*before, *after)]
        x = make_one(where, top.Pad(paddings=(0, 0, *cut[:3], 0, 0, *cut[3:])), [x])
    rest = tuple(max(one, 0) for one in (*before, *after))
    plain = dataclasses.replace(form, strides=(1, 1, 1), pads=rest, output_padding=None, transposed=False)
    return conv_volumes(plain, x, turned, bias, name, dtype, meaning)


def _slices(where: str, x: Tensor, first: int, step: int, count: int) -> Tensor:
    """Return `count` depth slices, `step` apart."""
    op = top.Slice(
        offset=(0, 0, first, 0, 0),
        steps=(1, 1, step, 1, 1),
        ends=(*x.shape[:2], first + (count - 1) * step + 1, *x.shape[3:]),
    )
    return make_one(where, op, [x, None, None, None])


def _flat(where: str, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the filter for images."""
    if weight.is_const and weight.data is not None and weight.element == F32:
        return constant(np.reshape(weight.data, shape))
    return make_one(where, top.Reshape(shape=shape), [weight])


def _spread(where: str, x: Tensor, axis: int, stride: int) -> Tensor:
    """Insert zeros between the elements along an axis."""
    if stride == 1:
        return x
    before, extent, after = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    single = make_one(where, top.Reshape(shape=(before, extent, 1, after)), [x])
    padded = make_one(where, top.Pad(paddings=(0, 0, 0, 0, 0, 0, stride - 1, 0)), [single])
    joined = make_one(where, top.Reshape(shape=(before, extent * stride, after)), [padded])
    size = (extent - 1) * stride + 1
    op = top.Slice(offset=(0, 0, 0), steps=(1, 1, 1), ends=(before, size, after))
    sliced = make_one(where, op, [joined, None, None, None])
    return make_one(where, top.Reshape(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :])), [sliced])
