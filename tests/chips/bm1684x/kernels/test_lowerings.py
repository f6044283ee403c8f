"""TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op exactly."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.session import Session
from tpuc.session.compare import real_values
from tpuc.testing import uniform
from tpuc.testing.kernel_conformance import Fixed, Operand, float_error, sample_module
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
from tpuc_ops.top.div import Div
from tpuc_ops.top.elu import Elu
from tpuc_ops.top.erf import Erf
from tpuc_ops.top.exp import Exp
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
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.softplus import Softplus
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sqrt import Sqrt
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst
from tpuc_ops.top.tanh import Tanh
from tpuc_ops.top.tile import Tile
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold

from tests.chips import layer_cases
from tests.chips.bm1684x.kernels.lowered import check_file
from tests.chips.layer_cases import POSITIVE, LayerCase, X
from tests.chips.lowered import EVERYTHING_IN_INTEGERS, Array, own_ranges, path_of, sample_of
from tests.turns import in_turn

Y = uniform(1, 70, 5, 6, low=-2, high=2, seed=1)
CHANNEL = Fixed(uniform(1, 70, 1, 1, seed=2))
NUMBER = Fixed(uniform(1, seed=3))
_FILTER = Fixed(uniform(70, 1, 3, 3, seed=4))
_BIAS = Fixed(uniform(70, seed=5))
_MULTIPLIER = layer_cases.TWO_ROUNDINGS
_SUM = 0.5 + 1 / 16
"""Of two operands, rounded once: terms have five bits or more below a step, multipliers 15 bits."""
_WINDOW = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1)}

CASES = {
    "abs": LayerCase(Abs(), [X]),
    "sigmoid": LayerCase(Sigmoid(), [X]),
    "silu": LayerCase(SiLU(), [X]),
    "tanh": LayerCase(Tanh(), [X]),
    "exp": LayerCase(Exp(), [X]),
    "elu": LayerCase(Elu(alpha=0.8), [X]),
    "hard_sigmoid": LayerCase(HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": LayerCase(HardSwish(), [X]),
    "leaky": LayerCase(LeakyRelu(alpha=0.1), [X]),
    "sqrt": LayerCase(Sqrt(), [POSITIVE]),
    "clip": LayerCase(Clip(min=-1.0, max=2.0), [X]),
    "max_const": LayerCase(MaxConst(const_val=0.5), [X]),
    "min_const": LayerCase(MinConst(const_val=0.5), [X]),
    "relu": LayerCase(Relu(), [X]),
    "prelu": LayerCase(PRelu(), [X, CHANNEL], 2.6),
    "prelu_one": LayerCase(PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": LayerCase(Add(), [X, Y], _SUM),
    "add_channel": LayerCase(Add(do_relu=True), [X, CHANNEL], 2 * _MULTIPLIER + 1),
    "add_to_number": LayerCase(Add(), [NUMBER, X], 2 * _MULTIPLIER + 1),
    "sub_number": LayerCase(Sub(), [X, NUMBER], 2 * _MULTIPLIER + 1),
    "sub_from_channel": LayerCase(Sub(), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "sub_channel_reverse": LayerCase(Sub(is_reverse=True), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "mul_number": LayerCase(Mul(), [NUMBER, X], _MULTIPLIER + 1),
    "sub": LayerCase(Sub(), [X, Y], _SUM),
    "sub_reverse": LayerCase(Sub(is_reverse=True), [X, Y], _SUM),
    "mul": LayerCase(Mul(), [X, Y], _MULTIPLIER),
    "mul_channel": LayerCase(Mul(), [X, CHANNEL], _MULTIPLIER + 1),
    "mul_gate": LayerCase(Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], _MULTIPLIER),
    "div": LayerCase(Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)]),
    "mul_const": LayerCase(MulConst(const_val=-0.7), [X], _MULTIPLIER),
    "mul_const_relu": LayerCase(MulConst(const_val=0.7, do_relu=True), [X], _MULTIPLIER),
    "add_const": LayerCase(AddConst(const_val=0.3), [X], _MULTIPLIER),
    "add_far": LayerCase(AddConst(const_val=3000.0), [X], _MULTIPLIER),
    "sub_const": LayerCase(SubConst(const_val=0.3), [X], _MULTIPLIER),
    "sub_from": LayerCase(SubConst(const_val=0.3, is_reverse=True), [X], _MULTIPLIER),
    "softmax": LayerCase(Softmax(axis=1), [X]),
    "depthwise": LayerCase(Conv(group=70, **_WINDOW), [X, _FILTER, _BIAS], 9 * 2),
    "grouped": LayerCase(Conv(group=2, **_WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 5),
    "scale": LayerCase(Scale(), [X, Fixed(uniform(70, seed=8)), _BIAS], 2),
    "scale_rows": LayerCase(Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 2),
    "max_pool": LayerCase(MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "avg_pool": LayerCase(AvgPool(kernel_shape=(5, 6)), [X], _MULTIPLIER),
    "mean": LayerCase(Reduce(axes=(2, 3), mode="ReduceMean"), [X]),
    "mean_apart": LayerCase(Reduce(axes=(1, 3), mode="ReduceMean", keepdims=False), [X]),
    "sum": LayerCase(Reduce(axes=(1,), mode="ReduceSum"), [X]),
    "max": LayerCase(Reduce(axes=(1,), mode="ReduceMax"), [X]),
    "min": LayerCase(Reduce(axes=(1,), mode="ReduceMin"), [X]),
    "l2": LayerCase(Reduce(axes=(0, 3), mode="ReduceL2", keepdims=False), [X]),
    "concat": LayerCase(Concat(axis=1), [X, Y], _MULTIPLIER),
    "concat_relu": LayerCase(Concat(axis=3, do_relu=True), [X, Y], _MULTIPLIER),
    **layer_cases.MOVES,
}
IMAGE = uniform(1, 5, 4, 6, seed=9)
_TURNED = Fixed(uniform(8, 5, 4, 4, seed=4))
_EIGHT = uniform(8, seed=5)
_LEFT, _RIGHT = uniform(2, 3, 7, 40, seed=4), uniform(2, 3, 40, 70, low=-1, high=2, seed=5)
CASES |= {
    "attention": LayerCase(MatMul(), [_LEFT, _RIGHT, None], 12),
    "attention_turned": LayerCase(
        MatMul(right_transpose=True, do_relu=True), [_LEFT, _RIGHT.swapaxes(2, 3).copy(), None], 12
    ),
    "matmul_computed": LayerCase(MatMul(), [_LEFT, _RIGHT[0, 0], None], 12),
    "matmul_constants": LayerCase(MatMul(), [_LEFT, Fixed(_RIGHT), Fixed(uniform(70, seed=6))], 12),
    "matmul_from_constant": LayerCase(MatMul(), [Fixed(_LEFT), _RIGHT, None], 12),
    "log": LayerCase(Log(), [POSITIVE]),
    "max_pool_ceil": LayerCase(MaxPool(kernel_shape=(3, 2), strides=(2, 2), ceil_mode=True), [X]),
    "avg_pool_border": LayerCase(AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), [X]),
    "avg_pool_ceil": LayerCase(
        AvgPool(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 0, 0, 1), ceil_mode=True, count_include_pad=True), [X]
    ),
    "deconv": LayerCase(
        Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)), [IMAGE, _TURNED, Fixed(_EIGHT)], 12
    ),
    "deconv_wide": LayerCase(
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
    "deconv_depthwise": LayerCase(
        Deconv(kernel_shape=(2, 2), strides=(2, 2), group=5), [IMAGE, Fixed(uniform(1, 5, 2, 2, seed=4)), None], 3
    ),
    "deconv_grouped": LayerCase(
        Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=5),
        [IMAGE, Fixed(uniform(3, 5, 3, 3, seed=4)), Fixed(uniform(15, seed=5))],
        5,
    ),
    "erf": LayerCase(Erf(), [X]),
    "gelu": LayerCase(GELU(), [X]),
    "gelu_tanh": LayerCase(GELU(approx_mode="tanh"), [X]),
    "sin": LayerCase(Sin(), [X / 4]),
    "cos": LayerCase(Cos(), [X]),
    "softplus": LayerCase(Softplus(), [X]),
    "softsign": LayerCase(Softsign(), [X]),
    "mish": LayerCase(Mish(), [X]),
    "sign": LayerCase(Sign(), [X]),
    "log_sigmoid": LayerCase(Sigmoid(log=True), [X]),
    "rsqrt": LayerCase(Rsqrt(), [POSITIVE + 1]),
    "reciprocal": LayerCase(Reciprocal(const_val=2.0), [POSITIVE + 1]),
    "square": LayerCase(Pow(exponent=2.0), [X]),
    "cube": LayerCase(Pow(exponent=3.0), [X]),
    "root": LayerCase(Pow(exponent=0.5), [POSITIVE]),
    "inverse": LayerCase(Pow(exponent=-1.0), [POSITIVE + 1]),
    "power": LayerCase(Pow(exponent=1.7), [POSITIVE]),
    "of_two": LayerCase(Pow2(const_val=2.0), [X]),
    "log_softmax": LayerCase(Softmax(axis=1, log=True), [X]),
    "maximum": LayerCase(Max(), [X, Y], _MULTIPLIER),
    "minimum_channel": LayerCase(Min(), [X, CHANNEL], _MULTIPLIER),
    "minimum_three": LayerCase(Min(), [X, Y, uniform(1, 70, 5, 1, seed=9)], _MULTIPLIER),
    "tile": LayerCase(Tile(tile=(1, 2, 1, 3)), [X]),
    "tile_once": LayerCase(Tile(tile=(1, 1, 1, 1)), [X]),
    "nearest": LayerCase(Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 8, 18)),
    "nearest_half": LayerCase(Interp(mode="nearest", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "nearest_odd": LayerCase(Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 7, 4)),
    "linear": LayerCase(Interp(mode="linear", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "columns_alone": LayerCase(
        Interp(mode="linear", coord_mode="asymmetric", scale_h=1.0, scale_w=3.0), [IMAGE], result=(1, 5, 4, 18)
    ),
    "rows_alone": LayerCase(
        Interp(mode="linear", coord_mode="asymmetric", scale_h=2.5, scale_w=1.0), [IMAGE], result=(1, 5, 10, 6)
    ),
    "linear_corners": LayerCase(Interp(mode="linear", coord_mode="align_corners"), [IMAGE], result=(1, 5, 9, 6)),
    "layer_norm": LayerCase(LayerNorm(axis=-1), [X, Fixed(uniform(6, seed=3)), Fixed(uniform(6, seed=4))]),
    "layer_norm_plain": LayerCase(LayerNorm(axis=2), [X, None, None]),
    "rms_norm": LayerCase(RMSNorm(), [X, Fixed(uniform(6, seed=3))]),
    "instance_norm": LayerCase(InstanceNorm(), [X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))]),
    "group_norm": LayerCase(GroupNorm(num_groups=7), [X, Fixed(uniform(70, seed=3)), None]),
}

CASES |= layer_cases.CASES


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
        name: sample_of(case, [_on_grid(x) if isinstance(x, np.ndarray) else x for x in case.operands])
        for name, case in CASES.items()
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    sources = [x for case in CASES.values() for x in case.operands]
    return module, inputs, _table(values, inputs, sources)


def _module(case: LayerCase) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    """A TOP module of the op, its inputs and all its values."""
    sample = sample_of(case, [_on_grid(x) if isinstance(x, np.ndarray) else x for x in case.operands])
    module, inputs = sample_module({"y": sample}, Registry())
    return module, inputs, Interpreter(module).run(inputs, "all")


def _table(values: dict[str, Array], inputs: dict[str, Array], sources: list[Operand]) -> CalibrationTable:
    """Every value's own range; inputs have the threshold of their grid."""
    greatest = [float(np.abs(x).max()) for x in sources if isinstance(x, np.ndarray)]
    entries = dict(own_ranges(values).entries)
    for name, threshold in zip(inputs, greatest, strict=True):
        low, high = float(inputs[name].min()), float(inputs[name].max())
        entries[name] = TensorThreshold(threshold, low, high)
    return CalibrationTable(entries)


