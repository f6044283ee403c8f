"""What kernels of chips with few lanes do that those of many lanes never do."""

from __future__ import annotations

from dataclasses import replace

from tpuc.api import BF16, F32
from tpuc_ops import tpu
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

from tests.chips.cv18.kernel_samples import I8, conv, scales_of_sums
from tests.chips.cv18.kernel_values import QDM, U8, bias, byte_filter, factors, half_filter, halves, stored_bytes


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
    "many_rows": Sample(
        tpu.MatMul(do_relu=True),
        [halves(2, 11, 96), half_filter(96, 72), _bias(72), *NONE],
        BF16,
        [{"n": 4, "k": 3}, {"n": 9}],
    ),
    "row_of_primes": Sample(tpu.MatMul(), [halves(1, 37), half_filter(37, 41), _bias(41), *NONE], BF16),
    "row_of_classes": Sample(
        tpu.MatMul(do_relu=True, relu_limit=6.0), [halves(1, 160), half_filter(160, 1001), _bias(1001), *NONE], BF16
    ),
    "row_by_a_transposed_matrix": Sample(
        tpu.MatMul(right_transpose=True), [halves(1, 64), half_filter(24, 64), _bias(24), *NONE], BF16
    ),
}
"""Rows of floats times a constant matrix: the chip's own product, or a convolution where that is faster."""


def _by_column(columns: int, terms: int) -> tpu.MatMul:
    """A product of integers whose columns have multipliers and shifts of their own."""
    found = factors(columns, terms)
    return tpu.MatMul(multipliers=found["multiplier"], rshifts=found["rshift"], **QDM)


BYTE_ROWS = {
    "row": Sample(
        _by_column(640, 128),
        [stored_bytes(1, 128), byte_filter(128, 640), bias(1, 640), *NONE],
        I8,
        [{"k": 3, "c": 6}, {"c": 10}],
    ),
    "row_of_unsigned": Sample(
        replace(_by_column(248, 704), do_relu=True, right_transpose=True),
        [stored_bytes(1, 704, dtype="uint8"), byte_filter(248, 704), bias(1, 248), *NONE],
        U8,
        [{"k": 5}],
    ),
    "row_of_classes": Sample(
        _by_column(1000, 640), [stored_bytes(1, 640), byte_filter(640, 1000), None, *NONE], I8, [{"k": 2}]
    ),
    "many_rows": Sample(
        tpu.MatMul(do_relu=True),
        [halves(2, 11, 96), half_filter(96, 72), _bias(72), *NONE],
        BF16,
        [{"n": 4, "k": 3}, {"n": 9}],
    ),
    "row_of_primes": Sample(
        replace(_by_column(401, 624), do_relu=True, relu_limit=3.0),
        [stored_bytes(1, 624), byte_filter(624, 401), bias(1, 401), *NONE],
        U8,
    ),
    "row_of_one_multiplier": Sample(
        tpu.MatMul(multipliers=(1 << 30,), rshifts=(9,), **QDM),
        [stored_bytes(1, 512), byte_filter(512, 96), bias(1, 96), *NONE],
        I8,
    ),
}
"""One row of integers, as above, with few columns on one lane, an odd number of them, and gaps behind them."""
FLOAT_ROWS = {
    "row_to_floats": Sample(
        tpu.MatMul(scales=scales_of_sums(640)),
        [stored_bytes(1, 128), byte_filter(128, 640), _bias(640), *NONE],
        F32,
        [{"k": 3, "c": 6}, {"c": 10}],
    ),
    "row_to_halves": Sample(
        tpu.MatMul(scales=scales_of_sums(248), do_relu=True, relu_limit=6.0, right_transpose=True),
        [stored_bytes(1, 704, dtype="uint8"), byte_filter(248, 704), _bias(248), *NONE],
        BF16,
        [{"k": 5}],
    ),
    "row_of_primes_to_floats": Sample(
        tpu.MatMul(scales=scales_of_sums(401)), [stored_bytes(1, 624), byte_filter(624, 401), None, *NONE], F32
    ),
}
"""One row of integers whose sums are wanted as floats."""
SEPARATE = {
    "rows": Sample(_by_column(640, 128), [stored_bytes(2, 128), byte_filter(128, 640), bias(1, 640), *NONE], I8),
    "untileable": Sample(_by_column(401, 620), [stored_bytes(1, 620), byte_filter(620, 401), bias(1, 401), *NONE], I8),
    "little": Sample(_by_column(40, 64), [stored_bytes(1, 64), byte_filter(64, 40), bias(1, 40), *NONE], I8),
}
"""What stays a convolution on few lanes."""
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
