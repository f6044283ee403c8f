"""TOP ops by themselves that every chip's lowering tests take in, most with attributes that networks rarely set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Op
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Operand


@dataclass(frozen=True, eq=False)
class LayerCase:
    """An op on float operands.

    `steps`: of the stored result that the integer form may be off in all; `error`: that of the bf16 form, as a part of
    the largest value; `result`: the result's dims where the op does not infer them; `modes`: those that have a form of
    the op, all if none is named.
    """

    op: Op
    operands: list[Operand]
    steps: float = 0.51
    error: float = 2.0**-7
    result: tuple[int, ...] | None = None
    modes: tuple[str, ...] = ()

    def has(self, mode: str) -> bool:
        """Is there a form of the op in the mode?"""
        return not self.modes or mode in self.modes


TWO_ROUNDINGS = 1.6
"""Steps of a rounding and an 8-bit multiplier, which is off by up to 1/128 of 127 steps."""
CURVE = 2.0**-6
"""Two units of the last place: a value and its slope by table, each rounded, and a product."""

_X = uniform(1, 70, 5, 6, low=-4, high=4)
_Y = uniform(1, 70, 5, 6, low=-2, high=2, seed=1)
_UNIT = uniform(1, 7, 5, 6, low=-0.95, high=0.95, seed=2)
_AT_LEAST_ONE = uniform(1, 7, 5, 6, low=1.25, high=4, seed=3)
_BOTH_SIGNS = _AT_LEAST_ONE * np.where(np.arange(6) % 2, np.float32(1), np.float32(-1))
_ABOVE_ZERO = uniform(1, 7, 4, 6, low=1, high=4, seed=12) * np.where(np.arange(6) % 2, np.float32(1), np.float32(-0.25))
_IMAGE = uniform(1, 5, 4, 6, seed=9)
_VOLUMES = uniform(2, 5, 4, 6, 7, low=-3, high=3, seed=13)
IN_STEPS = np.rint(_X * 32) / np.float32(32)  # which 8 bits hold, so that no rounding carries a value over an integer
IN_STEPS[0, 0, 0, 0] = -4

CASES = {
    "arccos": LayerCase(top.Arccos(), [_UNIT], error=CURVE),
    "arccosh": LayerCase(
        top.Arccosh(), [_AT_LEAST_ONE], 1.6, CURVE
    ),  # one step of an operand whose 255 came through bf16
    "arcsin": LayerCase(top.Arcsin(), [_UNIT], error=CURVE),
    "arcsinh": LayerCase(top.Arcsinh(), [_X], error=CURVE),
    "arctan": LayerCase(top.Arctan(), [_X], error=CURVE),
    "arctanh": LayerCase(top.Arctanh(), [_UNIT], error=CURVE),
    "ceil_all": LayerCase(top.Ceil(), [IN_STEPS]),
    "cosine": LayerCase(top.Cos(), [_X], error=CURVE),
    "cosh": LayerCase(top.Cosh(), [_UNIT], error=CURVE),
    "erf_all": LayerCase(top.Erf(), [_X], error=CURVE),
    "floor_all": LayerCase(top.Floor(), [IN_STEPS]),
    "mish_all": LayerCase(top.Mish(), [_X], error=CURVE),
    "round_all": LayerCase(top.Round(), [IN_STEPS]),
    "sign_all": LayerCase(top.Sign(), [_X]),
    "sine": LayerCase(top.Sin(), [_X / 4], error=CURVE),
    "sinh": LayerCase(top.Sinh(), [_UNIT], error=CURVE),
    "softplus_all": LayerCase(top.Softplus(), [_X], error=CURVE),
    "softsign_all": LayerCase(top.Softsign(), [_X], error=CURVE),
    "tan": LayerCase(top.Tan(), [_UNIT], error=CURVE),
    "gelu_by_tanh": LayerCase(top.GELU(approx_mode="tanh"), [_X], error=CURVE),
    "hard_sigmoid_steep": LayerCase(top.HardSigmoid(alpha=0.4, beta=0.3), [_X]),
    "sigmoid_logarithm": LayerCase(top.Sigmoid(log=True), [_X], error=CURVE),
    "square_of_both_signs": LayerCase(top.Pow(exponent=2.0), [_X], error=CURVE),
    "quantize": LayerCase(
        top.QuantizeLinear(y_scale=(0.25,), y_zero_point=(3,), to="UINT8"), [np.rint(_X * 4) / np.float32(4)], 1.1
    ),  # whole steps, which no rounding of the operand moves
    "dequantize": LayerCase(
        top.DequantizeLinear(x_scale=(0.125,), x_zero_point=(-2,), of="INT8"), [np.rint(_X * 8)], TWO_ROUNDINGS
    ),
    "reciprocal_of_two": LayerCase(top.Reciprocal(const_val=2.0), [_BOTH_SIGNS], error=CURVE),
    "relu_three": LayerCase(
        top.Relu(relu_limit=3.0), [_X], 1.6
    ),  # the operand takes the result's range, perhaps by bf16
    "add_const_relu": LayerCase(top.AddConst(const_val=0.3, do_relu=True), [_X], TWO_ROUNDINGS),
    "mul_relu": LayerCase(top.Mul(do_relu=True), [_X, _Y], TWO_ROUNDINGS + 1),
    "div_relu": LayerCase(top.Div(do_relu=True), [_X, _Y / 4 + 2], 2 * TWO_ROUNDINGS + 1, CURVE),
    "matmul_turned": LayerCase(
        top.MatMul(right_transpose=True, do_relu=True),
        [uniform(3, 40), Fixed(uniform(20, 40, seed=7)), Fixed(uniform(20, seed=8))],
        3,
    ),
    "average_above_zero": LayerCase(
        top.AvgPool(kernel_shape=(2, 2), strides=(2, 2)), [_ABOVE_ZERO], TWO_ROUNDINGS
    ),  # negative elements, and no negative average
    "max_volumes": LayerCase(
        top.MaxPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1)), [_VOLUMES]
    ),
    "max_volumes_ceil": LayerCase(
        top.MaxPool(kernel_shape=(3, 2, 2), strides=(2, 2, 2), pads=(1, 0, 0) * 2, ceil_mode=True, do_relu=True),
        [_VOLUMES],
    ),
    "average_volumes": LayerCase(
        top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1)), [_VOLUMES], 1.6, CURVE
    ),
    "average_volumes_counted": LayerCase(
        top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1), count_include_pad=True),
        [_VOLUMES],
        1.6,
        CURVE,
    ),
    "average_volumes_ceil": LayerCase(
        top.AvgPool(
            kernel_shape=(3, 2, 2), strides=(2, 2, 2), pads=(1, 0, 0) * 2, ceil_mode=True, count_include_pad=True
        ),
        [_VOLUMES],
        1.6,
        CURVE,
    ),
    "average_volumes_by_image": LayerCase(
        top.AvgPool(kernel_shape=(1, 2, 2), strides=(1, 2, 1), pads=(0,) * 6, do_relu=True), [_VOLUMES], TWO_ROUNDINGS
    ),
    "average_whole_volumes": LayerCase(
        top.AvgPool(kernel_shape=(4, 6, 7), strides=(1, 1, 1), pads=(0,) * 6), [_VOLUMES], TWO_ROUNDINGS
    ),
    "largest_apart": LayerCase(top.Reduce(axes=(3,), mode="ReduceMax", keepdims=False), [_X]),
    "reshape_to": LayerCase(top.Reshape(shape=(1, 35, 10, 6)), [_X]),
    "nearest_by_scale": LayerCase(
        top.Interp(mode="nearest", coord_mode="asymmetric", scale_h=2.0, scale_w=2.0), [_IMAGE], result=(1, 5, 8, 12)
    ),
    "group_norm_far_eps": LayerCase(
        top.GroupNorm(num_groups=7, eps=0.1), [_X, Fixed(uniform(70, seed=3)), None], 3, 2.0**-5
    ),
    "instance_norm_far_eps": LayerCase(
        top.InstanceNorm(eps=0.1), [_X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))], 3, 2.0**-5
    ),
    "rms_norm_far_eps": LayerCase(top.RMSNorm(eps=0.1), [_X, Fixed(uniform(6, seed=3))], 3, 2.0**-5),
}

X = uniform(1, 70, 5, 6, low=-4, high=4)
POSITIVE = uniform(1, 7, 5, 6, low=0.05, high=4)
MOVES = {
    "slice": LayerCase(top.Slice(offset=(0, 1, 0, -1), steps=(1, 2, 1, -1), ends=(1, 70, 4, -100)), [X]),
    "split": LayerCase(top.Split(axis=1, num=3, split_size=(20, 5, 45)), [X]),
    "pad": LayerCase(top.Pad(paddings=(0, 1, 2, 0, 0, 0, 1, 3), val=0.5), [X]),
    "upsample": LayerCase(top.Upsample(scale_h=2, scale_w=3, do_relu=True), [X]),
    "permute": LayerCase(top.Permute(order=(0, 2, 3, 1)), [X]),
    "flatten": LayerCase(top.Flatten(start_dim=1, end_dim=-1), [X]),
    "squeeze": LayerCase(top.Squeeze(axes=(0,)), [X]),
    "unsqueeze": LayerCase(top.Unsqueeze(axes=(2,)), [POSITIVE]),
    "to_space": LayerCase(
        top.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False), [uniform(1, 72, 5, 6)]
    ),
    "to_space_crd": LayerCase(
        top.Depth2Space(block_h=2, block_w=3, is_CRD=True, is_inversed=False), [uniform(1, 72, 5, 6)]
    ),
    "to_depth": LayerCase(top.Depth2Space(block_h=5, block_w=2, is_CRD=False, is_inversed=True), [X]),
}
"""Ops that only move data."""