# Of the greatest magnitude: operands, constants and results are rounded to 24, 11 and 8 bits, and sums cancel.
FLOAT_MODES = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}


IN_SHORT_FLOATS = ("hard_swish",)
"""Computed in f16 and bf16 step by step: three roundings, where other kernels round what they have in f32."""


TURNS = in_turn(CASES, [*FLOAT_MODES, "int8-asym"], path_of)
"""Symmetric integers, which networks use most, are computed in every case."""


@pytest.mark.parametrize(("name", "mode"), [turn for turn in TURNS if turn.values[1] in FLOAT_MODES])
def test_float_forms_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize=mode)
    final, data = build_exposed(session, module)
    result = check_file(session, final, data, inputs, mode if name in IN_SHORT_FLOATS else "f32")
    wanted = values["y"].reshape(result.shape)
    assert np.abs(result.astype(np.float32) - wanted).max() <= FLOAT_MODES[mode] * np.abs(wanted).max()


@pytest.mark.parametrize(("name", "mode"), [turn for turn in TURNS if turn.values[1] not in FLOAT_MODES])
def test_asymmetric_forms_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    result = check_file(session, final, data, inputs)
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
    result = check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    if not type_.is_quantised:
        assert float_error(result, wanted) <= 1e-6
        return
    low, high = type_.uniform.bounds
    ideal = np.clip(wanted / type_.uniform.scale + type_.uniform.zero_point, low, high)
    assert np.abs(result - ideal).max() <= case.steps


