"""Lowerings and parts of lowerings that are the same on every chip."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from tpuc.api import (
    F32,
    Calibrated,
    Lowering,
    LoweringBuilder,
    LoweringNode,
    Node,
    Op,
    ScalarType,
    TensorType,
    Uniform,
    UniformPerAxis,
    Value,
    Wants,
    numpy_dtype,
)
from tpuc_ops import top, tpu
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import (
    Rounding,
    dequantize,
    quantize_float,
    round_to_int,
    saturate,
    symmetric_scale,
    usable_threshold,
)
from tpuc_ops.shapes import positive_axis

STEPS = 127
"""Signed byte steps on each side of 0."""
_UNSIGNED_STEPS = 255
"""Unsigned byte steps above 0."""
_STEP_NOISE = 1e-3
"""How far a float32 product of an integer and a scale may be from the integer, in steps."""
_POWERS = {2.0: "SQUARE", 0.5: "SQRT", -0.5: "RSQRT"}
"""Modes of `tpu.Active` by exponent."""
_GREATEST_SHIFT = 30  # numerators stay below 2**31


@dataclass(frozen=True)
class InnerBuilder(LoweringBuilder):
    """A builder whose unnamed ops are inner ops of the node."""

    inner: LoweringBuilder
    name: str

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        return self.inner(op, operands, result, name or self.name)

    def weight(self, suffix: str, array: Array, element: str | Uniform | None = None) -> Value:
        return self.inner.weight(suffix, array, element)

    def none(self) -> Value:
        return self.inner.none()


def is_stated(node: LoweringNode) -> bool:
    """True if the network states the quantization of the result. Then the lowering must match the integers of the
    network's runtime.
    """
    return isinstance(node.result_type.element, Uniform)


def learned_scales(node: LoweringNode, index: int = 1) -> Array | None:
    """The constant's scales from training or from the network's file: one, or one per output channel of a filter."""
    filters = node.operands[index].defining if len(node.operands) > index else None
    if filters is None or not isinstance(filters.op, top.Weight) or filters.op.scale is None:
        return None
    return np.asarray(filters.op.scale, np.float64)


def bytes_of(constant: Array) -> tuple[Array, float, str]:
    """A constant as bytes with its scale and element type: unsigned where no value is negative."""
    unsigned = bool((constant >= 0).all())
    greatest = usable_threshold(float(np.abs(constant).max(initial=0.0)))
    scale = greatest / (_UNSIGNED_STEPS if unsigned else STEPS)
    dtype, element = (np.uint8, "ui8") if unsigned else (np.int8, "si8")
    rounded = round_to_int(constant.astype(np.float64) / scale, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(rounded, dtype), scale, element


def quantized_constant(factors: Array, lowest_shift: int) -> tuple[Array, int]:
    """Factors as int8 numerators over a common power of two: the largest shift that keeps all within 127."""
    greatest = float(np.abs(factors).max(initial=0.0))
    shift = _GREATEST_SHIFT
    while shift > lowest_shift and round(greatest * 2.0**shift) > STEPS:
        shift -= 1
    numerators = round_to_int(factors.astype(np.float64) * 2.0**shift, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(numerators, np.int8), shift


def result_with_sign(node: LoweringNode, *, unsigned: bool) -> TensorType:
    """The stored result type with the given signedness, whatever its calibration says."""
    plain = node.quantized_result_type()
    element = node.result_type.element
    if plain.storage.is_unsigned == unsigned or not isinstance(element, Calibrated):
        return plain
    assert node.chip is not None
    scale = symmetric_scale(usable_threshold(element.threshold), not unsigned, node.chip.symmetric_divisor)
    return plain.with_element(Uniform(ScalarType("u8" if unsigned else "i8"), plain.uniform.expressed, scale))


# Tables.


def table_of(op: Op, source: TensorType, result: TensorType) -> Array:
    """The table of `op` over the 256 stored bytes of `source`, as `result` stores it; NaN becomes 0. One row per
    channel where either side has scales per channel, else one.
    """
    stored = np.arange(256, dtype=np.uint8).view(numpy_dtype(source.storage))
    (scale, point), (result_scale, result_point) = (_by_rows(one) for one in (source, result))
    x = dequantize(stored, scale, point)
    plain = TensorType(x.shape, source.shape_only().storage)
    (y,) = op.evaluate(Node(op, (plain,), (plain,)), [x])
    y = np.where(np.isnan(y), 0, y)
    return quantize_float(y, result_scale, result_point, Rounding.HALF_AWAY_FROM_ZERO, numpy_dtype(result.storage))


def _by_rows(type: TensorType) -> tuple[Any, Any]:
    """Scale and zero point, as columns if there are several."""
    if isinstance(type.element, UniformPerAxis):
        return np.reshape(type.element.scales, (-1, 1)), np.reshape(type.element.zero_points, (-1, 1))
    return type.uniform.scale, zero_point(type)


class FunctionTable(Lowering[Any]):
    """Lower a unary function to one table, or one per channel: the exact function of every stored value, rounded half
    away from zero.
    """

    channel_scales = True

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantized_result_type()
        table = table_of(node.op, node.operands[0].tensor, result)
        element = "ui8" if result.storage.is_unsigned else "si8"
        return [
            build(tpu.Lut(), [node.operands[0], build.weight("table", table.reshape(1, -1, 1, 256), element)], result)
        ]


class FunctionFloat(Lowering[Function]):
    """Base of unary functions in floats: the mode of `tpu.Active`, for functions that the chip's kernels support."""

    modes: ClassVar[Collection[str]]

    def serves(self, op: type[Op]) -> bool:
        return issubclass(op, Function) and op.active in self.modes

    def refuse(self, node: LoweringNode[Function]) -> str | None:
        return None if self.mode(node.op) in self.modes else "no kernel computes it with these attributes"

    def mode(self, op: Function) -> str:
        """The mode that computes `op`."""
        return op.active_mode()

    def lower(self, node: LoweringNode[Function], build: LoweringBuilder) -> Sequence[Value]:
        active = tpu.Active(mode=self.mode(node.op), coeffs=node.op.coefficients())
        return [build(active, node.operands, node.float_result_type())]


