"""Code shared by convolutions: their arguments, and the treatment of floats, integers, and quantized integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Op
from tpuc_ops import top

from tpuc_lang.graph import LangError, Quantization, Scales, Tensor, ZeroPoints, constant, floats_only, make_one
from tpuc_lang.stored import EXACT_BITS, parameters, quantized, real, real_filter
from tpuc_lang.volumes import conv_volumes, transposed_volumes
from tpuc_lang.wide import reach
from tpuc_lang.windows import all_before, numbers, result_dtype

WHOLE = ("int32", "uint32")


@dataclass(frozen=True)
class Filter:
    """The arguments of a convolution besides its tensors: strides, dilations, pads (before, then after), and groups."""

    where: str
    rank: int
    strides: tuple[int, ...]
    holes: tuple[int, ...]
    pads: tuple[int, ...]
    group: int
    output_padding: tuple[int, ...] | None = None
    transposed: bool = False

    @staticmethod
    def of(
        where: str,
        rank: int,
        stride: Sequence[int] | None,
        dilation: Sequence[int] | None,
        pad: Sequence[int] | None,
        group: int,
    ) -> Filter:
        """Check and return the arguments; defaults: stride 1, no dilation, no padding."""
        return Filter(
            where,
            rank,
            numbers(where, "stride", stride, rank, 1, 1),
            numbers(where, "dilation", dilation, rank, 1, 1),
            numbers(where, "pad", pad, 2 * rank, 0, 0),
            group,
        )

    def of_first_edition(self) -> Filter:
        """As `of`, with pads given in pairs."""
        return dataclasses.replace(self, pads=all_before(self.pads))

    def as_transposed(self, output_padding: Sequence[int] | None) -> Filter:
        """Return the arguments of a transposed convolution with additional output padding."""
        extra = numbers(self.where, "output_padding", output_padding, self.rank, 0, 0)
        return dataclasses.replace(self, output_padding=extra if any(extra) else None, transposed=True)

    def check(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        """Raise LangError for shapes that do not fit."""
        dims = self.rank + 2
        if not len(x.shape) == len(weight.shape) == dims:
            raise LangError(
                f"{self.where}: input and weight have {dims} dimensions, these are {list(x.shape)} and "
                f"{list(weight.shape)}."
            )
        channels, outputs = x.shape[1], weight.shape[0] * (self.group if self.transposed else 1)
        if self.group < 1 or channels % self.group or outputs % self.group:
            raise LangError(
                f"{self.where}: {channels} input and {outputs} output channels do not divide into {self.group} groups."
            )
        wanted = (1, outputs, *(1,) * self.rank)
        if bias is not None and bias.shape not in ((outputs,), wanted):
            raise LangError(
                f"{self.where}: the bias is {list(bias.shape)}; {outputs} output channels need {list(wanted)}."
            )

    def build(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        name: str | None,
        dtype: str = "float32",
        meaning: Quantization | None = None,
    ) -> Tensor:
        """Build the convolution of the tensors' contents."""
        if self.rank > 2:
            of_volumes = transposed_volumes if self.transposed else conv_volumes
            return of_volumes(self, x, weight, bias, name, dtype, meaning)
        op = self._op(weight.shape[2:])
        return make_one(self.where, op, [x, weight, bias], name, dtype=dtype, quantization=meaning)

    def _op(self, kernel: tuple[int, ...]) -> Op:
        strides, pads, group, holes = self.strides, self.pads, self.group, self.holes
        if not self.transposed:
            return top.Conv(kernel_shape=kernel, strides=strides, pads=pads, group=group, dilations=holes)
        return top.Deconv(
            kernel_shape=kernel,
            strides=strides,
            pads=pads,
            group=group,
            dilations=holes,
            output_padding=self.output_padding,
        )


def of_any(
    form: Filter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    input_zp: ZeroPoints | None,
    weight_zp: ZeroPoints | None,
    out_dtype: str | None,
    out_name: str | None,
) -> Tensor:
    """Convolve floats, or integers into integers."""
    dtype = result_dtype(form.where, x, out_dtype)
    form.check(x, weight, bias)
    _note_zero_points(form.where, "input_zp", x, input_zp, x.shape[1])
    _note_zero_points(form.where, "weight_zp", weight, weight_zp, x.shape[1])
    if not (x.is_integer or weight.is_integer):
        return form.build(x, weight, bias, out_name, dtype)
    if not (x.is_integer and weight.is_integer):
        raise LangError(f"{form.where}: input and weight are {x.dtype} and {weight.dtype}; both must be integers.")
    meaning = product_meaning(x, weight)
    plain = weight_without_offset(form.where, weight, x.shape[1], form.group, form.transposed)
    _check_exact(form, x, plain)
    return form.build(without_offset(form.where, x), plain, bias, out_name, dtype, meaning)


def of_floats(
    form: Filter, x: Tensor, weight: Tensor, bias: Tensor | None, out_dtype: str | None, out_name: str | None
) -> Tensor:
    """Convolve floats of one type."""
    dtype = floats_only(form.where, x, weight)
    if out_dtype not in (None, dtype) or weight.dtype != dtype:
        raise LangError(f"{form.where}: input, weight and result have one float type; cast what has another one.")
    form.check(x, weight, bias)
    return form.build(x, weight, bias, out_name, dtype)


