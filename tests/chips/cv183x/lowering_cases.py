"""TOP ops by themselves, on operands that 8 bits hold exactly; what their lowered forms may be off by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, Module, Op, TensorType
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc.session import Session
from tpuc.testing import uniform
from tpuc.testing.kernel_conformance import Fixed, Operand, Sample, sample_module
from tpuc.testing.values import build_exposed
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.depth2space import Depth2Space
from tpuc_ops.top.div import Div
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.flatten import Flatten
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
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.round import Round
from tpuc_ops.top.rsqrt import Rsqrt
from tpuc_ops.top.scale import Scale
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.squeeze import Squeeze
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.top.unsqueeze import Unsqueeze
from tpuc_ops.top.upsample import Upsample
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold

from tests.chips import layer_cases

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """An op on float operands. `steps`: of the stored result that the integer form may be off in all; `error`: that of
    the bf16 form, as a part of the largest value.
    """

    op: Op
    operands: list[Operand]
    steps: float = 0.51
    error: float = 2.0**-7
    result: tuple[int, ...] | None = None


X = uniform(1, 70, 5, 6, low=-4, high=4)
POSITIVE = uniform(1, 7, 5, 6, low=0.05, high=4)
Y = uniform(1, 70, 5, 6, low=-2, high=2, seed=1)
CHANNEL = Fixed(uniform(1, 70, 1, 1, seed=2))
NUMBER = Fixed(uniform(1, seed=3))
FILTER = Fixed(uniform(70, 1, 3, 3, seed=4))
BIAS = Fixed(uniform(70, seed=5))
WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)}
CURVE = 2.0**-6
"""Two units of the last place: a value and its slope by table, each rounded, and a product."""

# 0.51 steps are one rounding; the bytes of constants and of the multipliers of sums add to it.
CASES = {
    "abs": Case(Abs(), [X]),
    "ceil": Case(Ceil(), [X]),
    "floor": Case(Floor(), [X]),
    "round": Case(Round(), [X]),
    "sigmoid": Case(Sigmoid(), [X]),
    "silu": Case(SiLU(), [X], error=CURVE),
    "tanh": Case(Tanh(), [X]),
    "exp": Case(Exp(), [X], error=CURVE),
    "elu": Case(Elu(alpha=0.8), [X], error=CURVE),
    "hard_sigmoid": Case(HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": Case(HardSwish(), [X], error=CURVE),
    "leaky": Case(LeakyRelu(alpha=0.1), [X]),
    "sqrt": Case(Sqrt(), [POSITIVE]),
    "reciprocal": Case(Reciprocal(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "gelu": Case(GELU(), [X], error=CURVE),
    "log": Case(Log(), [POSITIVE], error=CURVE),
    "clip": Case(Clip(min=-1.0, max=2.0), [X]),
    "max_const": Case(MaxConst(const_val=0.5), [X]),
    "min_const": Case(MinConst(const_val=0.5), [X]),
    "relu": Case(Relu(), [X], 1.5),  # the operand takes the result's range, and comes to it through bf16
    "prelu": Case(PRelu(), [X, CHANNEL], 1.0),
    "prelu_one": Case(PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": Case(Add(), [X, Y], 0.6),
    "add_three": Case(Add(), [X, Y, Y], 0.7, 2.0**-6),
    "add_channel": Case(Add(do_relu=True), [X, CHANNEL], 1.0),
    "add_to_number": Case(Add(), [NUMBER, X], 0.6),
    "sub_number": Case(Sub(), [X, NUMBER], 0.6),
    "sub_from_channel": Case(Sub(), [CHANNEL, X], 0.8),
    "sub_channel_reverse": Case(Sub(is_reverse=True), [CHANNEL, X], 0.8),
    "sub": Case(Sub(), [X, Y], 0.6),
    "sub_reverse": Case(Sub(is_reverse=True), [X, Y], 0.6),
    "mul": Case(Mul(), [X, Y], 0.51),
    "max": Case(Max(), [X, Y], 0.51),
    "max_channel": Case(Max(), [X, CHANNEL], 0.51),
    "min": Case(Min(), [X, uniform(1, 70, 5, 6, low=0, high=3, seed=6)], 0.51),
    "rsqrt": Case(Rsqrt(), [uniform(1, 7, 5, 6, low=0.5, high=4)]),
    "mul_number": Case(Mul(), [NUMBER, X], 0.51),
    "mul_channel": Case(Mul(), [X, CHANNEL], 1.0),
    "mul_gate": Case(Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], 1.01),
    "div": Case(Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)], 2.0, CURVE),
    "mul_const": Case(MulConst(const_val=-0.7), [X]),
    "mul_const_relu": Case(MulConst(const_val=0.7, do_relu=True), [X]),
    "add_const": Case(AddConst(const_val=0.3), [X]),
    "sub_const": Case(SubConst(const_val=0.3), [X]),
    "sub_from": Case(SubConst(const_val=0.3, is_reverse=True), [X]),
    "softmax": Case(Softmax(axis=1), [X]),
    "conv": Case(Conv(**WINDOW), [X, Fixed(uniform(10, 70, 3, 3, seed=7)), None], 1.0),
    "depthwise": Case(Conv(group=70, **WINDOW), [X, FILTER, BIAS], 1.0),
    "grouped": Case(Conv(group=2, **WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 1.0),
    "far_pads": Case(
        Conv(kernel_shape=(3, 3), pads=(17, 0, 3, 20), strides=(1, 1), dilations=(1, 1)),
        [uniform(1, 4, 5, 6), Fixed(uniform(8, 4, 3, 3, seed=7)), None],
        1.0,
    ),
    "far_strides": Case(
        Conv(kernel_shape=(16, 16), pads=(0, 0, 0, 0), strides=(16, 16), dilations=(1, 1)),
        [uniform(1, 3, 64, 64), Fixed(uniform(8, 3, 16, 16, seed=7)), None],
        1.0,
    ),
    "far_strides_padded": Case(
        Conv(kernel_shape=(9, 17), pads=(3, 1, 2, 0), strides=(16, 18), dilations=(1, 1), do_relu=True),
        [uniform(1, 3, 45, 71), Fixed(uniform(8, 3, 9, 17, seed=7)), None],
        1.4,
    ),
    "scale": Case(Scale(), [X, Fixed(uniform(70, seed=8)), BIAS], 0.51),
    "scale_rows": Case(Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 0.51),
    "matmul": Case(MatMul(), [uniform(3, 40), Fixed(uniform(40, 20, seed=7)), Fixed(uniform(20, seed=8))], 1.0),
    "matmul_images": Case(MatMul(), [uniform(2, 5, 7, 40), Fixed(uniform(40, 20, seed=7)), None], 1.0),
    "max_pool": Case(MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "max_pool_ceil": Case(MaxPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)]),
    "max_pool_far": Case(MaxPool(kernel_shape=(19, 19), strides=(1, 1), pads=(16, 9, 9, 18)), [X]),
    "avg_pool": Case(AvgPool(kernel_shape=(5, 6)), [X], 0.51),
    "avg_pool_padded": Case(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=True), [X], 0.51),
    "avg_pool_inside": Case(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1), do_relu=True), [X], 1.5, CURVE),
    "avg_pool_ceil": Case(
        AvgPool(kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True), [uniform(1, 4, 8, 6)], 1.5, CURVE
    ),
    "mean": Case(Reduce(axes=(2, 3), mode="ReduceMean"), [X], 0.51),
    "largest": Case(Reduce(axes=(2,), mode="ReduceMax"), [X]),
    "concat": Case(Concat(axis=1), [X, Y], 0.51),
    "concat_relu": Case(Concat(axis=3, do_relu=True), [X, Y], 0.51),
    "slice": Case(Slice(offset=(0, 1, 0, -1), steps=(1, 2, 1, -1), ends=(1, 70, 4, -100)), [X]),
    "pad": Case(Pad(paddings=(0, 1, 2, 0, 0, 0, 1, 3), val=0.5), [X]),
    "upsample": Case(Upsample(scale_h=2, scale_w=3, do_relu=True), [X]),
    "permute": Case(Permute(order=(0, 2, 3, 1)), [X]),
    "flatten": Case(Flatten(start_dim=1, end_dim=-1), [X]),
    "squeeze": Case(Squeeze(axes=(0,)), [X]),
    "unsqueeze": Case(Unsqueeze(axes=(2,)), [POSITIVE]),
    "to_space": Case(Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False), [uniform(1, 72, 5, 6)]),
    "to_space_crd": Case(Depth2Space(block_h=2, block_w=3, is_CRD=True, is_inversed=False), [uniform(1, 72, 5, 6)]),
    "to_depth": Case(Depth2Space(block_h=5, block_w=2, is_CRD=False, is_inversed=True), [X]),
}
CASES |= {
    name: Case(case.op, case.operands, case.steps, case.error, case.result) for name, case in layer_cases.CASES.items()
}
_TABLES_ONLY = ("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cosh", "sinh", "tan")
INTEGERS_ONLY = ("ceil", "floor", "round", *_TABLES_ONLY)
EVERYTHING_IN_INTEGERS = {**PIPELINES, "lower": ("convert-top-to-tpu",)}
"""Without the pass that keeps the last ops of a network in floats."""


def cases_of(mode: str) -> list[str]:
    """The cases that the mode has a form for."""
    return [name for name in CASES if mode == "int8" or name not in INTEGERS_ONLY]


@dataclass(frozen=True, eq=False)
class Compiled:
    """Cases in one file, all values visible: each case's result is called after it."""

    session: Session
    final: Module
    data: bytes
    inputs: Mapping[str, Array]
    floats: Mapping[str, Array]
    """What the float ops give."""


