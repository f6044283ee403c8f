"""Reductions of dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, TensorType, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.common import FEW_LANES
from tpuc_bm1684x.lowerings.common import ALL, INTEGERS, float_weight
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.turning import is_scattered
from tpuc_bm1684x.operands import MAX_EXTENT

_INTEGER_MODES = ("ReduceMean", "ReduceSum", "ReduceMax")
WIDEST = 1 << 14
"""Maximum number of floats reduced in one step: the f32 values and the kernel's prepared copy take half of a lane."""
LONG = 1 << 11
"""Above this count, reducing parts first is faster when the results occupy few lanes: for a mean of 1024 floats it
takes 1.3 times the predicted cycles, of 2048 half, of 16384 one ninth.
"""
LEAST_PLACES = 1 << 6
"""Results from which a product with ones adds values across lanes. Not varied."""
LEAST_OF_NORM, LEAST_CHANNELS_OF_NORM = 1 << 14, 4
"""Elements of an image and channels from which this holds for norms, whose squares are f32: 8x32x32 takes 1.14 times
the predicted cycles, 2x256x256 as well, 4x256x256 0.86 times and 8x128x128 0.69 times.
"""
LEAST_RUN = 1 << 10
"""Bytes of rows that are reduced where they lie before the others: a mean over images and pixels takes 1.6 times the
predicted cycles for rows of 392 bytes, as many for 1,568, and 0.42 times for 18,432.
"""


