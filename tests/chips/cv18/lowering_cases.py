"""TOP ops by themselves, on operands that 8 bits hold exactly; what their lowered forms may be off by."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed

from tests.chips import layer_cases
from tests.chips.layer_cases import CURVE, POSITIVE, LayerCase, X

Y = uniform(1, 70, 5, 6, low=-2, high=2, seed=1)
CHANNEL = Fixed(uniform(1, 70, 1, 1, seed=2))
NUMBER = Fixed(uniform(1, seed=3))
FILTER = Fixed(uniform(70, 1, 3, 3, seed=4))
BIAS = Fixed(uniform(70, seed=5))
WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)}

# 0.51 steps are one rounding; the bytes of constants and of the multipliers of sums add to it.
CASES = {
    "abs": LayerCase(top.Abs(), [X]),
    "ceil": LayerCase(top.Ceil(), [X], modes=("int8",)),
    "floor": LayerCase(top.Floor(), [X], modes=("int8",)),
    "round": LayerCase(top.Round(), [X], modes=("int8",)),
    "sigmoid": LayerCase(top.Sigmoid(), [X]),
    "silu": LayerCase(top.SiLU(), [X], error=CURVE),
    "tanh": LayerCase(top.Tanh(), [X]),
    "exp": LayerCase(top.Exp(), [X], error=CURVE),
    "elu": LayerCase(top.Elu(alpha=0.8), [X], error=CURVE),
    "hard_sigmoid": LayerCase(top.HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": LayerCase(top.HardSwish(), [X], error=CURVE),
    "leaky": LayerCase(top.LeakyRelu(alpha=0.1), [X]),
    "sqrt": LayerCase(top.Sqrt(), [POSITIVE]),
    "reciprocal": LayerCase(top.Reciprocal(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "gelu": LayerCase(top.GELU(), [X], error=CURVE),
    "log": LayerCase(top.Log(), [POSITIVE], error=CURVE),
    "clip": LayerCase(top.Clip(min=-1.0, max=2.0), [X]),
    "max_const": LayerCase(top.MaxConst(const_val=0.5), [X]),
    "min_const": LayerCase(top.MinConst(const_val=0.5), [X]),
    "relu": LayerCase(top.Relu(), [X], 1.5),  # the operand takes the result's range, and comes to it through bf16
    "prelu": LayerCase(top.PRelu(), [X, CHANNEL], 1.0),
    "prelu_one": LayerCase(top.PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": LayerCase(top.Add(), [X, Y], 0.6),
    "add_three": LayerCase(top.Add(), [X, Y, Y], 0.7, 2.0**-6),
    "add_channel": LayerCase(top.Add(do_relu=True), [X, CHANNEL], 1.0),
    "add_to_number": LayerCase(top.Add(), [NUMBER, X], 0.6),
    "sub_number": LayerCase(top.Sub(), [X, NUMBER], 0.6),
    "sub_from_channel": LayerCase(top.Sub(), [CHANNEL, X], 0.8),
    "sub_channel_reverse": LayerCase(top.Sub(is_reverse=True), [CHANNEL, X], 0.8),
    "sub": LayerCase(top.Sub(), [X, Y], 0.6),
    "sub_reverse": LayerCase(top.Sub(is_reverse=True), [X, Y], 0.6),
    "mul": LayerCase(top.Mul(), [X, Y], 0.51),
    "max": LayerCase(top.Max(), [X, Y], 0.51),
    "max_channel": LayerCase(top.Max(), [X, CHANNEL], 0.51),
    "min": LayerCase(top.Min(), [X, uniform(1, 70, 5, 6, low=0, high=3, seed=6)], 0.51),
    "rsqrt": LayerCase(top.Rsqrt(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "mul_number": LayerCase(top.Mul(), [NUMBER, X], 0.51),
    "mul_channel": LayerCase(top.Mul(), [X, CHANNEL], 1.0),
    "mul_gate": LayerCase(top.Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], 1.01),
    "div": LayerCase(top.Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)], 2.0, CURVE),
    "mul_const": LayerCase(top.MulConst(const_val=-0.7), [X]),
    "mul_const_relu": LayerCase(top.MulConst(const_val=0.7, do_relu=True), [X]),
    "add_const": LayerCase(top.AddConst(const_val=0.3), [X]),
    "sub_const": LayerCase(top.SubConst(const_val=0.3), [X]),
    "sub_from": LayerCase(top.SubConst(const_val=0.3, is_reverse=True), [X]),
    "softmax": LayerCase(top.Softmax(axis=1), [X]),
    "conv": LayerCase(top.Conv(**WINDOW), [X, Fixed(uniform(10, 70, 3, 3, seed=7)), None], 1.0),
    "depthwise": LayerCase(top.Conv(group=70, **WINDOW), [X, FILTER, BIAS], 1.0),
    "grouped": LayerCase(top.Conv(group=2, **WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 1.0),
    "far_pads": LayerCase(
        top.Conv(kernel_shape=(3, 3), pads=(17, 0, 3, 20), strides=(1, 1), dilations=(1, 1)),
        [uniform(1, 4, 5, 6), Fixed(uniform(8, 4, 3, 3, seed=7)), None],
        1.0,
    ),
    "far_dilations": LayerCase(
        top.Conv(kernel_shape=(3, 2), pads=(24, 8, 24, 9), strides=(1, 2), dilations=(24, 17)),
        [uniform(1, 4, 30, 33), Fixed(uniform(8, 4, 3, 2, seed=7)), None],
        1.0,
    ),
    "far_dilations_depthwise": LayerCase(
        top.Conv(kernel_shape=(3, 3), pads=(18, 18, 18, 18), strides=(1, 1), dilations=(18, 18), group=4),
        [uniform(1, 4, 20, 20), Fixed(uniform(4, 1, 3, 3, seed=7)), None],
        1.0,
    ),
    "far_strides": LayerCase(
        top.Conv(kernel_shape=(16, 16), pads=(0, 0, 0, 0), strides=(16, 16), dilations=(1, 1)),
        [uniform(1, 3, 64, 64), Fixed(uniform(8, 3, 16, 16, seed=7)), None],
        1.0,
    ),
    "far_strides_padded": LayerCase(
        top.Conv(kernel_shape=(9, 17), pads=(3, 1, 2, 0), strides=(16, 18), dilations=(1, 1), do_relu=True),
        [uniform(1, 3, 45, 71), Fixed(uniform(8, 3, 9, 17, seed=7)), None],
        1.4,
    ),
    "scale": LayerCase(top.Scale(), [X, Fixed(uniform(70, seed=8)), BIAS], 0.51),
    "scale_rows": LayerCase(top.Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 0.51),
    "matmul": LayerCase(
        top.MatMul(), [uniform(3, 40), Fixed(uniform(40, 20, seed=7)), Fixed(uniform(20, seed=8))], 1.0
    ),
    "matmul_images": LayerCase(top.MatMul(), [uniform(2, 5, 7, 40), Fixed(uniform(40, 20, seed=7)), None], 1.0),
    "max_pool": LayerCase(top.MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "max_pool_ceil": LayerCase(top.MaxPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)]),
    "max_pool_far": LayerCase(top.MaxPool(kernel_shape=(19, 19), strides=(1, 1), pads=(16, 9, 9, 18)), [X]),
    "avg_pool": LayerCase(top.AvgPool(kernel_shape=(5, 6)), [X], 0.51),
    "avg_pool_padded": LayerCase(
        top.AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=True), [X], 0.51
    ),
    "avg_pool_inside": LayerCase(top.AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), do_relu=True), [X], 1.5, CURVE),
    "avg_pool_ceil": LayerCase(
        top.AvgPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)], 1.5, CURVE
    ),
    "mean": LayerCase(top.Reduce(axes=(2, 3), mode="ReduceMean"), [X], 0.51),
    "largest": LayerCase(top.Reduce(axes=(2,), mode="ReduceMax"), [X]),
    "concat": LayerCase(top.Concat(axis=1), [X, Y], 0.51),
    "concat_relu": LayerCase(top.Concat(axis=3, do_relu=True), [X, Y], 0.51),
    **layer_cases.MOVES,
}
