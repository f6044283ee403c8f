"""Fake quantization as exported by training tools: QONNX (Brevitas, FINN) and MQBench."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F32, ForeignNode, Op, ScalarType, Uniform, UniformPerAxis, Value
from tpuc_importing.operands import required_constant
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.linear import integer_range

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE
from tpuc_onnx.stored import StoredConstant

WIDEST = 8
"""Bits of the integers in which networks compute."""

_QONNX = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
_MQBENCH = ("", "MQBench_custom", "Sophgo_custom")
_PER_TENSOR = ("FakeQuantizeDSQPertensor", "FixedPerTensorAffine", "LearnablePerTensorAffine")
_PER_CHANNEL = (
    "FakeQuantizeDSQPerchannel",
    "FakeQuantizeLearnablePerchannelAffine",
    "FixedPerChannelAffine",
    "LearnablePerChannelAffine",
)
_NEAREST = ("HALF_EVEN", "ROUND")


def _keys(domains: Sequence[str], *operators: str) -> list[str]:
    return [f"{domain}::{name}" if domain else name for domain in domains for name in operators]


# What is rounded to


@dataclass(frozen=True, eq=False)
class Grid:
    """``(round(clip(x / scale + zero, low, high)) - zero) * scale``; scale and zero broadcast with the operand."""

    scale: Array
    zero: Array
    low: int
    high: int
    rounding: str

    @property
    def is_nearest(self) -> bool:
        """True for the rounding of QuantizeLinear."""
        return self.rounding in _NEAREST

    def integers(self, x: Array) -> Array:
        """Return the grid's integers for a constant."""
        return ROUNDINGS[self.rounding](np.clip(x.astype(np.float32) / self.scale + self.zero, self.low, self.high))

    def element(self, rank: int) -> Uniform | UniformPerAxis | None:
        """Return the quantized type of an operand; None if there is none."""
        scales, zeros = np.broadcast_arrays(self.scale, self.zero)
        storage, limits = ("u8", (0, 255)) if self.low >= 0 else ("i8", (-128, 127))
        if self.low < limits[0] or self.high > limits[1] or not _are_within(zeros, limits):
            return None
        low, high = (None if mine == full else mine for mine, full in zip((self.low, self.high), limits, strict=True))
        if scales.size == 1:
            number, zero = float(scales.reshape(())), int(zeros.reshape(()))
            return Uniform(ScalarType(storage), F32, number, zero, low, high)
        axes = [axis for axis, extent in enumerate(scales.shape) if extent > 1]
        if len(axes) > 1:
            return None
        numbers = tuple(map(float, scales.reshape(-1))), tuple(map(int, zeros.reshape(-1)))
        return UniformPerAxis(ScalarType(storage), F32, axes[0] + rank - scales.ndim, *numbers, low, high)


def _are_within(numbers: Array, limits: tuple[int, int]) -> bool:
    whole = np.rint(numbers)
    return bool(((numbers == whole) & (whole >= limits[0]) & (whole <= limits[1])).all())


