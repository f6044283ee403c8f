"""Convolution and pooling. `pad` is up, down, left, right, as it always was here; TOP has top, left, bottom, right.
Over volumes front and back come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_lang.graph import FLOATS, LangError, Quantisation, Tensor, ZeroPoints, constant, floats_only, make_one

RESULT_DTYPES = ("int32", "uint32", "float32", "float16")
EXACT_BITS = 24
"""Whole numbers up to this size are exact in TOP, which computes in float32."""


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
    """`tensor_i: [n, ic, h, w]` with `weight: [oc, ic / group, kh, kw]`, plus `bias: [1, oc, 1, 1]`.

    Zero points are one number or one per input channel, and are taken off integers first. The result is float where
    the input is, else int32, unless `out_dtype` says otherwise.
    """
    where = "conv_v2"
    kernel = _images(where, tensor_i, weight)
    strides, holes, pads = _window(where, stride, dilation, pad)
    dtype = _result_dtype(where, tensor_i, out_dtype)
    channels, outputs = tensor_i.shape[1], weight.shape[0]
    if group < 1 or channels % group or outputs % group:
        raise LangError(f"{where}: {channels} input and {outputs} output channels do not divide into {group} groups.")
    if bias is not None and bias.shape not in ((outputs,), (1, outputs, 1, 1)):
        raise LangError(
            f"{where}: the bias is {list(bias.shape)}; {outputs} output channels need [1, {outputs}, 1, 1]."
        )
    _check_zero_points(where, "input_zp", tensor_i, input_zp, channels)
    _check_zero_points(where, "weight_zp", weight, weight_zp, channels)
    op = top.Conv(kernel_shape=kernel, strides=strides, pads=pads, group=group, dilations=holes)
    quantisation = None
    operands: list[Tensor | None] = [tensor_i, weight, bias]
    if tensor_i.is_integer or weight.is_integer:
        if not (tensor_i.is_integer and weight.is_integer):
            raise LangError(f"{where}: input and weight are {tensor_i.dtype} and {weight.dtype}; make both integers.")
        quantisation = _product_meaning(tensor_i, weight)
        weight = _weight_without_offset(where, weight, channels, group)
        _check_exact(where, tensor_i, weight)
        operands = [_without_offset(where, tensor_i), weight, bias]
    return make_one(where, op, operands, out_name, dtype=dtype, quantisation=quantisation)


conv = conv_v2


def deconv_v2(
    tensor_i: Tensor,
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
    """The transposed convolution: `weight: [oc / group, ic, kh, kw]`; `output_padding` adds rows and columns."""
    where = "deconv_v2"
    kernel = _images(where, tensor_i, weight)
    strides, holes, pads = _window(where, stride, dilation, pad)
    floats_only(where, tensor_i, weight, bias)
    op = top.Deconv(
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        group=group,
        dilations=holes,
        output_padding=None if output_padding is None else _numbers(where, "output_padding", output_padding, 2, 0),
    )
    return make_one(where, op, [tensor_i, weight, bias], out_name, dtype=_result_dtype(where, tensor_i, out_dtype))


deconv = deconv_v2


def maxpool(
    tensor_i: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """The largest element under each window. Integers keep their meaning."""
    where = "maxpool"
    strides, _, pads = _window(where, stride, None, pad)
    taps = _numbers(where, "kernel", kernel, 2, 1)
    op = top.MaxPool(kernel_shape=taps, strides=strides, pads=pads, ceil_mode=True if ceil_mode else None)
    meaning = tensor_i.quantisation
    return make_one(where, op, [tensor_i], out_name, dtype=tensor_i.dtype, quantisation=meaning)


maxpool2d = maxpool


def maxpool3d(
    tensor_i: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """The largest element under each window over `[n, c, d, h, w]`. Integers keep their meaning.

    `pad` is front, back, up, down, left, right.
    """
    where = "maxpool3d"
    if len(tensor_i.shape) != 5:
        raise LangError(f"{where}: the input has 5 dimensions, this one is {list(tensor_i.shape)}.")
    strides, _, pads = _window(where, stride, None, pad, 3)
    taps = _numbers(where, "kernel", kernel, 3, 1)
    op = top.MaxPool(kernel_shape=taps, strides=strides, pads=pads, ceil_mode=True if ceil_mode else None)
    meaning = tensor_i.quantisation
    return make_one(where, op, [tensor_i], out_name, dtype=tensor_i.dtype, quantisation=meaning)


def avgpool(
    tensor_i: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] | None = None,
    pad: Sequence[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    out_name: str | None = None,
) -> Tensor:
    """The mean under each window."""
    where = "avgpool"
    strides, _, pads = _window(where, stride, None, pad)
    op = top.AvgPool(
        kernel_shape=_numbers(where, "kernel", kernel, 2, 1),
        strides=strides,
        pads=pads,
        ceil_mode=True if ceil_mode else None,
        count_include_pad=count_include_pad,
    )
    return make_one(where, op, [tensor_i], out_name, dtype=floats_only(where, tensor_i))


avgpool2d = avgpool


# Arguments


def _images(where: str, x: Tensor, weight: Tensor) -> tuple[int, ...]:
    if not len(x.shape) == len(weight.shape) == 4:
        raise LangError(
            f"{where}: input and weight have 4 dimensions, these are {list(x.shape)} and {list(weight.shape)}."
        )
    return weight.shape[2:]


def _window(
    where: str,
    stride: Sequence[int] | None,
    dilation: Sequence[int] | None,
    pad: Sequence[int] | None,
    rank: int = 2,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides, dilations and pads as TOP has them; `rank`: dimensions of the kernel."""
    strides = (1,) * rank if stride is None else _numbers(where, "stride", stride, rank, 1)
    dilations = (1,) * rank if dilation is None else _numbers(where, "dilation", dilation, rank, 1)
    pads = (0,) * 2 * rank if pad is None else _numbers(where, "pad", pad, 2 * rank, 0)
    return strides, dilations, (*pads[::2], *pads[1::2])


