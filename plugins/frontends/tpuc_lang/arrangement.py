"""Other shapes, orders and places of elements, which keep their type and meaning; and conversions of types."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import Op
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis, reshaped

from tpuc_lang.graph import (
    FLOATS,
    LangError,
    Quantisation,
    Tensor,
    floats_only,
    make_one,
    once,
    same_meaning,
)


def reshape(tensor_i: Tensor, new_shape: Sequence[int], out_name: str | None = None) -> Tensor:
    """0 keeps an extent, one -1 takes what remains."""
    shape = once("reshape", lambda: reshaped(tensor_i.shape, tuple(new_shape)))
    return _keeping("reshape", top.Reshape(shape=shape), tensor_i, out_name)


def permute(tensor_i: Tensor, order: Sequence[int], out_name: str | None = None) -> Tensor:
    """Dimension `i` of the result is dimension `order[i]`."""
    return _keeping("permute", top.Permute(order=tuple(order)), tensor_i, out_name)


def squeeze(tensor_i: Tensor, axes: Sequence[int] = (), out_name: str | None = None) -> Tensor:
    """Without these dimensions, which must have extent 1."""
    return _keeping("squeeze", top.Squeeze(axes=tuple(axes)), tensor_i, out_name)


def unsqueeze(tensor_i: Tensor, axes: Sequence[int], out_name: str | None = None) -> Tensor:
    """With dimensions of extent 1 at these places."""
    return _keeping("unsqueeze", top.Unsqueeze(axes=tuple(axes)), tensor_i, out_name)


def concat(tensors: Sequence[Tensor], axis: int = 0, out_name: str | None = None) -> Tensor:
    """Behind each other; integers must mean the same."""
    where = "concat"
    if not tensors:
        raise LangError(f"{where}: there are no tensors; give some.")
    meaning = same_meaning(where, tensors)
    place = once(where, lambda: positive_axis(axis, len(tensors[0].shape)))
    return make_one(where, top.Concat(axis=place), tensors, out_name, dtype=tensors[0].dtype, quantisation=meaning)


def slice(  # noqa: A001  # the interface's name
    tensor_i: Tensor,
    offset: Sequence[int],
    size: Sequence[int],
    steps: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """`size` elements of every dimension, `steps` apart, from `offset` on."""
    where, rank = "slice", len(tensor_i.shape)
    strides = (1,) * rank if steps is None else tuple(steps)
    if not len(offset) == len(size) == len(strides) == rank or min(size) < 1:
        raise LangError(f"{where}: offset, size and steps need {rank} numbers each, and sizes are at least 1.")
    for start, count, step, extent in zip(offset, size, strides, tensor_i.shape, strict=True):
        first = start + extent if start < 0 else start
        if step == 0 or not (0 <= first < extent and 0 <= first + (count - 1) * step < extent):
            raise LangError(
                f"{where}: {count} elements from {start} on, {step} apart, do not lie within {extent}; choose fewer."
            )
    op = top.Slice(offset=tuple(offset), steps=strides)
    meaning = tensor_i.quantisation
    return make_one(
        where, op, [tensor_i, None, None, None], out_name, dtype=tensor_i.dtype, quantisation=meaning, shapes=[size]
    )


def split(
    tensor_i: Tensor,
    axis: int = 0,
    num: int = 1,
    size: Sequence[int] | None = None,
    out_names: Sequence[str | None] | None = None,
) -> list[Tensor]:
    """`num` equal parts along an axis, or parts of these sizes."""
    where, rank = "split", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    extent: int = tensor_i.shape[place]
    sizes: list[int] = [extent // num] * num if size is None and num > 0 else list(size or ())
    if not sizes or sum(sizes) != extent or min(sizes) < 1:
        raise LangError(f"{where}: {sizes or num} parts do not make up the {extent} elements of axis {axis}.")
    names: list[str | None] = [None] * len(sizes) if out_names is None else list(out_names)
    if len(names) != len(sizes):
        raise LangError(f"{where}: it makes {len(sizes)} parts, and there are {len(names)} names; give one for each.")
    starts = np.cumsum([0, *sizes]).tolist()
    results: list[Tensor] = []
    for start, count, name in zip(starts, sizes, names, strict=False):
        offset = [start if index == place else 0 for index in range(rank)]
        extents = [count if index == place else old for index, old in enumerate(tensor_i.shape)]
        results.append(slice(tensor_i, offset, extents, out_name=name))
    return results


def tile(tensor_i: Tensor, reps: Sequence[int], out_name: str | None = None) -> Tensor:
    """The whole tensor, so many times along each dimension."""
    return _keeping("tile", top.Tile(tile=tuple(reps)), tensor_i, out_name)


repeat = tile


def pad(
    tensor_i: Tensor,
    padding: Sequence[int],
    method: str = "constant",
    value: float = 0.0,
    out_name: str | None = None,
) -> Tensor:
    """`padding` holds, dimension by dimension, how many elements come before and after."""
    where = "pad"
    if len(padding) != 2 * len(tensor_i.shape):
        raise LangError(
            f"{where}: padding has {len(padding)} numbers; give {2 * len(tensor_i.shape)}, two per dimension."
        )
    numbers = tuple(padding)
    op = top.Pad(paddings=(*numbers[::2], *numbers[1::2]), mode=method, val=float(value))
    if method not in ("constant", "reflect", "edge"):
        raise LangError(f"{where}: method '{method}' is not known; use constant, reflect or edge.")
    return _keeping(where, op, tensor_i, out_name)


def upsample(tensor_i: Tensor, scale_h: int = 2, scale_w: int = 2, out_name: str | None = None) -> Tensor:
    """Every element becomes a block."""
    return _keeping("upsample", top.Upsample(scale_h=scale_h, scale_w=scale_w), tensor_i, out_name)


def interpolate(
    tensor_i: Tensor,
    size: Sequence[int],
    method: str = "linear",
    coord_mode: str = "pytorch_half_pixel",
    out_name: str | None = None,
) -> Tensor:
    """Rows and columns resampled to `size`, by method nearest or linear."""
    where = "interpolate"
    if len(tensor_i.shape) != 4 or len(size) != 2 or min(size) < 1:
        raise LangError(
            f"{where}: images of 4 dimensions are resized to two extents, not {list(tensor_i.shape)} to {list(size)}."
        )
    op = top.Interp(mode=method, coord_mode=coord_mode)
    shape = (*tensor_i.shape[:2], *size)
    dtype = floats_only(where, tensor_i)
    return make_one(where, op, [tensor_i, None], out_name, dtype=dtype, shapes=[shape])


def depth2space(
    tensor_i: Tensor,
    block_h: int,
    block_w: int,
    is_crd: bool = True,
    is_inversed: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """Channels become blocks of rows and columns, or the other way round."""
    op = top.Depth2Space(block_h=block_h, block_w=block_w, is_CRD=is_crd, is_inversed=is_inversed)
    return _keeping("depth2space", op, tensor_i, out_name)


def gather(tensor_i: Tensor, indices: Tensor, axis: int = 0, out_name: str | None = None) -> Tensor:
    """The elements at these places of an axis."""
    where, rank = "gather", len(tensor_i.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    meaning = tensor_i.quantisation
    op = top.Gather(axis=place)
    return make_one(where, op, [tensor_i, indices], out_name, dtype=tensor_i.dtype, quantisation=meaning)


# Types


def dequantize(tensor_i: Tensor, out_dtype: str = "float32", out_name: str | None = None) -> Tensor:
    """The real values of integers, whose scale must be known."""
    where = "dequantize"
    scales, offsets = tensor_i.quantisation.scale, tensor_i.quantisation.zero_point or (0,)
    if not tensor_i.is_integer or scales is None or out_dtype not in FLOATS:
        raise LangError(
            f"{where}: tensor '{tensor_i.name}' needs a scale, and a float type to become; it has {tensor_i.dtype}."
        )
    if len(offsets) not in (1, len(scales)):
        raise LangError(f"{where}: tensor '{tensor_i.name}' has {len(scales)} scales and {len(offsets)} zero points.")
    offsets = offsets * len(scales) if len(offsets) == 1 else offsets
    op = top.DequantizeLinear(x_scale=scales, x_zero_point=offsets, axis=1)
    return make_one(where, op, [tensor_i], out_name, dtype=out_dtype)


def quantize(
    tensor_i: Tensor, scale: float, zero_point: int = 0, out_dtype: str = "int8", out_name: str | None = None
) -> Tensor:
    """The nearest integers that mean these values, ties to even, within the range of the type."""
    where = "quantize"
    floats_only(where, tensor_i)
    if out_dtype not in ("int8", "uint8", "int16", "uint16"):
        raise LangError(f"{where}: out_dtype is '{out_dtype}'; use int8, uint8, int16 or uint16.")
    if not 0 < scale < math.inf:
        raise LangError(f"{where}: the scale is {scale:g}; it must be above 0.")
    op = top.QuantizeLinear(y_scale=(float(scale),), y_zero_point=(int(zero_point),), axis=1, to=out_dtype.upper())
    meaning = Quantisation((float(scale),), (int(zero_point),))
    return make_one(where, op, [tensor_i], out_name, dtype=out_dtype, quantisation=meaning)


def requantize(
    tensor_i: Tensor, scale: float, zero_point: int = 0, out_dtype: str = "int8", out_name: str | None = None
) -> Tensor:
    """The same values by another scale and zero point."""
    return quantize(dequantize(tensor_i), scale, zero_point, out_dtype, out_name)


def cast(tensor_i: Tensor, out_dtype: str, out_name: str | None = None) -> Tensor:
    """The same numbers; what they mean is forgotten."""
    if out_dtype not in FLOATS:
        raise LangError(f"cast: '{out_dtype}' is no float type; use tl.quantize for integers.")
    return make_one("cast", top.AddConst(const_val=0.0), [tensor_i], out_name, dtype=out_dtype)


def copy(tensor_i: Tensor, out_name: str | None = None) -> Tensor:
    """The same under another name."""
    return _keeping("copy", top.MulConst(const_val=1.0), tensor_i, out_name)


def _keeping(where: str, op: Op, tensor: Tensor, out_name: str | None) -> Tensor:
    return make_one(where, op, [tensor], out_name, dtype=tensor.dtype, quantisation=tensor.quantisation)