def compile_cases(names: Sequence[str], mode: str) -> Compiled:
    """One network of the cases side by side."""
    session = Session(chip="cv183x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS)
    steps = session.chip.description.symmetric_divisor
    samples = {
        name: Sample(
            CASES[name].op,
            [_on_grid(x, steps) if isinstance(x, np.ndarray) else x for x in CASES[name].operands],
            TensorType(dims, F32) if (dims := CASES[name].result) is not None else None,
        )
        for name in names
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    final, data = build_exposed(session, module, _table(values) if mode == "int8" else None)
    return Compiled(session, final, data, inputs, values)


def _on_grid(array: Array, signed_steps: int) -> Array:
    """Values that 8 bits hold exactly when the threshold is the greatest magnitude, which is one of them."""
    greatest = float(np.abs(array).max())
    steps = 255 if array.min() >= 0 else signed_steps
    stored = np.clip(np.rint(array / greatest * steps), -steps, steps if steps == 255 else steps - 1)
    stored.flat[0] = steps if steps == 255 else -steps
    return (stored / steps).astype(np.float32) * np.float32(greatest)


def _table(values: Mapping[str, Array]) -> CalibrationTable:
    """Every value's own range."""
    return CalibrationTable(
        {
            name: TensorThreshold(float(np.abs(array).max()), float(array.min()), float(array.max()))
            for name, array in values.items()
        }
    )


def check_case(name: str, compiled: Compiled, got: Mapping[str, Array]) -> None:
    """Assert that a case's result is as close to the float op's as it must be."""
    case, wanted = CASES[name], compiled.floats[name]
    type_ = next(o.result.tensor for o in compiled.final.main.operations if o.results and o.name == name)
    found = got[name]
    if found.dtype == np.uint16:
        found = found.view(ml_dtypes.bfloat16)
    found = found.reshape(wanted.shape).astype(np.float64)
    if not type_.is_quantised:
        assert np.abs(found - wanted).max() <= case.error * np.abs(wanted).max(), name
        return
    ideal = np.clip(wanted / type_.uniform.scale, *type_.uniform.bounds)
    assert np.abs(found - ideal).max() <= case.steps, name
