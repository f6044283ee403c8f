"""What kernels of chips with few lanes do that those of many lanes never do."""

from __future__ import annotations

from tpuc.api import BF16
from tpuc.testing import uniform
from tpuc.testing.kernel_conformance import Fixed, Sample
from tpuc_ops import tpu

from tests.chips.cv18.kernel_samples import I8, conv
from tests.chips.cv18.kernel_values import bias, byte_filter, half_filter, halves, stored_bytes


def _bias(columns: int) -> Fixed:
    return Fixed(uniform(1, columns, seed=2))


NONE = [None, None]
ROWS = {
    "row": Sample(tpu.MatMul(), [halves(1, 640), half_filter(640, 128), _bias(128), *NONE], BF16, [{"k": 7}, {"c": 2}]),
    "rows": Sample(
        tpu.MatMul(do_relu=True),
        [halves(3, 48), half_filter(48, 40), None, *NONE],
        BF16,
        [{"n": 2, "k": 4}],
    ),
    "row_of_primes": Sample(tpu.MatMul(), [halves(1, 37), half_filter(37, 41), _bias(41), *NONE], BF16),
    "row_of_classes": Sample(
        tpu.MatMul(do_relu=True, relu_limit=6.0), [halves(1, 160), half_filter(160, 1001), _bias(1001), *NONE], BF16
    ),
    "row_by_a_transposed_matrix": Sample(
        tpu.MatMul(right_transpose=True), [halves(1, 64), half_filter(24, 64), _bias(24), *NONE], BF16
    ),
}
"""Few rows of floats times a constant matrix: the chip's own product on two lanes, a convolution on eight."""
STRIDES = {
    "far": Sample(
        conv((16, 16), 12, 3, strides=(16, 31)),
        [stored_bytes(1, 3, 80, 140), byte_filter(12, 3, 16, 16), bias(12), None],
        I8,
    ),
    "far_halves": Sample(
        tpu.Conv2D(kernel_shape=(3, 20), strides=(17, 20)),
        [halves(1, 5, 60, 100), half_filter(9, 5, 3, 20), None, None],
        BF16,
    ),
    "far_maximum": Sample(
        tpu.Pool2D(kernel_shape=(5, 3), strides=(31, 16), pool_mode="Max"), [stored_bytes(1, 9, 70, 40)], I8
    ),
    "far_average": Sample(
        tpu.Pool2D(kernel_shape=(2, 2), strides=(16, 30), pool_mode="Avg"), [halves(1, 9, 40, 70)], BF16
    ),
}
"""Strides of more than 4 bits."""
