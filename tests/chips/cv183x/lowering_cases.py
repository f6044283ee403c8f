"""TOP ops by themselves, on operands that 8 bits hold exactly; what their lowered forms may be off by."""

from __future__ import annotations

from tpuc.testing import uniform
from tpuc.testing.kernel_conformance import Fixed
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.div import Div
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.floor import Floor
from tpuc_ops.top.gelu import GELU
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.hard_swish import HardSwish
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.log import Log
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.min import Min
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.round import Round
from tpuc_ops.top.rsqrt import Rsqrt
from tpuc_ops.top.scale import Scale
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.top.tanh import Tanh

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
    "abs": LayerCase(Abs(), [X]),
    "ceil": LayerCase(Ceil(), [X], modes=("int8",)),
    "floor": LayerCase(Floor(), [X], modes=("int8",)),
    "round": LayerCase(Round(), [X], modes=("int8",)),
    "sigmoid": LayerCase(Sigmoid(), [X]),
    "silu": LayerCase(SiLU(), [X], error=CURVE),
    "tanh": LayerCase(Tanh(), [X]),
    "exp": LayerCase(Exp(), [X], error=CURVE),
    "elu": LayerCase(Elu(alpha=0.8), [X], error=CURVE),
    "hard_sigmoid": LayerCase(HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": LayerCase(HardSwish(), [X], error=CURVE),
    "leaky": LayerCase(LeakyRelu(alpha=0.1), [X]),
    "sqrt": LayerCase(Sqrt(), [POSITIVE]),
    "reciprocal": LayerCase(Reciprocal(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "gelu": LayerCase(GELU(), [X], error=CURVE),
    "log": LayerCase(Log(), [POSITIVE], error=CURVE),
    "clip": LayerCase(Clip(min=-1.0, max=2.0), [X]),
    "max_const": LayerCase(MaxConst(const_val=0.5), [X]),
    "min_const": LayerCase(MinConst(const_val=0.5), [X]),
    "relu": LayerCase(Relu(), [X], 1.5),  # the operand takes the result's range, and comes to it through bf16
    "prelu": LayerCase(PRelu(), [X, CHANNEL], 1.0),
    "prelu_one": LayerCase(PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": LayerCase(Add(), [X, Y], 0.6),
    "add_three": LayerCase(Add(), [X, Y, Y], 0.7, 2.0**-6),
    "add_channel": LayerCase(Add(do_relu=True), [X, CHANNEL], 1.0),
    "add_to_number": LayerCase(Add(), [NUMBER, X], 0.6),
    "sub_number": LayerCase(Sub(), [X, NUMBER], 0.6),
    "sub_from_channel": LayerCase(Sub(), [CHANNEL, X], 0.8),
    "sub_channel_reverse": LayerCase(Sub(is_reverse=True), [CHANNEL, X], 0.8),
    "sub": LayerCase(Sub(), [X, Y], 0.6),
    "sub_reverse": LayerCase(Sub(is_reverse=True), [X, Y], 0.6),
    "mul": LayerCase(Mul(), [X, Y], 0.51),
    "max": LayerCase(Max(), [X, Y], 0.51),
    "max_channel": LayerCase(Max(), [X, CHANNEL], 0.51),
    "min": LayerCase(Min(), [X, uniform(1, 70, 5, 6, low=0, high=3, seed=6)], 0.51),
    "rsqrt": LayerCase(Rsqrt(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "mul_number": LayerCase(Mul(), [NUMBER, X], 0.51),
    "mul_channel": LayerCase(Mul(), [X, CHANNEL], 1.0),
    "mul_gate": LayerCase(Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], 1.01),
    "div": LayerCase(Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)], 2.0, CURVE),
    "mul_const": LayerCase(MulConst(const_val=-0.7), [X]),
    "mul_const_relu": LayerCase(MulConst(const_val=0.7, do_relu=True), [X]),
    "add_const": LayerCase(AddConst(const_val=0.3), [X]),
    "sub_const": LayerCase(SubConst(const_val=0.3), [X]),
    "sub_from": LayerCase(SubConst(const_val=0.3, is_reverse=True), [X]),
    "softmax": LayerCase(Softmax(axis=1), [X]),
    "conv": LayerCase(Conv(**WINDOW), [X, Fixed(uniform(10, 70, 3, 3, seed=7)), None], 1.0),
    "depthwise": LayerCase(Conv(group=70, **WINDOW), [X, FILTER, BIAS], 1.0),
    "grouped": LayerCase(Conv(group=2, **WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 1.0),
    "far_pads": LayerCase(
        Conv(kernel_shape=(3, 3), pads=(17, 0, 3, 20), strides=(1, 1), dilations=(1, 1)),
        [uniform(1, 4, 5, 6), Fixed(uniform(8, 4, 3, 3, seed=7)), None],
        1.0,
    ),
    "far_dilations": LayerCase(
        Conv(kernel_shape=(3, 2), pads=(24, 8, 24, 9), strides=(1, 2), dilations=(24, 17)),
        [uniform(1, 4, 30, 33), Fixed(uniform(8, 4, 3, 2, seed=7)), None],
        1.0,
    ),
    "far_dilations_depthwise": LayerCase(
        Conv(kernel_shape=(3, 3), pads=(18, 18, 18, 18), strides=(1, 1), dilations=(18, 18), group=4),
        [uniform(1, 4, 20, 20), Fixed(uniform(4, 1, 3, 3, seed=7)), None],
        1.0,
    ),
    "far_strides": LayerCase(
        Conv(kernel_shape=(16, 16), pads=(0, 0, 0, 0), strides=(16, 16), dilations=(1, 1)),
        [uniform(1, 3, 64, 64), Fixed(uniform(8, 3, 16, 16, seed=7)), None],
        1.0,
    ),
    "far_strides_padded": LayerCase(
        Conv(kernel_shape=(9, 17), pads=(3, 1, 2, 0), strides=(16, 18), dilations=(1, 1), do_relu=True),
        [uniform(1, 3, 45, 71), Fixed(uniform(8, 3, 9, 17, seed=7)), None],
        1.4,
    ),
    "scale": LayerCase(Scale(), [X, Fixed(uniform(70, seed=8)), BIAS], 0.51),
    "scale_rows": LayerCase(Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 0.51),
    "matmul": LayerCase(MatMul(), [uniform(3, 40), Fixed(uniform(40, 20, seed=7)), Fixed(uniform(20, seed=8))], 1.0),
    "matmul_images": LayerCase(MatMul(), [uniform(2, 5, 7, 40), Fixed(uniform(40, 20, seed=7)), None], 1.0),
    "max_pool": LayerCase(MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "max_pool_ceil": LayerCase(MaxPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)]),
    "max_pool_far": LayerCase(MaxPool(kernel_shape=(19, 19), strides=(1, 1), pads=(16, 9, 9, 18)), [X]),
    "avg_pool": LayerCase(AvgPool(kernel_shape=(5, 6)), [X], 0.51),
    "avg_pool_padded": LayerCase(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=True), [X], 0.51),
    "avg_pool_inside": LayerCase(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), do_relu=True), [X], 1.5, CURVE),
    "avg_pool_ceil": LayerCase(
        AvgPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)], 1.5, CURVE
    ),
    "mean": LayerCase(Reduce(axes=(2, 3), mode="ReduceMean"), [X], 0.51),
    "largest": LayerCase(Reduce(axes=(2,), mode="ReduceMax"), [X]),
    "concat": LayerCase(Concat(axis=1), [X, Y], 0.51),
    "concat_relu": LayerCase(Concat(axis=3, do_relu=True), [X, Y], 0.51),
    **layer_cases.MOVES,
}
