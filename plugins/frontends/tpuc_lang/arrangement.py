"""Functions that change shape, order, or position of elements, and keep type and meaning."""

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
    Scalar,
    Tensor,
    constant,
    make_one,
    number_of,
    once,
    same_meaning,
)
from tpuc_lang.stored import AWAY, parameters, quantized, real

PAD_METHODS = ("constant", "reflect", "symmetric", "edge")


def reshape(tensor: Tensor, new_shape: Sequence[int] | Tensor, out_name: str | None = None) -> Tensor:
    """Change the shape; 0 keeps an extent, one -1 takes the remainder. A tensor with the shape must be constant."""
    wanted = _constant_numbers("reshape", new_shape) if isinstance(new_shape, Tensor) else tuple(new_shape)
    shape = once("reshape", lambda: reshaped(tensor.shape, wanted))
    return _keeping("reshape", top.Reshape(shape=shape), tensor, out_name)


def permute(input: Tensor, order: Sequence[int], out_name: str | None = None) -> Tensor:  # noqa: A002
    """Permute dimensions: dimension `i` of the result is dimension `order[i]`."""
    return _keeping("permute", top.Permute(order=tuple(order)), input, out_name)


def squeeze(tensor_i: Tensor, axis: Sequence[int] = (), out_name: str | None = None) -> Tensor:
    """Remove these dimensions, which must have extent 1; if none is named, all dimensions of extent 1."""
    gone = tuple(axis) or tuple(index for index, extent in enumerate(tensor_i.shape) if extent == 1)
    return _keeping("squeeze", top.Squeeze(axes=gone), tensor_i, out_name)


def unsqueeze(
    input: Tensor,  # noqa: A002  # the interface's name
    axes: Sequence[int] = (1, 2),
    out_name: str | None = None,
) -> Tensor:
    """Insert dimensions of extent 1 at these positions."""
    return _keeping("unsqueeze", top.Unsqueeze(axes=tuple(axes)), input, out_name)


def shape_fetch(
    tensor_i: Tensor,
    begin_axis: int | None = None,
    end_axis: int | None = None,
    step: int = 1,
    out_name: str | None = None,
) -> Tensor:
    """Return the extents from one axis up to another one (exclusive), as a constant."""
    extents = tensor_i.shape[begin_axis:end_axis:step]
    if not extents:
        raise LangError(f"shape_fetch: there is no axis from {begin_axis} to {end_axis}; choose others.")
    return constant(np.array(extents), out_name, "int32")


def concat(
    inputs: Sequence[Tensor],
    scales: Sequence[float] | None = None,
    zero_points: Sequence[int] | None = None,
    axis: int = 0,
    out_name: str | None = None,
    dtype: str = "float32",
    round_mode: str = AWAY,
) -> Tensor:
    """Concatenate. Integers with different scales are requantized to the last one of `scales`.

    `dtype` adds nothing to what the tensors state.
    """
    where = "concat"
    if not inputs:
        raise LangError(f"{where}: there are no tensors; give some.")
    if dtype not in FLOATS and dtype != inputs[0].dtype:
        raise LangError(f"{where}: dtype is {dtype} for tensors of {inputs[0].dtype}; leave it out.")
    place = once(where, lambda: positive_axis(axis, len(inputs[0].shape)))
    if scales is None:
        meaning = same_meaning(where, inputs)
        return make_one(where, top.Concat(axis=place), inputs, out_name, dtype=inputs[0].dtype, quantization=meaning)
    points = (0,) * len(scales) if zero_points is None else tuple(zero_points)
    if not len(scales) == len(points) == len(inputs) + 1:
        raise LangError(f"{where}: there are {len(inputs)} tensors; give {len(inputs) + 1} scales and zero points.")
    values = [real(where, one, scales[index], points[index]) for index, one in enumerate(inputs)]
    value = make_one(where, top.Concat(axis=place), values)
    meaning = parameters(where, scales[-1], points[-1])
    return quantized(where, value, meaning, inputs[0].dtype, out_name, round_mode)