def _has_constant_filters(case: LayerCase) -> bool:
    """One matrix for all rows counts too; several of them are computed with like other operands."""
    if not isinstance(case.op, (Conv, Deconv, MatMul)) or not isinstance(case.operands[1], Fixed):
        return False
    return not isinstance(case.op, MatMul) or case.operands[1].array.ndim == 2


PRODUCTS = [name for name, case in CASES.items() if _has_constant_filters(case)]


@pytest.mark.parametrize("name", PRODUCTS)
def test_integer_products_that_are_answers_give_their_sums(name: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize="int8")
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    products = [o for o in final.main.operations if o.op.name in ("tpu.Conv2D", "tpu.Deconv", "tpu.MatMul")]
    assert [o.result.tensor.storage.name for o in products] == ["i32"]
    result = check_file(session, final, data, inputs)
    wanted = values["y"].reshape(result.shape)
    # Operands lie on their grid; filters are off by up to 1/254 of the largest, which mostly cancels in sums.
    assert np.abs(result - wanted).max() <= 0.01 * np.abs(wanted).max()


@pytest.mark.parametrize("ratio", [1e-12, 1e-8, 1e-5, 0.3, 1.0, 100.0, 3e4])
def test_terms_of_sums_fit_16_bits_and_shifts_their_field(ratio: float) -> None:
    module, inputs = sample_module({"y": sample_of(LayerCase(Add(), [X, Y]), [X, Y * np.float32(ratio)])}, Registry())
    table = own_ranges(Interpreter(module).run(inputs, "all"))
    session = Session(chip="bm1684x", quantize="int8", pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, table)
    check_file(session, final, data, inputs)
    (total,) = [o for o in final.main.operations if o.op.name == "tpu.Add"]
    multipliers, shifts = total.op.multipliers, total.op.rshifts  # type: ignore[attr-defined]
    assert all(0 <= shift <= 30 for shift in shifts)
    largest = [255 if v.tensor.storage.is_unsigned else 128 for v in total.operands]
    terms = zip(multipliers, shifts, largest, strict=False)
    assert all(abs(multiplier) * most / 2**shift < 2**15 - 1 for multiplier, shift, most in terms)
