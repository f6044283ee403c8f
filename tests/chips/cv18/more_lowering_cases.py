"""More TOP ops by themselves, in groups; what their lowered forms may be off by."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.registry import Registry
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed

from tests.chips import layer_cases
from tests.chips.cv18 import lowering_cases
from tests.chips.layer_cases import CURVE, LayerCase
from tests.chips.needed import needed

FILTERS = 6
"""Steps of sums of many products: each filter is off by up to half of 127ths."""
SHARES = 2.6
"""Steps of two products with shares, each rounded, that 127 steps hold."""

X = uniform(1, 70, 5, 6, low=-4, high=4)
IMAGE = uniform(1, 5, 4, 6, seed=9)
LINE = uniform(2, 12, 20, seed=10)


def _filter(*shape: int) -> Fixed:
    return Fixed(uniform(*shape, seed=7))


def _interp(mode: str, places: str, h: int, w: int, **more: Any) -> LayerCase:
    return LayerCase(top.Interp(mode=mode, coord_mode=places), [IMAGE], result=(1, 5, h, w), **more)


DECONVS = {
    "deconv": LayerCase(
        top.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)), [X, _filter(40, 70, 4, 4), None], FILTERS
    ),
    "deconv_bias_relu": LayerCase(
        top.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1), do_relu=True),
        [IMAGE, _filter(8, 5, 3, 3), Fixed(uniform(8, seed=8))],
        FILTERS,
    ),
    "deconv_depthwise": LayerCase(
        top.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=70),
        [X, _filter(1, 70, 4, 4), Fixed(uniform(70, seed=8))],
        FILTERS,
    ),
    "deconv_groups": LayerCase(
        top.Deconv(kernel_shape=(3, 3), strides=(2, 2), group=2), [X, _filter(3, 70, 3, 3), Fixed(uniform(6))], FILTERS
    ),
    "deconv_sparse": LayerCase(
        top.Deconv(kernel_shape=(2, 1), strides=(3, 2), output_padding=(1, 1)),
        [IMAGE, _filter(8, 5, 2, 1), None],
        FILTERS,
    ),
    "deconv_dilated": LayerCase(
        top.Deconv(kernel_shape=(3, 2), strides=(2, 2), dilations=(2, 3), pads=(1, 1, 1, 1), output_padding=(1, 1)),
        [IMAGE, _filter(8, 5, 3, 2), None],
        FILTERS,
    ),
    "deconv_far": LayerCase(
        top.Deconv(kernel_shape=(32, 20), strides=(16, 8), pads=(8, 6, 8, 6), do_relu=True),
        [IMAGE, _filter(6, 5, 32, 20), Fixed(uniform(6, seed=8))],
        FILTERS,
    ),
    "deconv_far_depthwise": LayerCase(
        top.Deconv(kernel_shape=(40, 3), strides=(20, 2), group=5, output_padding=(3, 1)),
        [IMAGE, _filter(1, 5, 40, 3), None],
        FILTERS,
    ),
    "deconv_line": LayerCase(
        top.Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 1), dilations=(1,)),
        [LINE, _filter(8, 12, 4), None],
        FILTERS,
    ),
}
LINES = {
    "conv_line": LayerCase(
        top.Conv(kernel_shape=(5,), strides=(2,), pads=(2, 2), dilations=(1,), do_relu=True),
        [LINE, _filter(30, 12, 5), Fixed(uniform(30, seed=8))],
        FILTERS,
    ),
    "conv_line_dilated": LayerCase(
        top.Conv(kernel_shape=(3,), strides=(1,), pads=(0, 4), dilations=(4,), group=12),
        [LINE, _filter(12, 1, 3), None],
        FILTERS,
    ),
    "max_pool_line": LayerCase(top.MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 1)), [LINE]),
    "avg_pool_line": LayerCase(top.AvgPool(kernel_shape=(4,), strides=(4,), pads=(0, 0)), [LINE], 1.6),
    "avg_pool_line_ceil": LayerCase(
        top.AvgPool(kernel_shape=(3,), strides=(2,), pads=(1, 1), ceil_mode=True), [LINE], 2.6, CURVE
    ),
}
SIZES = {
    "nearest_twice": _interp("nearest", "asymmetric", 8, 12),
    "nearest_between": _interp("nearest", "half_pixel", 7, 9, steps=SHARES),
    "nearest_smaller": _interp("nearest", "asymmetric", 2, 3, steps=SHARES),
    "linear_twice": _interp("linear", "half_pixel", 8, 12, steps=SHARES, error=CURVE),
    "linear_thrice": _interp("linear", "pytorch_half_pixel", 12, 18, steps=SHARES, error=CURVE),
    "linear_four_and_one": _interp("linear", "half_pixel", 16, 6, steps=SHARES, error=CURVE),
    "linear_asymmetric": _interp("linear", "asymmetric", 8, 18, steps=SHARES, error=CURVE),
    "linear_corners": _interp("linear", "align_corners", 8, 12, steps=SHARES, error=CURVE),
    "linear_between": _interp("linear", "half_pixel", 7, 9, steps=SHARES, error=CURVE),
    "linear_rows": _interp("linear", "half_pixel", 7, 6, steps=SHARES, error=CURVE),
    "linear_smaller": _interp("linear", "half_pixel", 2, 3, steps=SHARES, error=CURVE),
    "linear_same": _interp("linear", "half_pixel", 4, 6),
    "linear_far": _interp("linear", "half_pixel", 36, 54, steps=SHARES, error=CURVE),
    "tile": LayerCase(top.Tile(tile=(1, 2, 3, 1)), [IMAGE]),
    "tile_often": LayerCase(top.Tile(tile=(1, 1, 37, 1)), [IMAGE]),
    "pad_edge": LayerCase(top.Pad(paddings=(0, 0, 1, 2, 0, 0, 2, 1), mode="edge"), [IMAGE]),
    "pad_reflect": LayerCase(top.Pad(paddings=(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"), [IMAGE]),
}


MATRICES = {
    "product": LayerCase(top.MatMul(), [uniform(2, 3, 7, 16), uniform(2, 3, 16, 9, seed=1)], 1.1, CURVE),
    "product_turned": LayerCase(
        top.MatMul(right_transpose=True), [uniform(2, 7, 16), uniform(2, 9, 16, seed=1)], 1.1, CURVE
    ),
    "product_left_turned": LayerCase(
        top.MatMul(left_transpose=True), [uniform(2, 16, 7), uniform(2, 16, 9, seed=1)], 1.1, CURVE
    ),
    "product_of_matrices": LayerCase(top.MatMul(do_relu=True), [uniform(7, 40), uniform(40, 8, seed=1)], 1.1, CURVE),
    "product_awkward": LayerCase(top.MatMul(), [uniform(2, 19, 16), uniform(2, 16, 197, seed=1)], 1.1, CURVE),
    "product_awkward_turned": LayerCase(
        top.MatMul(right_transpose=True, output_transpose=True), [uniform(3, 16), uniform(131, 16, seed=1)], 1.1, CURVE
    ),
    "product_single_right": LayerCase(top.MatMul(), [uniform(2, 3, 7, 16), uniform(16, 8, seed=1)], 1.1, CURVE),
    "product_repeated": LayerCase(top.MatMul(), [uniform(4, 7, 16), uniform(2, 1, 16, 8, seed=1)], 1.1, CURVE),
    "product_constant_left": LayerCase(top.MatMul(), [Fixed(uniform(7, 16)), uniform(2, 16, 9, seed=1)]),
    "product_constant_batch": LayerCase(top.MatMul(), [uniform(2, 7, 16), Fixed(uniform(2, 16, 9, seed=1))]),
    "product_bias": LayerCase(
        top.MatMul(do_relu=True), [uniform(2, 7, 16), uniform(2, 16, 9, seed=1), Fixed(uniform(9, seed=2))]
    ),
    "product_unsigned": LayerCase(
        top.MatMul(), [uniform(2, 7, 16, low=0), uniform(2, 16, 9, low=0, high=2, seed=1)], 2, CURVE
    ),
    "product_constant_turned": LayerCase(
        top.MatMul(left_transpose=True), [uniform(16, 7), Fixed(uniform(16, 9, seed=1))]
    ),
}


NORM = 2.0**-5
"""Means, squares, roots and products, each rounded to 8 bits."""
TOKENS = uniform(2, 7, 48, low=-2, high=3, seed=11)
NORMS = {
    "layer_norm": LayerCase(
        top.LayerNorm(axis=-1, eps=1e-5), [TOKENS, Fixed(uniform(48, seed=3)), Fixed(uniform(48, seed=4))], 4, NORM
    ),
    "layer_norm_plain": LayerCase(top.LayerNorm(axis=1, eps=1e-5), [TOKENS, None, None], 4, NORM),
    "layer_norm_long": LayerCase(top.LayerNorm(axis=1, eps=1e-5), [uniform(1, 3000, seed=12), None, None], 4, NORM),
    "rms_norm": LayerCase(top.RMSNorm(eps=1e-5), [TOKENS, Fixed(uniform(48, seed=3))], 4, NORM),
    "instance_norm": LayerCase(
        top.InstanceNorm(eps=1e-5), [X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))], 4, NORM
    ),
    "group_norm": LayerCase(top.GroupNorm(num_groups=7, eps=1e-5), [X, Fixed(uniform(70, seed=3)), None], 4, NORM),
    "lrn": LayerCase(top.LRN(size=5, alpha=0.5, beta=0.75, bias=2.0), [X], 3, NORM),
    "lrn_even": LayerCase(top.LRN(size=4, alpha=0.5, beta=0.6, bias=1.0), [X], 3, NORM),
    "normalize": LayerCase(
        top.Normalize(channel_shared=False), [X, Fixed(uniform(70, low=1, high=3, seed=3))], 3, NORM
    ),
    "normalize_across": LayerCase(top.Normalize(across_spatial=True), [X, Fixed(np.full(1, 20, np.float32))], 3, NORM),
}
REDUCTIONS = {
    **{
        f"{mode.lower()}_{'_'.join(map(str, axes))}": LayerCase(
            top.Reduce(axes=axes, mode=f"Reduce{mode}", keepdims=bool(axes[0] % 2)), [X], 2.6, CURVE
        )
        for mode in ("Mean", "Max", "Sum", "Min", "L1", "L2")
        for axes in ((1,), (3,), (1, 3), (2, 3))
    },
    "mean_of_rows": LayerCase(top.Reduce(axes=(-1,), mode="ReduceMean"), [TOKENS], 2.6, CURVE),
    "mean_of_all": LayerCase(top.Reduce(axes=(0, 1, 2), mode="ReduceMax", keepdims=False), [TOKENS], 2.6, CURVE),
}
AROUND = (2.5 + np.arange(-4, 5, dtype=np.float32) / 64).reshape(1, 1, 3, 3)
"""What bf16 holds around 2.5249, which lies nearer to the number above."""
WHOLE = np.clip(np.rint(uniform(1, 7, 5, 6, low=-9, high=9, seed=13)), -8, 7)
OTHER = np.clip(np.rint(uniform(1, 7, 5, 6, low=-9, high=9, seed=14)), -8, 7)
"""Bytes of 1/16 hold both."""
FLOATS: Any = {"modes": ("bf16",)}
CHOICES = {
    **{
        f"compare_{mode.lower()}": LayerCase(top.Compare(mode=mode), [WHOLE, OTHER])
        for mode in (
            "Equal",
            "NotEqual",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "And",
            "Or",
            "Xor",
        )
    },
    "compare_number": LayerCase(top.CompareConst(mode="Less", const_val=2.0), [WHOLE]),
    "compare_number_inversed": LayerCase(
        top.CompareConst(mode="GreaterOrEqual", const_val=2.0, inversed=True), [WHOLE]
    ),
    **{
        f"compare_number_{mode.lower()}{'_inversed' if inversed else ''}": LayerCase(
            top.CompareConst(mode=mode, const_val=2.5249, inversed=inversed), [AROUND]
        )
        for mode in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
        for inversed in (False, True)
    },
    "where": LayerCase(top.Where(), [np.maximum(WHOLE, 0), OTHER, uniform(1, 7, 5, 6, seed=15)], 2),
    "where_mask": LayerCase(
        top.Where(x_is_const=True, x_const_val=-100.0), [Fixed((WHOLE > 0).astype(np.float32)), None, OTHER], 2
    ),
    "where_numbers": LayerCase(
        top.Where(x_is_const=True, x_const_val=-1.0, y_is_const=True, y_const_val=3.0),
        [np.maximum(WHOLE, 0), None, None],
        2,
    ),
    **{
        name: LayerCase(op, [np.concatenate([WHOLE + 0.5, OTHER + 0.25, OTHER * 50], 1)], **FLOATS)
        for name, op in {
            "round": top.Round(),
            "floor": top.Floor(),
            "ceil": top.Ceil(),
            "sign": top.Sign(),
            "to_integers": top.Cast(to="INT64"),
            "to_truth": top.Cast(to="BOOL"),
            "to_bytes": top.Cast(to="UINT8"),
            "to_signed_bytes": top.Cast(to="INT8"),
            "to_halves": top.Cast(to="BFLOAT16"),
        }.items()
    },
    **{
        f"cast_{to.lower()}": LayerCase(top.Cast(to=to), [layer_cases.IN_STEPS]) for to in ("INT64", "BOOL", "BFLOAT16")
    },
    "gather_runs": LayerCase(top.Gather(axis=1), [X, Fixed(np.array([[3, 4, 5], [9, 7, 5], [-1, 0, 0]], np.float32))]),
    "sums_so_far": LayerCase(top.CumSum(axis=1), [X / 4], 3, CURVE),
    "sums_behind": LayerCase(top.CumSum(axis=-1, exclusive=True, reverse=True), [X], 3, CURVE),
    "upper": LayerCase(top.Trilu(upper=1, diagonal=1), [X], 1.6),
    "lower": LayerCase(top.Trilu(upper=0), [uniform(7, 9)], 1.6),
    "gather_one": LayerCase(top.Gather(axis=2, keepdims=False), [X, Fixed(np.array(3, np.float32))]),
    "gather_rows": LayerCase(
        top.Gather(axis=0),
        [Fixed(uniform(40, 12, seed=3)), np.array([[3, 39, 0], [7, -1, 8]], np.float32)],
        0,
        **FLOATS,
    ),
    "gather_columns": LayerCase(
        top.Gather(axis=1), [Fixed(uniform(5, 9, 3, seed=4)), np.array([8, 0, -2], np.float32)], 0, **FLOATS
    ),
    "gather_both": LayerCase(top.Gather(axis=1), [uniform(5, 9, 3, seed=4), np.array([8, 0, -2], np.float32)]),
    "gather_nd": LayerCase(
        top.GatherND(), [uniform(5, 9, 3, seed=5), np.array([[4, 0], [1, -3]], np.float32)], result=(2, 3)
    ),
    "gather_nd_shared": LayerCase(
        top.GatherND(batch_dims=1), [uniform(2, 9, 3, seed=5), np.array([[[8], [0]], [[-1], [3]]], np.float32)]
    ),
    "gather_elements_of_many": LayerCase(
        top.GatherElements(axis=1),
        [uniform(2, 300, 3, seed=6), Fixed(np.array([[[299, 257, -1]], [[258, 0, 256]]], np.float32))],
    ),
    "gather_elements": LayerCase(
        top.GatherElements(axis=1), [uniform(2, 9, 3, seed=6), np.array([[[8, 0, -2]], [[1, 2, 3]]], np.float32)]
    ),
    "scatter_elements": LayerCase(
        top.ScatterElements(axis=1),
        [uniform(2, 9, 3, seed=6), np.array([[[8, 0, -2]], [[1, 2, 3]]], np.float32), uniform(2, 1, 3, seed=7)],
    ),
    "scatter_rows": LayerCase(
        top.ScatterND(), [uniform(5, 9, 3, seed=5), np.array([[4, 0], [1, -3]], np.float32), uniform(2, 3, seed=7)]
    ),
    "scatter_added": LayerCase(
        top.ScatterElements(axis=1, reduction="add"),
        [uniform(2, 9, 3, seed=6), np.array([[[8, 0, -2]], [[1, 2, 3]]], np.float32), uniform(2, 1, 3, seed=7)],
        1.6,
    ),
    "scatter_below": LayerCase(
        top.ScatterND("min"), [uniform(5, 9, seed=5), np.array([[4], [1], [-1]], np.float32), uniform(3, 9, seed=7)]
    ),
    "scatter_many": LayerCase(
        top.ScatterElements(axis=1),
        [
            uniform(2, 300, 3, seed=6),
            Fixed(np.array([[[299, 257, -1]], [[258, 0, 256]]], np.float32)),
            uniform(2, 1, 3, seed=7),
        ],
    ),
}


POSITIVE = uniform(1, 7, 5, 6, low=0.25, high=3, seed=16)
CURVES = {
    "cube": LayerCase(top.Pow(exponent=3.0), [X / 2], error=CURVE),
    "reciprocal_cube": LayerCase(top.Pow(exponent=-3.0), [POSITIVE], error=2 * CURVE),
    "power": LayerCase(top.Pow(exponent=1.7), [POSITIVE], 2.6, 2 * CURVE),
    "power_of_two": LayerCase(top.Pow2(const_val=2.0), [X], 3, 2 * CURVE),
    "powers": LayerCase(top.Pow3(), [POSITIVE, X[:, :7] / 2], 3, 4 * CURVE),
    "powers_of_numbers": LayerCase(top.Pow3(), [Fixed(POSITIVE), X[:, :7] / 2], 3, 2 * CURVE),
    "sigmoid_scaled": LayerCase(top.Sigmoid(scale=2.0, bias=0.5, log=True), [X], error=CURVE),
    "sigmoid_logarithm": LayerCase(top.Sigmoid(log=True), [X], error=CURVE),
    "sine": LayerCase(
        top.Sin(), [np.rint(X * 24) / np.float32(8)], 0, CURVE, modes=("bf16",)
    ),  # whole eighths are bf16
    "cosine": LayerCase(top.Cos(), [np.rint(X * 24) / np.float32(8)], 0, CURVE, modes=("bf16",)),
    "cosine_of_bytes": LayerCase(top.Cos(), [X], modes=("int8",)),
    "arctan": LayerCase(top.Arctan(), [X], modes=("int8",)),
    "add_weighted": LayerCase(top.Add(coeff=(2.0, -0.5)), [X, X[:, ::-1]], 3.2, CURVE),
    "sub_weighted": LayerCase(top.Sub(coeff=(0.25, 3.0), do_relu=True), [X, X[:, ::-1]], 4.2, CURVE),
    "concat_constant": LayerCase(top.Concat(axis=1, do_relu=True), [Fixed(uniform(1, 1, 5, 6, seed=17)), X], 1.6),
    "concat_token": LayerCase(
        top.Concat(axis=1, do_relu=True), [Fixed(uniform(1, 1, 48)), uniform(1, 7, 48), TOKENS[:1]], 1.6
    ),
    "softmax_logarithm": LayerCase(top.Softmax(axis=1, log=True), [X], 2, CURVE),
    "softmax_steep": LayerCase(top.Softmax(axis=-1, beta=2.0), [X], 3, 2 * CURVE),
    "softsign": LayerCase(top.Softsign(), [X], error=CURVE),
    "max_behind": LayerCase(top.Max(), [Fixed(np.zeros(1, np.float32)), X], 1.6),
}


def _gates(count: int) -> list[Fixed]:
    """Filter, recurrence and bias of a recurrent layer of 6 hidden values over 5 inputs."""
    rows = count * 6
    shapes = ((1, rows, 5), (1, rows, 6), (1, 2 * rows))
    return [Fixed(uniform(*shape, low=-0.5, high=0.5, seed=seed)) for seed, shape in enumerate(shapes, 21)]


COMPOSED = {
    "batch_norm": LayerCase(
        top.BatchNorm(do_relu=True),
        [
            X,
            *(uniform(70, seed=1), uniform(70, low=0.5, high=2, seed=2), uniform(70, seed=3)),
            Fixed(uniform(70, seed=4)),
        ],
        3,
        2 * CURVE,
    ),
    "einsum_attention": LayerCase(
        top.Einsum(mode="bhid,bhjd->bhij"), [uniform(2, 3, 7, 8), uniform(2, 3, 9, 8, seed=1)], 3
    ),
    "einsum_constant": LayerCase(
        top.Einsum(mode="abc,dcb->da"), [uniform(3, 4, 5), Fixed(uniform(6, 5, 4, seed=1))], 3
    ),
    "lstm": LayerCase(
        top.LSTM(hidden_size=6, batch_first=True), [LINE[:, :4, :5], *_gates(4), None, None], 3, 2 * CURVE
    ),
    "gru": LayerCase(
        top.GRU(hidden_size=6, linear_before_reset=True), [LINE[:, :4, :5], *_gates(3), None], 3, 2 * CURVE
    ),
    "rnn": LayerCase(top.RNN(hidden_size=6, activation="Relu"), [LINE[:, :4, :5], *_gates(1), None], 3, 2 * CURVE),
}
"""By legalizations, in bf16: sums of rounded products."""
_REGISTRY = Registry()
_CHIP = needed("cv183x").description
SHARED = {
    name: dataclasses.replace(
        case,
        modes=tuple(
            mode
            for mode in ("int8", "bf16")
            if _REGISTRY.lowering(_CHIP, type(case.op), mode) or _REGISTRY.legalization(_CHIP, type(case.op))
        ),
    )
    for name, case in layer_cases.CASES.items()
}
"""What every chip is asked for."""
LAYERS: Sequence[tuple[str, Mapping[str, LayerCase]]] = (
    ("basics", lowering_cases.CASES),
    ("deconvs", DECONVS),
    ("lines", LINES),
    ("sizes", SIZES),
    ("matrices", MATRICES),
    ("norms", NORMS),
    ("reductions", REDUCTIONS),
    ("choices", CHOICES),
    ("curves", CURVES),
    ("composed", COMPOSED),
    ("shared", SHARED),
)