def slice(  # noqa: A001  # the interface's name
    input: Tensor,  # noqa: A002  # the interface's name
    starts: int | Sequence[int],
    ends: int | Sequence[int],
    steps: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return elements from start to end (exclusive) with `steps`, along these axes or the first ones."""
    where, rank = "slice", len(input.shape)
    first, last = _several(starts), _several(ends)
    strides = [1] * len(first) if steps is None else _several(steps)
    chosen = list(range(len(first))) if axes is None else _several(axes)
    if not len(first) == len(last) == len(strides) == len(chosen) <= rank:
        raise LangError(f"{where}: starts, ends, steps and axes need as many numbers each, at most {rank}.")
    places = [once(where, lambda one=one: positive_axis(one, rank)) for one in chosen]
    offset, beyond, apart = [0] * rank, list(input.shape), [1] * rank
    for place, start, end, step in zip(places, first, last, strides, strict=True):
        offset[place], beyond[place], apart[place] = start, end, step
    return _sliced(where, input, offset, beyond, apart, out_name)


def extract(
    input: Tensor,  # noqa: A002  # the interface's name
    start: Sequence[int] | None = None,
    end: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Return elements from start to end (exclusive) with `stride`, along every axis."""
    where, rank = "extract", len(input.shape)
    offset = [0] * rank if start is None else list(start)
    beyond = list(input.shape) if end is None else list(end)
    apart = [1] * rank if stride is None else list(stride)
    if not len(offset) == len(beyond) == len(apart) == rank:
        raise LangError(f"{where}: start, end and stride need {rank} numbers each.")
    return _sliced(where, input, offset, beyond, apart, out_name)


def _sliced(
    where: str, x: Tensor, offset: Sequence[int], ends: Sequence[int], steps: Sequence[int], out_name: str | None
) -> Tensor:
    op = top.Slice(offset=tuple(offset), steps=tuple(steps), ends=tuple(ends))
    if any(not len(range(extent)[at:end:step]) for extent, at, end, step in _axes(x, offset, ends, steps)):
        raise LangError(f"{where}: no element lies between {list(offset)} and {list(ends)}; choose others.")
    return make_one(where, op, [x, None, None, None], out_name, dtype=x.dtype, quantization=x.quantization)


def _axes(
    x: Tensor, offset: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> list[tuple[int, int, int, int]]:
    return [row for row in zip(x.shape, offset, ends, steps, strict=True) if row[3] != 0]


def split(
    input: Tensor,  # noqa: A002  # the interface's name
    axis: int = 0,
    num: int = 1,
    size: Sequence[int] | None = None,
    out_name: str | None = None,
) -> list[Tensor]:
    """Split along an axis into `num` equal parts, or parts of these sizes, named `NAME_0`, `NAME_1`, ..."""
    where, rank = "split", len(input.shape)
    place = once(where, lambda: positive_axis(axis, rank))
    extent = input.shape[place]
    sizes: list[int] = list(size) if size else [extent // num] * num if num > 0 else []
    if not sizes or sum(sizes) != extent or min(sizes) < 1:
        raise LangError(f"{where}: {sizes or num} parts do not add up to the {extent} elements of axis {axis}.")
    bounds = np.cumsum([0, *sizes]).tolist()
    names = [f"{out_name}_{index}" if out_name else None for index in range(len(sizes))]
    return [
        slice(input, start, end, axes=place, out_name=name)
        for start, end, name in zip(bounds[:-1], bounds[1:], names, strict=True)
    ]


def tile(tensor_i: Tensor, reps: Sequence[int], out_name: str | None = None) -> Tensor:
    """Repeat the whole tensor along each dimension."""
    return _keeping("tile", top.Tile(tile=tuple(reps)), tensor_i, out_name)


def repeat(tensor_i: Tensor, reps: Sequence[int] | Tensor, out_name: str | None = None) -> Tensor:
    """As `tile`. A tensor with the counts must be constant."""
    wanted = _constant_numbers("repeat", reps) if isinstance(reps, Tensor) else tuple(reps)
    return _keeping("repeat", top.Tile(tile=wanted), tensor_i, out_name)


def broadcast(input: Tensor, reps: Sequence[int], out_name: str | None = None) -> Tensor:  # noqa: A002
    """Repeat dimensions of extent 1; all others must be repeated once, or as often as they are long."""
    where = "broadcast"
    pairs = list(zip(input.shape, reps, strict=False))
    if len(reps) != len(input.shape) or any(times not in (1, extent) and extent != 1 for extent, times in pairs):
        raise LangError(f"{where}: {list(input.shape)} cannot become {list(reps)}; only extents of 1 grow.")
    op = top.Tile(tile=tuple(times if extent == 1 else 1 for extent, times in pairs))
    return _keeping(where, op, input, out_name)


def roll(
    input: Tensor,  # noqa: A002  # the interface's name
    shifts: int | Sequence[int],
    dims: int | Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Rotate elements along these dimensions, or along the flat tensor."""
    where = "roll"
    if dims is None:
        flat = roll(_keeping(where, top.Reshape(shape=(-1,)), input, None), shifts, 0)
        return _keeping(where, top.Reshape(shape=input.shape), flat, out_name)
    steps, places = _several(shifts), _several(dims)
    if len(steps) != len(places) or not steps:
        raise LangError(f"{where}: there are {len(steps)} shifts and {len(places)} dims; give equal numbers.")
    result, rank = input, len(input.shape)
    for step, dim in zip(steps, places, strict=True):
        place = once(where, lambda dim=dim: positive_axis(dim, rank))
        extent = input.shape[place]
        cut = -step % extent
        if cut:
            parts = [slice(result, cut, extent, axes=place), slice(result, 0, cut, axes=place)]
            result = concat(parts, axis=place)
    return _keeping(where, top.Reshape(shape=result.shape), result, out_name)


def pad(
    input: Tensor,  # noqa: A002  # the interface's name
    method: str = "constant",
    value: Scalar | float | None = None,
    padding: Sequence[int] | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Pad; `padding` lists the counts before each dimension, then those after each."""
    where, rank = "pad", len(input.shape)
    added = (0,) * (2 * rank) if padding is None else tuple(padding)
    if len(added) != 2 * rank:
        raise LangError(f"{where}: padding has {len(added)} numbers; give {2 * rank}, two per dimension.")
    if method not in PAD_METHODS:
        raise LangError(f"{where}: method '{method}' is not known; use one of {', '.join(PAD_METHODS)}.")
    if method == "symmetric":
        return _mirrored(where, input, added, out_name)
    filling = 0.0 if value is None else number_of(value)
    return _keeping(where, top.Pad(paddings=added, mode=method, val=filling), input, out_name)


def _mirrored(where: str, x: Tensor, added: Sequence[int], out_name: str | None) -> Tensor:
    """Pad by mirroring with the border repeated, one dimension after the other."""
    rank = len(x.shape)
    for axis, extent in enumerate(x.shape):
        before, after = added[axis], added[axis + rank]
        if max(before, after) > extent or min(before, after) < 0:
            raise LangError(
                f"{where}: {extent} elements cannot be mirrored by {before} and {after}; use at most {extent}."
            )
        if before or after:
            places = np.pad(np.arange(extent), (before, after), mode="symmetric")
            x = _keeping(where, top.Gather(axis=axis), x, None, [constant(places)])
    return _keeping(where, top.Reshape(shape=x.shape), x, out_name)


def upsample(tensor_i: Tensor, scale: int = 2, out_name: str | None = None) -> Tensor:
    """Repeat every element as a square block."""
    return _keeping("upsample", top.Upsample(scale_h=scale, scale_w=scale), tensor_i, out_name)


# Beyond the language


def depth2space(
    tensor_i: Tensor,
    block_h: int,
    block_w: int,
    is_crd: bool = True,
    is_inversed: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """Rearrange channels as blocks of rows and columns, or back."""
    op = top.Depth2Space(block_h=block_h, block_w=block_w, is_CRD=is_crd, is_inversed=is_inversed)
    return _keeping("depth2space", op, tensor_i, out_name)


def _keeping(where: str, op: Op, tensor: Tensor, out_name: str | None, others: Sequence[Tensor] = ()) -> Tensor:
    return make_one(where, op, [tensor, *others], out_name, dtype=tensor.dtype, quantization=tensor.quantization)


def _several(values: int | Sequence[int]) -> list[int]:
    return [values] if isinstance(values, int) else list(values)


def _constant_numbers(where: str, tensor: Tensor) -> tuple[int, ...]:
    if tensor.data is None or not tensor.is_const:
        raise LangError(f"{where}: the numbers in tensor '{tensor.name}' must be constant; shapes are fixed.")
    assert math.prod(tensor.shape) == tensor.data.size
    return tuple(int(one) for one in tensor.data.reshape(-1))