def of_integers(
    form: Filter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    input_zp: ZeroPoints | None,
    weight_zp: ZeroPoints | None,
    out_dtype: str | None,
    out_name: str | None,
) -> Tensor:
    """Convolve integers into integers."""
    if not (x.is_integer and weight.is_integer):
        raise LangError(f"{form.where}: input and weight are {x.dtype} and {weight.dtype}; both must be integers.")
    if out_dtype is not None and out_dtype not in WHOLE:
        raise LangError(f"{form.where}: out_dtype is '{out_dtype}'; use one of {', '.join(WHOLE)}.")
    return of_any(form, x, weight, bias, input_zp, weight_zp, out_dtype or "int32", out_name)


def of_real_values(
    form: Filter,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scales: tuple[Scales | None, Scales | None, Scales | None],
    points: tuple[ZeroPoints | None, ZeroPoints | None, ZeroPoints | None],
    out_dtype: str | None,
    out_name: str | None,
) -> Tensor:
    """Convolve the real values of quantized integers, in the result's scale."""
    where = form.where
    if scales[2] is None:
        raise LangError(f"{where}: output_scale is not given; state it.")
    if not weight.is_const or not (x.is_integer and weight.is_integer):
        raise LangError(f"{where}: the input must hold integers, the weight constant integers.")
    form.check(x, weight, bias)
    weight.set_quantization(where, scales[1], points[1])
    source, factors = real(where, x, scales[0], points[0]), real_filter(where, weight)
    steps = None if bias is None else real_bias(where, x, weight, bias)
    value = form.build(source, factors, steps, None)
    return quantized(where, value, parameters(where, scales[2], points[2]), out_dtype or "int8", out_name)


def real_bias(where: str, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the real values of a constant integer bias, which is in steps of the sums."""
    if bias.data is None or not bias.is_const:
        raise LangError(f"{where}: the bias must be constant; give tensor '{bias.name}' data.")
    steps = np.asarray(x.quantization.scale, np.float64) * np.asarray(weight.quantization.scale, np.float64)
    return constant(bias.data.reshape(-1).astype(np.float64) * steps)


# Zero points


def _note_zero_points(where: str, label: str, tensor: Tensor, given: ZeroPoints | None, channels: int) -> None:
    if given is None:
        return
    if not isinstance(given, int) and len(given) != channels:
        raise LangError(f"{where}: {label} has {len(given)} numbers; give one, or {channels}, one per input channel.")
    if not tensor.is_integer and not np.any(given):
        return
    tensor.set_quantization(f"{where} ({label})", None, given)


def without_offset(where: str, x: Tensor) -> Tensor:
    """Subtract the zero point from integers, so that zero padding represents 0."""
    offsets = x.quantization.zero_point
    if offsets is None or not any(offsets):
        return x
    if len(offsets) == 1:
        return make_one(where, top.AddConst(const_val=-float(*offsets)), [x], dtype="int32")
    shape = (1, -1, *(1,) * (len(x.shape) - 2))
    return make_one(where, top.Sub(), [x, constant(np.array(offsets).reshape(shape))], dtype="int32")


def weight_without_offset(where: str, weight: Tensor, channels: int, group: int, transposed: bool = False) -> Tensor:
    """Subtract the zero points, one per input channel, from a filter's constant integers."""
    offsets = weight.quantization.zero_point
    if offsets is None or not any(offsets):
        return weight
    if weight.data is None or not weight.is_const:
        raise LangError(f"{where}: a weight with a zero point must be constant; give tensor '{weight.name}' data.")
    data = weight.data.astype(np.int64)
    spatial = (1,) * (data.ndim - 2)
    if len(offsets) == 1:
        return constant(data - offsets[0])
    if transposed:
        return constant(data - np.array(offsets).reshape(1, -1, *spatial))
    per_group = np.array(offsets).reshape(group, channels // group)  # of the input channels that each filter sees
    rows = np.repeat(per_group, len(data) // group, 0)
    return constant(data - rows.reshape(*rows.shape, *spatial))


def _check_exact(form: Filter, x: Tensor, weight: Tensor) -> None:
    if weight.data is None:
        raise LangError(f"{form.where}: the weight of integers must be constant; give tensor '{weight.name}' data.")
    sizes = np.abs(weight.data.astype(np.float64))
    rows = sizes.reshape(len(sizes), sizes.shape[1], -1).sum(2)
    sums = rows.reshape(len(rows), form.group, -1).sum(2) if form.transposed else rows.sum(1)
    check_sums(form.where, x, float(sums.max()))


def check_sums(where: str, x: Tensor, factors: float) -> None:
    """Raise LangError if the sums of products with such factors may exceed what floats represent exactly."""
    offsets = x.quantization.zero_point or (0,)
    limits = np.iinfo(x.dtype)
    largest = reach(x) if not any(offsets) else max(max(limits.max - one, one - limits.min) for one in offsets)
    if largest * factors > 1 << EXACT_BITS:
        raise LangError(
            f"{where}: its sums may reach {largest * factors:.0f}, beyond the {EXACT_BITS} bits that are exact here; "
            "use smaller weights, or dequantize both operands."
        )


def product_meaning(x: Tensor, weight: Tensor) -> Quantization:
    """Return the quantization of sums of products."""
    match x.quantization.scale, weight.quantization.scale:
        case (None, _) | (_, None):
            return Quantization(None, (0,))
        case ((one,), several):
            return Quantization(tuple(one * other for other in several), (0,))
        case _:
            return Quantization(None, (0,))