def _sized(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Round magnitudes, and keep signs."""
    return lambda x: np.sign(x) * function(np.abs(x))


ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "CEIL": np.ceil,
    "DOWN": np.trunc,
    "FLOOR": np.floor,
    "HALF_DOWN": _sized(lambda x: np.ceil(x - 0.5)),
    "HALF_EVEN": np.rint,
    "HALF_UP": _sized(lambda x: np.floor(x + 0.5)),
    "ROUND": np.rint,
    "UP": _sized(np.ceil),
}
_PLAIN: Mapping[str, Op] = {"CEIL": top.Ceil(), "FLOOR": top.Floor(), "HALF_EVEN": top.Round(), "ROUND": top.Round()}
_SIZED: Mapping[str, tuple[float, Op]] = {
    "DOWN": (0.0, top.Floor()),
    "HALF_DOWN": (-0.5, top.Ceil()),
    "HALF_UP": (0.5, top.Floor()),
    "UP": (0.0, top.Ceil()),
}
"""Offset added to magnitudes, and the rounding of the sum, by mode."""


# Operators


@TABLE.imports(*_keys(_QONNX, "Quant", "IntQuant"))
def quant(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import Quant; the bounds follow from the number of bits, and one signed bit means -1 or 1."""
    bits, signed = _bits(node, build, 3), bool(node.attributes.get("signed", 1))
    scale, zero = _scale(node, build), required_constant(node, build, 2, "its zero point")
    if bits == 1 and signed:
        return _bipolar(node, build, scale)
    low, high = _bounds(bits, signed, bool(node.attributes.get("narrow", 0)))
    return _rounded_to(node, build, Grid(scale, zero, low, high, _rounding(node, build, "ROUND")))


@TABLE.imports(*_keys(_QONNX, "BipolarQuant"))
def bipolar_quant(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import BipolarQuant: the scale with the operand's sign; 0 counts as positive."""
    return _bipolar(node, build, _scale(node, build))


@TABLE.imports(*_keys(_QONNX, "Trunc"))
def trunc(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import Trunc: drop the lowest bits of integers. Since version 2 the result has its own scale and bounds."""
    scale, zero = _scale(node, build), required_constant(node, build, 2, "its zero point").astype(np.float32)
    x, name, rounding = build.value(node.inputs[0]), node.outputs[0], _rounding(node, build, "FLOOR")
    has_scale = len(node.inputs) > 5
    if has_scale:
        out_scale = required_constant(node, build, 4, "the scale of its result").astype(np.float32)
        step, out_zero = np.exp2(np.rint(np.log2(out_scale / scale))), zero
        out_zero = zero / step
    else:
        out_scale, out_zero = scale, zero
        step = np.float32(2.0 ** (_bits(node, build, 3) - _bits(node, build, 4)))
    whole = build.build(top.Round(), [_shifted(build, x, scale, zero, name)], f"{name}_whole")
    value = _with(build, top.Div(), whole, np.asarray(step, np.float32), f"{name}_divided")
    if has_scale:
        narrow = bool(node.attributes.get("narrow", 0))
        low, high = _bounds(_bits(node, build, 5), bool(node.attributes.get("signed", 1)), narrow)
        value = build.build(top.Clip(min=float(low), max=float(high)), [value], f"{name}_clipped")
    value = _rounded(build, value, rounding, name)
    return _back(build, value, out_scale, out_zero, name)


@TABLE.imports(*_keys(_MQBENCH, *_PER_TENSOR))
def per_tensor(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import a quantizer per tensor; bounds are attributes, or the last operands. Learned zero points are rounded."""
    low, high = _stated_bounds(node, build, 3)
    return _rounded_to(node, build, Grid(_single_scale(node, build), _whole_zero(node, build), low, high, "ROUND"))


@TABLE.imports(*_keys(_MQBENCH, "FakeQuantizeTqtAffine"))
def power_of_two(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import a quantizer whose scale is rounded up to a power of two, with zero point 0."""
    low, high = _stated_bounds(node, build, 3)
    scale = _single_scale(node, build)
    steps = np.exp2(-np.floor(np.log2(1 / scale))) if scale >= _SMALLEST_POWER else np.ones(1)
    return _rounded_to(node, build, Grid(steps.astype(np.float32), np.zeros(1), low, high, "ROUND"))


_SMALLEST_POWER = 2.0**-15
"""Smallest power-of-two scale; MQBench uses 1 for a smaller learned one."""


def _single_scale(node: ForeignNode, build: OnnxBuilder) -> Array:
    scale = _scale(node, build).reshape(-1)
    if scale.size > 1:
        raise build.refuse(node, f"it has {scale.size} scales; it needs one for the whole tensor")
    return scale


def _whole_zero(node: ForeignNode, build: OnnxBuilder) -> Array:
    return np.rint(required_constant(node, build, 2, "its zero point").reshape(-1))


@TABLE.imports(*_keys(_MQBENCH, *_PER_CHANNEL))
def per_channel(node: ForeignNode, build: OnnxBuilder) -> Value | Sequence[Value]:
    """Import a quantizer per channel; scales belong to the stated axis, or to the first or second dimension that
    they fit.
    """
    dims = build.shape(node.inputs[0])
    scale, zero = _scale(node, build).reshape(-1), _whole_zero(node, build)
    first = 4 if len(node.inputs) > 5 else 3
    low, high = _stated_bounds(node, build, first)
    if first == 4:
        axes = [int(required_constant(node, build, 3, "its axis").reshape(()))]
    else:
        axes = [node.attributes["ch_axis"]] if "ch_axis" in node.attributes else [0, 1]
    axis = next((axis for axis in axes if dims[axis : axis + 1] == (scale.size,)), None)
    if axis is None:
        raise build.refuse(node, f"it has {scale.size} scales, which do not fit the dimensions {dims}")
    shape = (-1, *(1,) * (len(dims) - axis - 1))
    return _rounded_to(node, build, Grid(scale.reshape(shape), zero.reshape(shape), low, high, "ROUND"))


# Their operands


def _scale(node: ForeignNode, build: OnnxBuilder) -> Array:
    scale = required_constant(node, build, 1, "its scale").astype(np.float32)
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise build.refuse(node, "one of its scales is not above 0: quantize the network again")
    return scale


def _bits(node: ForeignNode, build: OnnxBuilder, index: int) -> int:
    bits = float(required_constant(node, build, index, "its number of bits").reshape(()))
    if bits != int(bits) or not 1 <= bits <= 32:
        raise build.refuse(node, f"{bits:g} is not a number of bits from 1 to 32")
    return int(bits)


def _bounds(bits: int, signed: bool, narrow: bool) -> tuple[int, int]:
    if signed:
        return int(narrow) - (1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1 - int(narrow)


def _stated_bounds(node: ForeignNode, build: OnnxBuilder, index: int) -> tuple[int, int]:
    if "quant_min" in node.attributes and "quant_max" in node.attributes:
        return node.attributes["quant_min"], node.attributes["quant_max"]
    low, high = (required_constant(node, build, index + place, "its range of integers") for place in range(2))
    return int(low.reshape(())), int(high.reshape(()))


def _rounding(node: ForeignNode, build: OnnxBuilder, default: str) -> str:
    mode = str(node.attributes.get("rounding_mode", default)).upper()
    if mode not in ROUNDINGS:
        raise build.refuse(node, f"rounding mode '{mode}' is not supported; use {', '.join(sorted(ROUNDINGS))}")
    return mode


# What is built


def _rounded_to(node: ForeignNode, build: OnnxBuilder, grid: Grid) -> Value | Sequence[Value]:
    """Build casts to integers and back if a quantized type represents the grid, else the formula in floats."""
    constant, name = build.constant(node.inputs[0]), node.outputs[0]
    element = grid.element(len(build.shape(node.inputs[0])))
    if constant is not None:
        _note_constant(build, node, grid, constant, element)
        return ()
    x = build.value(node.inputs[0])
    if grid.is_nearest and grid.scale.size == grid.zero.size == 1 and (kind := _kind(grid)):
        return _casts(build, x, grid, kind, name)
    value = _shifted(build, x, grid.scale, grid.zero, name)
    value = build.build(top.Clip(min=float(grid.low), max=float(grid.high)), [value], f"{name}_clipped")
    return _back(build, _rounded(build, value, grid.rounding, name), grid.scale, grid.zero, name)


def _note_constant(
    build: OnnxBuilder, node: ForeignNode, grid: Grid, array: Array, element: Uniform | UniformPerAxis | None
) -> None:
    name, integers = node.outputs[0], grid.integers(array)
    build.types.constants[name] = ((integers - grid.zero) * grid.scale).astype(np.float32)
    if element is not None and array.size > 1:
        dtype = np.uint8 if element.storage.is_unsigned else np.int8
        build.stored[name] = StoredConstant(f"{name}_stored", integers.astype(dtype), element)


def _kind(grid: Grid) -> str:
    """Return the ONNX name of the narrowest integer type that holds a grid; empty if it does not contain the zero
    point.
    """
    sign = "" if grid.low < 0 else "U"
    for bits in (WIDEST, 16, 32):
        kind = f"{sign}INT{bits}"
        low, high = integer_range(kind)
        if low <= grid.low and grid.high <= high:
            return kind if _are_within(grid.zero, (low, high)) else ""
    return ""


def _casts(build: OnnxBuilder, x: Value, grid: Grid, kind: str, name: str) -> Value:
    """Build casts to integers and back; bounds narrower than the type clip the operand."""
    scale, zero = float(grid.scale.reshape(())), int(grid.zero.reshape(()))
    if (grid.low, grid.high) != integer_range(kind):
        limits = top.Clip(min=(grid.low - zero) * scale, max=(grid.high - zero) * scale)
        x = build.build(limits, [x], f"{name}_limited")
    stored = build.build(top.QuantizeLinear(y_scale=(scale,), y_zero_point=(zero,), to=kind), [x], f"{name}_stored")
    return build.build(top.DequantizeLinear(x_scale=(scale,), x_zero_point=(zero,), of=kind), [stored], name)


def _bipolar(node: ForeignNode, build: OnnxBuilder, scale: Array) -> Value | Sequence[Value]:
    constant, name = build.constant(node.inputs[0]), node.outputs[0]
    if constant is not None:
        build.types.constants[name] = np.where(constant >= 0, scale, -scale).astype(np.float32)
        return ()
    x = build.value(node.inputs[0])
    positive = build.build(top.CompareConst(mode="GreaterOrEqual", const_val=0.0), [x], f"{name}_positive")
    doubled = _with(build, top.Mul(), positive, 2 * scale, f"{name}_doubled")
    return _with(build, top.Sub(), doubled, scale, name)


def _shifted(build: OnnxBuilder, x: Value, scale: Array, zero: Array, name: str) -> Value:
    value = _with(build, top.Div(), x, scale, f"{name}_scaled")
    return _with(build, top.Add(), value, zero, f"{name}_shifted") if np.any(zero) else value


def _back(build: OnnxBuilder, value: Value, scale: Array, zero: Array, name: str) -> Value:
    if np.any(zero):
        value = _with(build, top.Sub(), value, zero, f"{name}_centered")
    return _with(build, top.Mul(), value, scale, name)


def _rounded(build: OnnxBuilder, value: Value, mode: str, name: str) -> Value:
    if mode in _PLAIN:
        return build.build(_PLAIN[mode], [value], f"{name}_rounded")
    shift, op = _SIZED[mode]
    sizes = build.build(top.Abs(), [value], f"{name}_sizes")
    if shift:
        sizes = build.build(top.AddConst(const_val=shift), [sizes], f"{name}_sizes_shifted")
    whole = build.build(op, [sizes], f"{name}_sizes_rounded")
    return build.build(top.Mul(), [whole, build.build(top.Sign(), [value], f"{name}_signs")], f"{name}_rounded")


def _with(build: OnnxBuilder, op: Op, value: Value, number: Array, name: str) -> Value:
    """Apply `op` to a value and numbers that broadcast with it."""
    array = np.asarray(number, np.float32)
    aligned = array.reshape((1,) * (value.tensor.rank - array.ndim) + array.shape)
    return build.build(op, [value, build.weight(f"{name}_number", aligned)], name)