def _numbers(where: str, label: str, values: Sequence[int], count: int, least: int) -> tuple[int, ...]:
    values = tuple(values)
    if len(values) != count:
        raise LangError(f"{where}: {label} has {len(values)} numbers; give {count}.")
    if min(values) < least:
        raise LangError(f"{where}: {label} is {list(values)}; its numbers are at least {least}.")
    return values


def _result_dtype(where: str, x: Tensor, wanted: str | None) -> str:
    if wanted is None:
        return x.dtype if x.dtype in FLOATS else "int32"
    if wanted not in RESULT_DTYPES:
        raise LangError(f"{where}: out_dtype is '{wanted}'; use one of {', '.join(RESULT_DTYPES)}.")
    if not x.is_integer and wanted not in FLOATS:
        raise LangError(
            f"{where}: out_dtype is {wanted} for a {x.dtype} input; use a float type, or quantise the input."
        )
    return wanted


# Integers


def _check_zero_points(where: str, label: str, tensor: Tensor, given: ZeroPoints | None, channels: int) -> None:
    if given is None:
        return
    if not isinstance(given, int) and len(given) != channels:
        raise LangError(f"{where}: {label} has {len(given)} numbers; give one, or {channels}, one per input channel.")
    tensor.set_quantisation(f"{where} ({label})", None, given)


def _without_offset(where: str, x: Tensor) -> Tensor:
    """The integers with their zero point taken off, so that padding with zeros means zero."""
    offsets = x.quantisation.zero_point
    if offsets is None or not any(offsets):
        return x
    if len(offsets) == 1:
        return make_one(where, top.AddConst(const_val=-float(*offsets)), [x], dtype="int32")
    return make_one(where, top.Sub(), [x, constant(np.array(offsets).reshape(1, -1, 1, 1))], dtype="int32")


def _weight_without_offset(where: str, weight: Tensor, channels: int, group: int) -> Tensor:
    offsets = weight.quantisation.zero_point
    if offsets is None or not any(offsets):
        return weight
    if weight.data is None or not weight.is_const:
        raise LangError(f"{where}: a weight with a zero point must be constant; give tensor '{weight.name}' data.")
    data = weight.data.astype(np.int64)
    if len(offsets) == 1:
        return constant(data - offsets[0])
    per_group = np.array(offsets).reshape(group, channels // group)  # of the input channels that each filter sees
    rows = np.repeat(per_group, len(data) // group, 0)
    return constant(data - rows[:, :, None, None])


def _check_exact(where: str, x: Tensor, weight: Tensor) -> None:
    if weight.data is None:
        raise LangError(f"{where}: the weight of integers must be constant; give tensor '{weight.name}' data.")
    limits, offsets = np.iinfo(x.dtype), x.quantisation.zero_point or (0,)
    largest = max(max(limits.max - one, one - limits.min) for one in offsets)
    rows: Array = np.abs(weight.data.astype(np.float64)).reshape(len(weight.data), -1).sum(1)
    if largest * float(rows.max()) > 2**EXACT_BITS:
        raise LangError(
            f"{where}: its sums may reach {largest * float(rows.max()):.0f}, beyond the {EXACT_BITS} bits that "
            "are exact here; use smaller weights, or dequantise both operands."
        )


def _product_meaning(x: Tensor, weight: Tensor) -> Quantisation:
    scales = x.quantisation.scale, weight.quantisation.scale
    match scales:
        case (None, _) | (_, None):
            return Quantisation(None, (0,))
        case ((one,), several):
            return Quantisation(tuple(one * other for other in several), (0,))
        case _:
            return Quantisation(None, (0,))