def reduced(build: LoweringBuilder, op: tpu.Reduce, value: Value, result: TensorType, name: str) -> Value:
    """Reduce contiguous dimensions. Many floats are first reduced in equal parts on all lanes: each mode composes with
    itself, the mean because the parts are equal.
    """
    type_ = value.tensor
    axes = [positive_axis(axis, type_.rank) for axis in op.axes]
    before, after = type_.dims[: axes[0]], type_.dims[axes[-1] + 1 :]
    count = math.prod(type_.dims[axes[0] : axes[-1] + 1])
    is_short = count <= (LONG if math.prod((*before, *after)) < LANES // 2 else WIDEST)
    if type_.is_quantized or is_short or (parts := parts_of(count)) == count:
        return build(op, [value], result, name)
    rows = (*before, parts, count // parts, *after)
    value = build(tpu.Reshape(shape=rows), [value], type_.with_shape(rows), f"{name}_rows{count}")
    dims = (*before, parts, *after)
    inner = dataclasses.replace(op, axes=(len(before) + 1,), keepdims=False)
    value = build(inner, [value], type_.with_shape(dims), f"{name}_parts{count}")
    dims = (*before, parts, *(1,) * (len(axes) - 1), *after)
    value = build(tpu.Reshape(shape=dims), [value], type_.with_shape(dims), f"{name}_left{count}")
    return reduced(build, op, value, result, name)


def parts_of(count: int) -> int:
    """The smallest number of parts of at most `WIDEST` elements that fills the lanes; `count` itself where no number
    divides it.
    """
    fitting = (parts for parts in range(LANES, count) if count % parts == 0 and count // parts <= WIDEST)
    return next(fitting, count)


@TABLE.lowers(top.Reduce, *ALL)
class ReduceAny(Lowering[top.Reduce]):
    """Reduces contiguous dimensions in place where lanes read long runs; other dimensions are permuted to the end
    first.

    int8: maxima are unchanged; sums and means use Sx / Sy (divided by the count) as a multiplier and a shift. The other
    modes are computed in f32.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        floats = node.op.mode not in _INTEGER_MODES or (node.op.mode != "ReduceMax" and _count(node) > MAX_EXTENT)
        wanted = Wants.FLOAT if node.mode in INTEGERS and floats else Wants.MODE
        return (wanted,) * len(node.operand_types)

    def lower(self, node: LoweringNode[top.Reduce], build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        type_ = value.tensor
        axes = _axes(node)
        lowered, result = _reduction(node, _count(node))
        together = axes == list(range(axes[0], axes[0] + len(axes)))
        if together and _is_of_channels(node, axes):
            return [_over_channels(node, build, axes)]
        if together and not is_scattered(value, axes[0], axes[-1] + 1):
            lowered = dataclasses.replace(lowered, axes=tuple(axes), keepdims=node.op.keepdims)
            return [reduced(build, lowered, value, result, node.name)]
        value, axes = _without_last(build, lowered, value, axes, node.name)
        type_ = value.tensor
        kept = [axis for axis in range(type_.rank) if axis not in axes]
        dims = tuple(type_.dims[axis] for axis in (*kept, *axes))
        value = build(tpu.Permute(order=(*kept, *axes)), [value], type_.with_shape(dims), f"{node.name}_permuted")
        lowered = dataclasses.replace(lowered, axes=tuple(range(len(kept), type_.rank)), keepdims=False)
        value = reduced(build, lowered, value, result.with_shape(dims[: len(kept)]), f"{node.name}_reduced")
        return [build(tpu.Reshape(shape=result.dims), [value], result)]


def _without_last(
    build: LoweringBuilder, op: tpu.Reduce, value: Value, axes: list[int], name: str
) -> tuple[Value, list[int]]:
    """Reduce the last dimensions that follow each other where they lie, so that fewer elements are permuted. Dimensions
    of 1 remain in their place.
    """
    type_ = value.tensor
    first = axes[-1]
    while first - 1 in axes:
        first -= 1
    last, before = axes[axes.index(first) :], axes[: axes.index(first)]
    few = math.prod(type_.dims[axis] for axis in before) == 1
    short = math.prod(type_.dims[first:]) * type_.storage.bits < 8 * LEAST_RUN
    if type_.is_quantized or few or short or is_scattered(value, first, axes[-1] + 1):
        return value, axes
    dims = tuple(1 if axis in last else extent for axis, extent in enumerate(type_.dims))
    inner = dataclasses.replace(op, axes=tuple(last), keepdims=True)
    return reduced(build, inner, value, type_.with_shape(dims), f"{name}_last"), before


def _images(dims: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int, int]:
    """Extents of images whose channels are the reduced dimensions."""
    before, after = dims[: axes[0]], dims[axes[-1] + 1 :]
    height, width = after if len(after) == 2 else (1, math.prod(after))
    return math.prod(before), math.prod(dims[axes[0] : axes[-1] + 1]), height, width


def _is_of_channels(node: LoweringNode, axes: Sequence[int]) -> bool:
    """True for sums, means and norms of 16-bit floats across lanes, which a product with ones adds in f32."""
    type_ = node.operands[0].tensor
    images, channels, height, width = dims = _images(type_.dims, axes)
    is_sum = node.op.mode in ("ReduceMean", "ReduceSum")
    if node.op.mode == "ReduceL2":
        is_sum = channels >= LEAST_CHANNELS_OF_NORM and channels * height * width >= LEAST_OF_NORM
    is_sum = is_sum and type_.storage.name in ("f16", "bf16")
    return is_sum and images < FEW_LANES and height * width >= LEAST_PLACES and max(dims) <= MAX_EXTENT


def _over_channels(node: LoweringNode, build: LoweringBuilder, axes: Sequence[int]) -> Value:
    """Convolve images, whose channels are the reduced dimensions, to one channel."""
    value, count, name = node.operands[0], _count(node), node.name
    type_ = value.tensor
    dims = _images(type_.dims, axes)
    mode = type_.storage.name
    if dims != type_.dims:
        value = build(tpu.Reshape(shape=dims), [value], type_.with_shape(dims), f"{name}_images")
    sums, is_norm = type_.with_shape((dims[0], 1, *dims[2:])), node.op.mode == "ReduceL2"
    if is_norm:  # 16 bits do not hold squares
        wide = value.tensor.with_element(F32).at(None)
        value = build(tpu.Cast(with_scale=True), [value], wide, f"{name}_f32")
        value = build(tpu.Mul(), [value, value], wide, f"{name}_squares")
    ones = float_weight(build, "ones", np.ones((1, count, 1, 1), np.float32), "f32" if is_norm else mode)
    total = sums if node.op.mode == "ReduceSum" else sums.with_element(F32)
    op = tpu.Conv2D(kernel_shape=(1, 1), with_bias=False)
    value = build(op, [value, ones, build.none()], total, f"{name}_sums")
    if node.op.mode == "ReduceMean":
        value = build(tpu.MulConst(const_val=float(np.float32(1 / count))), [value], total, f"{name}_mean")
    if is_norm:
        value = build(tpu.Active(mode="SQRT"), [value], total, f"{name}_root")
    if total is not sums:
        value = build(tpu.Cast(with_scale=True), [value], sums, f"{name}_{mode}")
    return build(tpu.Reshape(shape=node.result_type.dims), [value], type_.with_shape(node.result_type.dims))


def _axes(node: LoweringNode) -> list[int]:
    return sorted({positive_axis(axis, node.operand_types[0].rank) for axis in node.op.axes})


def _count(node: LoweringNode) -> int:
    return math.prod(node.operand_types[0].dims[axis] for axis in _axes(node))


def _reduction(node: LoweringNode, count: int) -> tuple[tpu.Reduce, TensorType]:
    """The op without its axes, and its result type."""
    type_ = node.operands[0].tensor
    op, plain = tpu.Reduce(axes=(), mode=node.op.mode), type_.with_shape(node.result_type.dims)
    mean = node.op.mode == "ReduceMean"
    if not type_.is_quantized or node.op.mode == "ReduceMax":
        return op, plain
    result = node.quantized_result_type()
    factor = type_.uniform.scale / result.uniform.scale
    multiplier, shift = decompose_search(factor / count if mean else factor, bits=32)
    return dataclasses.replace(op, multiplier=multiplier, rshift=shift), result