class PowFloat(Lowering[top.Pow]):
    """Squares and roots."""

    def refuse(self, node: LoweringNode[top.Pow]) -> str | None:
        known = ", ".join(map(str, _POWERS))
        return None if node.op.exponent in _POWERS else f"exponents {known}, this one is {node.op.exponent:g}"

    def lower(self, node: LoweringNode[top.Pow], build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Active(mode=_POWERS[node.op.exponent]), node.operands, self.result(node))]

    def result(self, node: LoweringNode[top.Pow]) -> TensorType:
        """The type of the result."""
        return node.float_result_type()


# Movements.


class ShapeLowering(Lowering[Any]):
    """Base: operands keep their types, and the result has the first one's element type."""

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return True

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)

    def result(self, node: LoweringNode) -> TensorType:
        """The first operand's element in the result's shape."""
        return node.operands[0].tensor.with_shape(node.result_type.dims)


class ReshapeAny(ShapeLowering):
    """The same bytes under another shape."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Reshape(shape=node.result_type.dims), node.operands[:1], self.result(node))]


class PermuteAny(ShapeLowering):
    """A transposition of stored values."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Permute(order=node.op.order), node.operands, self.result(node))]


class Depth2SpaceAny(ShapeLowering):
    """Split the dimensions of blocks and channels, permute, and merge again."""

    def lower(self, node: LoweringNode[top.Depth2Space], build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor
        split, order = _block_order(node.op, type_.dims)
        value = build(tpu.Reshape(shape=split), node.operands, type_.with_shape(split), f"{node.name}_split")
        dims = tuple(split[axis] for axis in order)
        value = build(tpu.Permute(order=order), [value], type_.with_shape(dims), f"{node.name}_ordered")
        return [build(tpu.Reshape(shape=node.result_type.dims), [value], self.result(node))]


def _block_order(op: top.Depth2Space, dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operand with its blocks as separate dimensions, and their order in the result."""
    n, c, h, w = dims
    down, right = op.block_h, op.block_w
    if op.is_inversed:
        split = (n, c, h // down, down, w // right, right)
        return split, (0, 1, 3, 5, 2, 4) if op.is_CRD else (0, 3, 5, 1, 2, 4)
    channels = c // (down * right)
    if op.is_CRD:
        return (n, channels, down, right, h, w), (0, 1, 4, 2, 5, 3)
    return (n, down, right, channels, h, w), (0, 3, 4, 1, 5, 2)


class SplitAny(ShapeLowering):
    """One slice per result."""

    def lower(self, node: LoweringNode[top.Split], build: LoweringBuilder) -> Sequence[Value]:
        source = node.operands[0]
        dims = source.tensor.dims
        axis = positive_axis(node.op.axis, len(dims))
        values: list[Value] = []
        at = 0
        for result, name in zip(node.result_types, node.result_names, strict=True):
            offset = tuple(at if index == axis else 0 for index in range(len(dims)))
            ends = tuple(start + extent for start, extent in zip(offset, result.dims, strict=True))
            lowered = tpu.Slice(offset=offset, steps=(1,) * len(dims), ends=ends)
            values.append(build(lowered, [source], source.tensor.with_shape(result.dims).at(None), name))
            at += result.dims[axis]
        return values


# Resampling.


def images_refusal(node: LoweringNode) -> str | None:
    """Return why no chip can compute an Interp; None unless its operand has another rank than 4."""
    rank = len(node.operand_types[0].dims)
    return f"only images of 4 dimensions, this one has {rank}" if rank != 4 else None


def whole_factors(node: LoweringNode[top.Interp]) -> tuple[int, int] | None:
    """Integer factors between the extents of an Interp, if the network's own scales agree."""
    (_, _, h, w), (_, _, rows, columns) = node.operand_types[0].dims, node.result_type.dims
    if node.op.coord_mode == "align_corners" or rows % h or columns % w:
        return None
    down, right = rows // h, columns // w
    for scale, factor in ((node.op.scale_h, down), (node.op.scale_w, right)):
        if scale > 0 and scale != factor:
            return None
    return down, right


def interpolation_matrix(op: top.Interp, extent: int, count: int, scale: float) -> Array:
    """The matrix `[extent, count]` that an Interp applies to one dimension."""
    single = top.Interp(mode=op.mode, coord_mode=op.coord_mode, scale_w=scale)
    units = np.eye(extent, dtype=np.float32)[None, None]
    types = TensorType((1, 1, extent, extent), F32), TensorType((1, 1, extent, count), F32)
    (result,) = single.evaluate(Node(single, (types[0],), (types[1],)), [units])
    return result[0, 0]


# Pools.


def strip_count(node: LoweringNode, most: int) -> int:
    """The number of equal strips into which a global pool's image is split, so that none has more than `most` elements;
    1 if it is small enough, not a global pool, or not divisible.
    """
    op, (_, _, *size) = node.op, node.operand_types[0].dims
    count = math.prod(size)
    if tuple(op.kernel_shape) != tuple(size) or any(op.pads) or count <= most:
        return 1
    return next((parts for parts in range(-(-count // most), most + 1) if count % parts == 0), 1)


def pooled_in_strips(
    node: LoweringNode,
    build: LoweringBuilder,
    parts: int,
    pool: Callable[[LoweringNode, LoweringBuilder], Value],
    widest: int,
) -> Value:
    """Build a global pool in two stages: `pool` over `parts` strips of each image, with rows of at most `widest`
    elements, then over the strips.
    """
    source, name = node.operands[0], f"{node.name}_strips"
    n, c, *size = source.tensor.dims
    count = math.prod(size) // parts
    width = next(width for width in range(min(count, widest), 0, -1) if count % width == 0)
    value = source
    for dims, result, last in (
        ((n, c * parts, count // width, width), (n, c * parts, 1, 1), False),
        ((n, c, parts, 1), (n, c, 1, 1), True),
    ):
        suffix = "out" if last else "in"
        value = build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), f"{name}_{suffix}")
        do_relu = node.op.do_relu and last
        op = replace(node.op, kernel_shape=dims[2:], strides=(1, 1), pads=(0, 0, 0, 0), do_relu=do_relu)
        inner = replace(
            node,
            op=op,
            operands=(value,),
            operand_types=(node.operand_types[0].with_shape(dims),),
            result_types=(node.result_type.with_shape(result),),
            name=node.name if last else name,
        )
        value = pool(inner, build if last else InnerBuilder(build, name))
    return value


# Rectifiers.


def slope_refusal(node: LoweringNode) -> str | None:
    """Return why no chip can compute a PRelu; None if it can. A single slope is legalized to a LeakyRelu."""
    slope = node.constants[1]
    if slope is None:
        return "the slope must be a constant"
    dims = node.operand_types[0].dims
    channels = dims[1] if len(dims) > 1 else 1
    aligned = (1,) * (len(dims) - slope.ndim) + slope.shape
    if slope.size == 1 or slope.size != channels or aligned[1] != channels:
        return f"one slope, or one per channel; there are {slope.size} for {channels} channels"
    return None


def pool2d(op: top.MaxPool | top.AvgPool, mode: str, multiplier: int = 1, rshift: int = 0) -> tpu.Pool2D:
    """A pool with the windows of `op`."""
    return tpu.Pool2D(
        pool_mode=mode,
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        ceil_mode=op.ceil_mode,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        count_include_pad=op.count_include_pad,
        multiplier=multiplier,
        rshift=rshift,
        round_mode="HalfUp",  # what the chips do with averages, whatever the command says
    )


def stored_value(value: float, type: TensorType) -> float:
    """The integer for a number in a quantized type; the number itself in other types."""
    if not type.is_quantized:
        return value
    uniform = type.uniform
    dtype = numpy_dtype(type.storage)
    return float(quantize_float(value, uniform.scale, uniform.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype))


def stored_operands(
    node: LoweringNode, build: LoweringBuilder, *, with_points: bool = False
) -> list[tuple[Value, float]]:
    """Operands and their scales; a constant becomes bytes with a scale of its own. `with_points`: with the network's
    scale and a zero point where these would round its integers.
    """
    pairs: list[tuple[Value, float]] = []
    for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True)):
        if constant is None:
            pairs.append((value, value.tensor.uniform.scale))
            continue
        stored, scale, element = bytes_of(constant)
        own = _own_bytes(node, index, stored * scale) if with_points else None
        if own is None:
            pairs.append((build.weight(f"operand{index}_i8", stored, element), scale))
        else:
            pairs.append((build.weight(f"operand{index}_u8", *own), own[1].scale))
    return pairs


def _own_bytes(node: LoweringNode, index: int, held: Array) -> tuple[Array, Uniform] | None:
    """The integers of a constant in a prequantized network as unsigned bytes with a zero point; None where `held` has
    the same numbers, or the constant is not in steps of the network's scale.
    """
    constant, scales = node.constants[index], learned_scales(node, index)
    if constant is None or scales is None or scales.size != 1 or not is_stated(node):
        return None
    step = float(scales.flat[0])
    real, kept = constant.astype(np.float64) / step, held / step
    whole = np.rint(real)
    if np.abs(real - whole).max(initial=0.0) > _STEP_NOISE or np.abs(kept - whole).max(initial=0.0) < _STEP_NOISE:
        return None
    point = max(0, -int(whole.min()))
    if whole.max() + point > _UNSIGNED_STEPS:
        return None
    return (whole + point).astype(np.uint8), Uniform(ScalarType("u8"), ScalarType("f32"), step, point)
