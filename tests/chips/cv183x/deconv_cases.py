"""Transposed convolutions: strides, padding, dilation, all that local memory cuts."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc_ops import tpu
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

from tests.chips.cv18.kernel_values import I8, U8, bias, byte_filter, factors, half_filter, halves, stored_bytes

DECONVS = {
    "deconv": Sample(
        tpu.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), **factors(40, 70 * 4)),
        [stored_bytes(2, 70, 5, 7), byte_filter(40, 70, 4, 4), bias(40)],
        I8,
        [{"k": 32}, {"k": 32, "c": 32, "h": 3}, {"n": 1, "h": 1, "w": 1}, {"h": 5, "w": 4}],
    ),
    "deconv_unsigned": Sample(
        tpu.Deconv(kernel_shape=(3, 5), strides=(3, 2), do_relu=True, relu_limit=5.0, **factors(8, 3 * 8)),
        [stored_bytes(1, 3, 6, 5, dtype="uint8"), byte_filter(8, 3, 3, 5), bias(8)],
        U8,
        [{"h": 2, "w": 3}],
    ),
    "deconv_output_padding": Sample(
        tpu.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1), **factors(33, 6)),
        [stored_bytes(1, 6, 6, 5), byte_filter(33, 6, 3, 3), None],
        I8,
        [{"h": 1}, {"h": 5, "c": 32}],
    ),
    "deconv_dilated": Sample(
        tpu.Deconv(kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 2, 1), dilations=(2, 3), **factors(8, 6 * 4)),
        [stored_bytes(1, 6, 6, 5), byte_filter(8, 6, 3, 2), bias(8)],
        I8,
        [{"h": 3, "w": 2}],
    ),
    "deconv_far": Sample(
        tpu.Deconv(kernel_shape=(16, 16), strides=(16, 8), **factors(5, 9)),
        [stored_bytes(1, 9, 3, 4), byte_filter(5, 9, 16, 16), bias(5)],
        I8,
        [{"h": 7, "w": 9}],
    ),
    "deconv_depthwise": Sample(
        tpu.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=70, **factors(70, 4)),
        [stored_bytes(1, 70, 5, 6), byte_filter(1, 70, 4, 4), bias(70)],
        I8,
        [{"c": 32, "h": 3}, {"w": 5, "h": 1}],
    ),
    "deconv_halves": Sample(
        tpu.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), do_relu=True, relu_limit=5.0),
        [halves(1, 40, 5, 7), half_filter(33, 40, 4, 4), Fixed(uniform(33))],
        BF16,
        [{"k": 32}, {"k": 32, "c": 32, "h": 3}],
    ),
    "deconv_halves_depthwise": Sample(
        tpu.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1), group=40),
        [halves(1, 40, 5, 7), half_filter(1, 40, 3, 3), Fixed(uniform(40))],
        BF16,
        [{"c": 32, "h": 4}],
    ),
}
