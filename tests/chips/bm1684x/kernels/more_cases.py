"""Cases of ops that are spelled in others, and of windows beyond the fields of the chip's commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Op
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Operand

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """An op; `share` of the greatest magnitude that integer modes may be off."""

    op: Op
    operands: list[Operand]
    share: float = 0.03
    result: tuple[int, ...] | None = None


def fixed(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> Fixed:
    return Fixed(uniform(*shape, low=low, high=high, seed=seed))


UNIT = uniform(1, 70, 5, 6, low=-0.95, high=0.95)
X = uniform(2, 10, 5, 6, low=-3, high=3)
ROW = uniform(2, 6, 40, seed=3)
IMAGE = uniform(1, 4, 40, 36, seed=4)

FUNCTIONS = {
    "arccos": Case(top.Arccos(), [UNIT]),
    "arccosh": Case(top.Arccosh(), [UNIT + 2]),
    "arcsin": Case(top.Arcsin(), [UNIT]),
    "arcsinh": Case(top.Arcsinh(), [X]),
    "arctan": Case(top.Arctan(), [X]),
    "arctanh": Case(top.Arctanh(), [UNIT * np.float32(0.8)]),
    "cosh": Case(top.Cosh(), [X]),
    "sinh": Case(top.Sinh(), [X]),
    "tan": Case(top.Tan(), [UNIT]),
}

NORMS = {
    "normalize": Case(top.Normalize(channel_shared=False), [X, fixed(10, seed=1)]),
    "normalize_samples": Case(top.Normalize(across_spatial=True), [X, fixed(1, seed=1, low=1, high=2)]),
    "normalize_rows": Case(top.Normalize(), [uniform(3, 70, 4), fixed(1, seed=1, low=1, high=2)]),
    "lrn": Case(top.LRN(size=5, alpha=0.1, beta=0.75, bias=1.0), [X]),
    "lrn_even": Case(top.LRN(size=4, alpha=0.5, beta=0.6, bias=2.0), [uniform(2, 9, 7)]),
    "batch_norm": Case(
        top.BatchNorm(do_relu=True),
        [X, uniform(10, seed=1), uniform(10, low=0.5, high=2, seed=2), uniform(10, seed=3), fixed(10, seed=4)],
    ),
}

WINDOWS = {
    "conv_row": Case(
        top.Conv(kernel_shape=(5,), strides=(2,), pads=(2, 1), dilations=(2,), group=2, do_relu=True),
        [ROW, fixed(8, 3, 5, seed=1), fixed(8, seed=2)],
        0.05,
    ),
    "conv_row_depthwise": Case(
        top.Conv(kernel_shape=(3,), strides=(1,), pads=(1, 1), dilations=(1,), group=6),
        [ROW, fixed(6, 1, 3, seed=1), None],
    ),
    "conv_far_dilation": Case(
        top.Conv(kernel_shape=(3, 2), strides=(1, 1), pads=(17, 0, 18, 3), dilations=(17, 20)),
        [IMAGE, fixed(5, 4, 3, 2, seed=1), fixed(5, seed=2)],
        0.05,
    ),
    "conv_far_stride": Case(
        top.Conv(kernel_shape=(3, 5), strides=(16, 2), pads=(1, 2, 1, 2), dilations=(1, 1), group=2),
        [IMAGE, fixed(6, 2, 3, 5, seed=1), None],
        0.05,
    ),
    "conv_far_pads": Case(
        top.Conv(kernel_shape=(20, 3), strides=(1, 1), pads=(16, 1, 19, 1), dilations=(1, 1), group=4),
        [IMAGE, fixed(4, 1, 20, 3, seed=1, low=0), fixed(4, seed=2)],
        0.06,
    ),
    "deconv_row": Case(
        top.Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 1), dilations=(1,), output_padding=(1,)),
        [ROW, fixed(5, 6, 4, seed=1), fixed(5, seed=2)],
        0.05,
    ),
    "max_pool_row": Case(top.MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 1)), [ROW]),
    "max_pool_far": Case(top.MaxPool(kernel_shape=(17, 2), strides=(17, 3)), [IMAGE]),
    "max_pool_padded": Case(top.MaxPool(kernel_shape=(20, 18), strides=(2, 3), pads=(16, 17, 0, 1)), [IMAGE]),
    "avg_pool_row": Case(top.AvgPool(kernel_shape=(4,), strides=(4,), pads=(0, 0)), [ROW]),
    "avg_pool_far": Case(top.AvgPool(kernel_shape=(16, 12), strides=(16, 18)), [IMAGE]),
    "avg_pool_padded": Case(top.AvgPool(kernel_shape=(20, 18), strides=(2, 3), pads=(16, 17, 0, 1)), [IMAGE], 0.04),
    "avg_pool_counted": Case(
        top.AvgPool(kernel_shape=(20, 18), strides=(2, 3), pads=(16, 17, 0, 1), count_include_pad=True), [IMAGE]
    ),
}

_SEQUENCE = uniform(9, 2, 20, seed=5)


def weights(gates: int, ways: int, hidden: int = 70, inputs: int = 20) -> list[Operand]:
    """Filter, recurrence and biases of a recurrent layer."""
    shapes = ((ways, gates * hidden, inputs), (ways, gates * hidden, hidden), (ways, 2 * gates * hidden))
    return [fixed(*shape, seed=seed, low=-0.3, high=0.3) for seed, shape in enumerate(shapes)]


RECURRENT = {
    "lstm": Case(
        top.LSTM(hidden_size=70, bidirectional=True),
        [_SEQUENCE, *weights(4, 2), uniform(2, 2, 70, seed=6), fixed(2, 2, 70, seed=7)],
    ),
    "lstm_batches": Case(
        top.LSTM(hidden_size=70, batch_first=True), [_SEQUENCE.swapaxes(0, 1).copy(), *weights(4, 1), None, None]
    ),
    "gru": Case(top.GRU(hidden_size=70), [_SEQUENCE, *weights(3, 1), uniform(1, 2, 70, seed=6)]),
    "gru_before": Case(
        top.GRU(hidden_size=70, linear_before_reset=True, bidirectional=True), [_SEQUENCE, *weights(3, 2), None]
    ),
    "rnn": Case(top.RNN(hidden_size=70, activation="Relu"), [_SEQUENCE, *weights(1, 1), None]),
}

_GRID = uniform(2, 4, 5, 2, low=-1.3, high=1.3, seed=8)
_REGIONS = np.array([[0, 1.2, 2.3, 9.7, 11.1], [1, -3, 0, 7, 7], [1, 4, 4, 4.5, 4.25]], np.float32)

SAMPLES = {
    "grid": Case(top.GridSampler(), [X, _GRID], 0.05),
    "grid_border": Case(top.GridSampler(padding_mode="border", align_corners=True), [X, _GRID], 0.05),
    "grid_reflected": Case(top.GridSampler(padding_mode="reflection"), [X, _GRID], 0.05),
    "grid_cubic": Case(top.GridSampler(mode="bicubic", padding_mode="reflection", align_corners=True), [X, _GRID], 0.1),
    "grid_cubic_zeros": Case(top.GridSampler(mode="bicubic"), [X, _GRID], 0.1),
    "grid_nearest": Case(top.GridSampler(mode="nearest"), [X, _GRID]),
    "grid_volume": Case(
        top.GridSampler(), [uniform(1, 3, 4, 5, 6), uniform(1, 2, 3, 4, 3, low=-1.2, high=1.2, seed=8)]
    ),
    "deformed": Case(
        top.DeformConv2D(
            kernel_shape=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1), group=2, deform_group=2, use_mask=True
        ),
        [
            X[:1],
            fixed(6, 5, 3, 2, seed=1),
            uniform(1, 24, 3, 6, low=-1.5, high=1.5, seed=8),
            uniform(1, 12, 3, 6, low=0, seed=9),
            fixed(6, seed=2),
        ],
        0.1,
    ),
    "regions": Case(
        top.RoiAlign(output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.5),
        [uniform(2, 5, 8, 9), _REGIONS],
    ),
    "regions_single": Case(
        top.RoiAlign(output_height=2, output_width=2, sampling_ratio=1, align_corners=False),
        [uniform(1, 70, 12, 13), _REGIONS[:1]],
    ),
}

SUMS = {
    "einsum_attention": Case(
        top.Einsum(mode="bhid,bhjd->bhij"), [uniform(2, 3, 7, 8), uniform(2, 3, 9, 8, seed=1)], 0.05
    ),
    "det": Case(top.Det(), [uniform(2, 3, 4, 4)], 0.1),
    "det_two": Case(top.Det(), [uniform(5, 2, 2)], 0.1),
    "einsum_outer": Case(top.Einsum(mode="i,j->ji"), [uniform(7), uniform(9, seed=1)]),
    "einsum_constant": Case(top.Einsum(mode="abc,dcb->da"), [uniform(3, 4, 5), fixed(6, 5, 4, seed=1)], 0.05),
    "einsum_three": Case(
        top.Einsum(mode="ij,jk,kl->il"), [uniform(3, 4), fixed(4, 5, seed=1), uniform(5, 6, seed=2)], 0.05
    ),
    "einsum_sum": Case(top.Einsum(mode="ijk->kj"), [uniform(3, 4, 5)]),
    "einsum_batches": Case(top.Einsum(mode="bij,bj->bi"), [uniform(3, 4, 5), uniform(3, 5, seed=1)], 0.05),
}

CASES: dict[str, Case] = {**FUNCTIONS, **NORMS, **WINDOWS, **RECURRENT, **SAMPLES, **SUMS}
assert all(np.isfinite(x).all() for case in CASES.values() for x in case.operands if isinstance(x, np.ndarray))
