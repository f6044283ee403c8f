"""TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import F32, Module, Op, TensorType
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc.session import Session
from tpuc.session.compare import real_values
from tpuc.testing import uniform
from tpuc.testing.kernel_conformance import FLOAT_BOUNDS, Fixed, Operand, Sample, float_error, sample_module
from tpuc.testing.values import build_exposed
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.deconv import Deconv
from tpuc_ops.top.depth2space import Depth2Space
from tpuc_ops.top.div import Div
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.exp import Exp
from tpuc_ops.top.flatten import Flatten
from tpuc_ops.top.gelu import GELU
from tpuc_ops.top.group_norm import GroupNorm
from tpuc_ops.top.hard_sigmoid import HardSigmoid
from tpuc_ops.top.hard_swish import HardSwish
from tpuc_ops.top.instance_norm import InstanceNorm
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.layer_norm import LayerNorm
from tpuc_ops.top.leaky_relu import LeakyRelu
from tpuc_ops.top.log import Log
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.min import Min
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.mish import Mish
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.pow2 import Pow2
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.rms_norm import RMSNorm
from tpuc_ops.top.rsqrt import Rsqrt
from tpuc_ops.top.scale import Scale
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.silu import SiLU
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.slice import Slice
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.squeeze import Squeeze
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.top.tile import Tile
from tpuc_ops.top.unsqueeze import Unsqueeze
from tpuc_ops.top.upsample import Upsample
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold

from tests.chips import layer_cases

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """An op on float operands; `steps`: of the stored result that the integer form may be off in all.

    An operand that is exactly on its grid adds nothing: an 8-bit multiplier is off by up to 1/128 of 127 steps, each
    rounding by half a step.
    """

    op: Op
    operands: list[Operand]
    steps: float = 0.51
    result: tuple[int, ...] | None = None


X = uniform(1, 70, 5, 6, low=-4, high=4)
POSITIVE = uniform(1, 7, 5, 6, low=0.05, high=4)
Y = uniform(1, 70, 5, 6, low=-2, high=2, seed=1)
CHANNEL = Fixed(uniform(1, 70, 1, 1, seed=2))
NUMBER = Fixed(uniform(1, seed=3))
_FILTER = Fixed(uniform(70, 1, 3, 3, seed=4))
_BIAS = Fixed(uniform(70, seed=5))
_MULTIPLIER = 1.6  # a rounding and an 8-bit multiplier
_WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)}

CASES = {
    "abs": Case(Abs(), [X]),
    "sigmoid": Case(Sigmoid(), [X]),
    "silu": Case(SiLU(), [X]),
    "tanh": Case(Tanh(), [X]),
    "exp": Case(Exp(), [X]),
    "elu": Case(Elu(alpha=0.8), [X]),
    "hard_sigmoid": Case(HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": Case(HardSwish(), [X]),
    "leaky": Case(LeakyRelu(alpha=0.1), [X]),
    "sqrt": Case(Sqrt(), [POSITIVE]),
    "clip": Case(Clip(min=-1.0, max=2.0), [X]),
    "max_const": Case(MaxConst(const_val=0.5), [X]),
    "min_const": Case(MinConst(const_val=0.5), [X]),
    "relu": Case(Relu(), [X]),
    "prelu": Case(PRelu(), [X, CHANNEL], 2.6),
    "prelu_one": Case(PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": Case(Add(), [X, Y], 2 * _MULTIPLIER),
    "add_channel": Case(Add(do_relu=True), [X, CHANNEL], 2 * _MULTIPLIER + 1),
    "add_to_number": Case(Add(), [NUMBER, X], 2 * _MULTIPLIER + 1),
    "sub_number": Case(Sub(), [X, NUMBER], 2 * _MULTIPLIER + 1),
    "sub_from_channel": Case(Sub(), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "sub_channel_reverse": Case(Sub(is_reverse=True), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "mul_number": Case(Mul(), [NUMBER, X], _MULTIPLIER + 1),
    "sub": Case(Sub(), [X, Y], 2 * _MULTIPLIER),
    "sub_reverse": Case(Sub(is_reverse=True), [X, Y], 2 * _MULTIPLIER),
    "mul": Case(Mul(), [X, Y], _MULTIPLIER),
    "mul_channel": Case(Mul(), [X, CHANNEL], _MULTIPLIER + 1),
    "mul_gate": Case(Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], _MULTIPLIER),
    "div": Case(Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)]),
    "mul_const": Case(MulConst(const_val=-0.7), [X], _MULTIPLIER),
    "mul_const_relu": Case(MulConst(const_val=0.7, do_relu=True), [X], _MULTIPLIER),
    "add_const": Case(AddConst(const_val=0.3), [X], _MULTIPLIER),
    "add_far": Case(AddConst(const_val=3000.0), [X], _MULTIPLIER),
    "sub_const": Case(SubConst(const_val=0.3), [X], _MULTIPLIER),
    "sub_from": Case(SubConst(const_val=0.3, is_reverse=True), [X], _MULTIPLIER),
    "softmax": Case(Softmax(axis=1), [X]),
    "depthwise": Case(Conv(group=70, **_WINDOW), [X, _FILTER, _BIAS], 9 * 2),
    "grouped": Case(Conv(group=2, **_WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 5),
    "scale": Case(Scale(), [X, Fixed(uniform(70, seed=8)), _BIAS], 2),
    "scale_rows": Case(Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 2),
    "max_pool": Case(MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "avg_pool": Case(AvgPool(kernel_shape=(5, 6)), [X], _MULTIPLIER),
    "mean": Case(Reduce(axes=(2, 3), mode="ReduceMean"), [X]),
    "mean_apart": Case(Reduce(axes=(1, 3), mode="ReduceMean", keepdims=False), [X]),
    "sum": Case(Reduce(axes=(1,), mode="ReduceSum"), [X]),
    "max": Case(Reduce(axes=(1,), mode="ReduceMax"), [X]),
    "min": Case(Reduce(axes=(1,), mode="ReduceMin"), [X]),
    "l2": Case(Reduce(axes=(0, 3), mode="ReduceL2", keepdims=False), [X]),
    "concat": Case(Concat(axis=1), [X, Y], _MULTIPLIER),
    "concat_relu": Case(Concat(axis=3, do_relu=True), [X, Y], _MULTIPLIER),
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
EVERYTHING_IN_INTEGERS = {**PIPELINES, "lower": ("convert-top-to-tpu",)}
"""Without the pass that keeps the last ops of a network in floats."""

IMAGE = uniform(1, 5, 4, 6, seed=9)
_TURNED = Fixed(uniform(8, 5, 4, 4, seed=4))
_EIGHT = uniform(8, seed=5)
_LEFT, _RIGHT = uniform(2, 3, 7, 40, seed=4), uniform(2, 3, 40, 70, low=-1, high=2, seed=5)
CASES |= {
    "attention": Case(MatMul(), [_LEFT, _RIGHT, None], 12),
    "attention_turned": Case(
        MatMul(right_transpose=True, do_relu=True), [_LEFT, _RIGHT.swapaxes(2, 3).copy(), None], 12
    ),
    "matmul_computed": Case(MatMul(), [_LEFT, _RIGHT[0, 0], None], 12),
    "matmul_constants": Case(MatMul(), [_LEFT, Fixed(_RIGHT), Fixed(uniform(70, seed=6))], 12),
    "matmul_from_constant": Case(MatMul(), [Fixed(_LEFT), _RIGHT, None], 12),
    "log": Case(Log(), [POSITIVE]),
    "max_pool_ceil": Case(MaxPool(kernel_shape=(3, 2), strides=(2, 2), ceil_mode=True), [X]),
    "avg_pool_border": Case(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), [X]),
    "avg_pool_ceil": Case(
        AvgPool(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 0, 0, 1), ceil_mode=True, count_include_pad=True), [X]
    ),
    "deconv": Case(Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)), [IMAGE, _TURNED, Fixed(_EIGHT)], 12),
    "deconv_wide": Case(
        Deconv(
            kernel_shape=(3, 2),
            strides=(2, 1),
            pads=(1, 0, 1, 1),
            dilations=(1, 2),
            output_padding=(1, 0),
            do_relu=True,
        ),
        [IMAGE, Fixed(uniform(80, 5, 3, 2, seed=4)), None],
        12,
    ),
    "deconv_depthwise": Case(
        Deconv(kernel_shape=(2, 2), strides=(2, 2), group=5), [IMAGE, Fixed(uniform(1, 5, 2, 2, seed=4)), None], 3
    ),
    "deconv_grouped": Case(
        Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=5),
        [IMAGE, Fixed(uniform(3, 5, 3, 3, seed=4)), Fixed(uniform(15, seed=5))],
        5,
    ),
    "erf": Case(Erf(), [X]),
    "gelu": Case(GELU(), [X]),
    "gelu_tanh": Case(GELU(approx_mode="tanh"), [X]),
    "sin": Case(Sin(), [X / 4]),
    "cos": Case(Cos(), [X]),
    "softplus": Case(Softplus(), [X]),
    "softsign": Case(Softsign(), [X]),
    "mish": Case(Mish(), [X]),
    "sign": Case(Sign(), [X]),
    "log_sigmoid": Case(Sigmoid(log=True), [X]),
    "rsqrt": Case(Rsqrt(), [POSITIVE + 1]),
    "reciprocal": Case(Reciprocal(const_val=2.0), [POSITIVE + 1]),
    "square": Case(Pow(exponent=2.0), [X]),
    "cube": Case(Pow(exponent=3.0), [X]),
    "root": Case(Pow(exponent=0.5), [POSITIVE]),
    "inverse": Case(Pow(exponent=-1.0), [POSITIVE + 1]),
    "power": Case(Pow(exponent=1.7), [POSITIVE]),
    "of_two": Case(Pow2(const_val=2.0), [X]),
    "log_softmax": Case(Softmax(axis=1, log=True), [X]),
    "maximum": Case(Max(), [X, Y], _MULTIPLIER),
    "minimum_channel": Case(Min(), [X, CHANNEL], _MULTIPLIER),
    "minimum_three": Case(Min(), [X, Y, uniform(1, 70, 5, 1, seed=9)], _MULTIPLIER),
    "tile": Case(Tile(tile=(1, 2, 1, 3)), [X]),
    "tile_once": Case(Tile(tile=(1, 1, 1, 1)), [X]),
    "nearest": Case(Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 8, 18)),
    "nearest_half": Case(Interp(mode="nearest", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "nearest_odd": Case(Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 7, 4)),
    "linear": Case(Interp(mode="linear", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "linear_corners": Case(Interp(mode="linear", coord_mode="align_corners"), [IMAGE], result=(1, 5, 9, 6)),
    "layer_norm": Case(LayerNorm(axis=-1), [X, Fixed(uniform(6, seed=3)), Fixed(uniform(6, seed=4))]),
    "layer_norm_plain": Case(LayerNorm(axis=2), [X, None, None]),
    "rms_norm": Case(RMSNorm(), [X, Fixed(uniform(6, seed=3))]),
    "instance_norm": Case(InstanceNorm(), [X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))]),
    "group_norm": Case(GroupNorm(num_groups=7), [X, Fixed(uniform(70, seed=3)), None]),
}

CASES |= {name: Case(case.op, case.operands, case.steps, case.result) for name, case in layer_cases.CASES.items()}


def _on_grid(array: Array) -> Array:
    """Values that 8 bits hold exactly when the threshold is the greatest magnitude."""
    greatest = np.abs(array).max()
    steps = 255 if array.min() >= 0 else 128
    return (np.clip(np.rint(array / greatest * steps), -steps, steps if steps == 255 else 127) / steps).astype(
        np.float32
    ) * np.float32(greatest)


def whole_network() -> tuple[Module, dict[str, Array], CalibrationTable]:
    """All cases side by side, with their inputs and the ranges of all values."""
    samples = {
        name: Sample(
            case.op,
            [_on_grid(x) if isinstance(x, np.ndarray) else x for x in case.operands],
            None if case.result is None else TensorType(case.result, F32),
        )
        for name, case in CASES.items()
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    sources = [x for case in CASES.values() for x in case.operands]
    return module, inputs, _table(values, inputs, sources)


def _module(case: Case) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    """A TOP module of the op, its inputs and all its values."""
    operands = [_on_grid(x) if isinstance(x, np.ndarray) else x for x in case.operands]
    result = None if case.result is None else TensorType(case.result, F32)
    module, inputs = sample_module({"y": Sample(case.op, operands, result)}, Registry())
    return module, inputs, Interpreter(module).run(inputs, "all")


def _table(values: dict[str, Array], inputs: dict[str, Array], sources: list[Operand]) -> CalibrationTable:
    """Every value's own range; inputs have the threshold of their grid."""
    greatest = [float(np.abs(x).max()) for x in sources if isinstance(x, np.ndarray)]
    entries = {
        name: TensorThreshold(float(np.abs(array).max()), float(array.min()), float(array.max()))
        for name, array in values.items()
    }
    for name, threshold in zip(inputs, greatest, strict=True):
        low, high = float(inputs[name].min()), float(inputs[name].max())
        entries[name] = TensorThreshold(threshold, low, high)
    return CalibrationTable(entries)


