"""Convolutions of floats, of integers into int32, and of quantized integers.

In functions of the first edition, whose names end in `_v2`, `pad` is up, down, left, right, with front and back first
for volumes; in the others it lists all before, then all after, as in TOP.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpuc_lang.filters import Filter, of_any, of_floats, of_integers, of_real_values
from tpuc_lang.graph import Scales, Tensor, ZeroPoints

# The first edition


def conv_v2(
    tensor_i: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Convolve `tensor_i: [n, ic, h, w]` with `weight: [oc, ic / group, kh, kw]`, plus `bias: [1, oc, 1, 1]`.

    Zero points, one number or one per input channel, are subtracted from integers first. The result is float if the
    input is, else int32, unless `out_dtype` states another type.
    """
    form = Filter.of("conv_v2", 2, stride, dilation, pad, group).of_first_edition()
    return of_any(form, tensor_i, weight, bias, input_zp, weight_zp, out_dtype, out_name)


def conv3d_v2(
    tensor_i: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `conv_v2`, over `[n, ic, t, h, w]`."""
    form = Filter.of("conv3d_v2", 3, stride, dilation, pad, group).of_first_edition()
    return of_any(form, tensor_i, weight, bias, input_zp, weight_zp, out_dtype, out_name)


def deconv_v2(
    tensor_i: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Transposed convolution with `weight: [oc / group, ic, kh, kw]`; `output_padding` adds rows and columns."""
    form = Filter.of("deconv_v2", 2, stride, dilation, pad, group).of_first_edition().as_transposed(output_padding)
    return of_any(form, tensor_i, weight, bias, input_zp, weight_zp, out_dtype, out_name)


def deconv3d_v2(
    tensor_i: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `deconv_v2`, over `[n, ic, t, h, w]`, with a constant weight."""
    form = Filter.of("deconv3d_v2", 3, stride, dilation, pad, group).of_first_edition().as_transposed(output_padding)
    return of_any(form, tensor_i, weight, bias, input_zp, weight_zp, out_dtype, out_name)


# Floats


def conv(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Convolve `input: [n, ic, h, w]` with `weight: [oc, ic / group, kh, kw]`, plus `bias: [1, oc, 1, 1]`."""
    return of_floats(Filter.of("conv", 2, stride, dilation, pad, group), input, weight, bias, out_dtype, out_name)


def conv3d(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `conv`, over `[n, ic, t, h, w]`."""
    return of_floats(Filter.of("conv3d", 3, stride, dilation, pad, group), input, weight, bias, out_dtype, out_name)


def deconv(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Transposed convolution with `weight: [oc / group, ic, kh, kw]`; `output_padding` adds rows and columns."""
    form = Filter.of("deconv", 2, stride, dilation, pad, group).as_transposed(output_padding)
    return of_floats(form, input, weight, bias, out_dtype, out_name)


def deconv3d(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `deconv`, over `[n, ic, t, h, w]`, with a constant weight."""
    form = Filter.of("deconv3d", 3, stride, dilation, pad, group).as_transposed(output_padding)
    return of_floats(form, input, weight, bias, out_dtype, out_name)


# Whole numbers


def conv_int(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Convolve integers after subtracting their zero points; returns the sums of products."""
    form = Filter.of("conv_int", 2, stride, dilation, pad, group)
    return of_integers(form, input, weight, bias, input_zp, weight_zp, out_dtype, out_name)


def conv3d_int(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `conv_int`, over `[n, ic, t, h, w]`."""
    form = Filter.of("conv3d_int", 3, stride, dilation, pad, group)
    return of_integers(form, input, weight, bias, input_zp, weight_zp, out_dtype, out_name)


def deconv_int(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `conv_int`, transposed."""
    form = Filter.of("deconv_int", 2, stride, dilation, pad, group).as_transposed(output_padding)
    return of_integers(form, input, weight, bias, input_zp, weight_zp, out_dtype, out_name)


# Integers that stand for real values


def conv_quant(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_scale: Scales | None = None,
    weight_scale: Scales | None = None,
    output_scale: Scales | None = None,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    output_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """Convolve the real values of quantized integers, in the result's scale; the bias is in steps of the sums."""
    form = Filter.of("conv_quant", 2, stride, dilation, pad, group)
    scales, points = (input_scale, weight_scale, output_scale), (input_zp, weight_zp, output_zp)
    return of_real_values(form, input, weight, bias, scales, points, out_dtype, out_name)


def conv3d_quant(
    input: Tensor,  # noqa: A002  # the interface's name
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    group: int = 1,
    input_scale: Scales | None = None,
    weight_scale: Scales | None = None,
    output_scale: Scales | None = None,
    input_zp: ZeroPoints | None = None,
    weight_zp: ZeroPoints | None = None,
    output_zp: ZeroPoints | None = None,
    out_dtype: str | None = None,
    out_name: str | None = None,
) -> Tensor:
    """As `conv_quant`, over `[n, ic, t, h, w]`."""
    form = Filter.of("conv3d_quant", 3, stride, dilation, pad, group)
    scales, points = (input_scale, weight_scale, output_scale), (input_zp, weight_zp, output_zp)
    return of_real_values(form, input, weight, bias, scales, points, out_dtype, out_name)