def _check_file(session: Session, final: Module, data: bytes, inputs: dict[str, Array]) -> Array:
    """The simulator gives what the lowered module evaluates to; returns the result's value."""
    lowered = Interpreter(final).run(inputs, "all")
    for name, array in session.chip.load(data).run(inputs).items():
        wanted = lowered[name]
        if array.dtype.kind in "iu":
            assert np.array_equal(array.reshape(wanted.shape), wanted), name
        else:
            assert float_error(array.reshape(wanted.shape), wanted) <= FLOAT_BOUNDS[wanted.dtype.name], name
    return lowered["y"]


# Of the greatest magnitude: operands, constants and results are rounded to 24, 11 and 8 bits, and sums cancel.
FLOAT_MODES = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}


@pytest.mark.parametrize("mode", FLOAT_MODES)
@pytest.mark.parametrize("name", CASES)
def test_float_forms_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize=mode)
    final, data = build_exposed(session, module)
    result = _check_file(session, final, data, inputs)
    wanted = values["y"].reshape(result.shape)
    assert np.abs(result.astype(np.float32) - wanted).max() <= FLOAT_MODES[mode] * np.abs(wanted).max()


@pytest.mark.parametrize("name", CASES)
def test_asymmetric_forms_compute_the_op(name: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize="int8-asym", pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    result = _check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    spread = max(float(wanted.max()), 0.0) - min(float(wanted.min()), 0.0)
    assert np.abs(real_values(result, type_) - wanted).max() <= 0.03 * spread  # seven steps of 255


@pytest.mark.parametrize("name", CASES)
def test_integer_forms_stay_within_their_steps(name: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize="int8", pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    result = _check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    if not type_.is_quantised:
        assert float_error(result, wanted) <= 1e-6
        return
    low, high = type_.uniform.bounds
    ideal = np.clip(wanted / type_.uniform.scale + type_.uniform.zero_point, low, high)
    assert np.abs(result - ideal).max() <= case.steps
