"""TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op exactly."""

from __future__ import annotations

import numpy as np
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Operand, float_error, sample_module
from tpuc_testing.values import build_exposed

from tests.chips import layer_cases
from tests.chips.bm1684x.kernels.lowered import check_file
from tests.chips.layer_cases import POSITIVE, LayerCase, X
from tests.chips.lowered import EVERYTHING_IN_INTEGERS, Array, own_ranges, path_of, sample_of
from tests.families import each
from tests.turns import due, few_pairs, in_turn, one_of_each

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
    "abs": LayerCase(top.Abs(), [X]),
    "sigmoid": LayerCase(top.Sigmoid(), [X]),
    "silu": LayerCase(top.SiLU(), [X]),
    "tanh": LayerCase(top.Tanh(), [X]),
    "exp": LayerCase(top.Exp(), [X]),
    "elu": LayerCase(top.Elu(alpha=0.8), [X]),
    "hard_sigmoid": LayerCase(top.HardSigmoid(alpha=0.2, beta=0.5), [X]),
    "hard_swish": LayerCase(top.HardSwish(), [X]),
    "leaky": LayerCase(top.LeakyRelu(alpha=0.1), [X]),
    "sqrt": LayerCase(top.Sqrt(), [POSITIVE]),
    "clip": LayerCase(top.Clip(min=-1.0, max=2.0), [X]),
    "max_behind": LayerCase(top.Max(), [Fixed(np.zeros(1, np.float32)), X], 1.6),
    "max_const": LayerCase(top.MaxConst(const_val=0.5), [X]),
    "min_const": LayerCase(top.MinConst(const_val=0.5), [X]),
    "relu": LayerCase(top.Relu(), [X]),
    "prelu": LayerCase(top.PRelu(), [X, CHANNEL], 2.6),
    "prelu_one": LayerCase(top.PRelu(), [X, Fixed(uniform(1, 1, 1, seed=8))]),
    "add": LayerCase(top.Add(), [X, Y], _SUM),
    "add_channel": LayerCase(top.Add(do_relu=True), [X, CHANNEL], 2 * _MULTIPLIER + 1),
    "add_to_number": LayerCase(top.Add(), [NUMBER, X], 2 * _MULTIPLIER + 1),
    "sub_number": LayerCase(top.Sub(), [X, NUMBER], 2 * _MULTIPLIER + 1),
    "sub_from_channel": LayerCase(top.Sub(), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "sub_channel_reverse": LayerCase(top.Sub(is_reverse=True), [CHANNEL, X], 2 * _MULTIPLIER + 1),
    "mul_number": LayerCase(top.Mul(), [NUMBER, X], _MULTIPLIER + 1),
    "sub": LayerCase(top.Sub(), [X, Y], _SUM),
    "sub_reverse": LayerCase(top.Sub(is_reverse=True), [X, Y], _SUM),
    "mul": LayerCase(top.Mul(), [X, Y], _MULTIPLIER),
    "mul_channel": LayerCase(top.Mul(), [X, CHANNEL], _MULTIPLIER + 1),
    "mul_gate": LayerCase(top.Mul(), [X, uniform(1, 70, 1, 1, low=0, seed=6)], _MULTIPLIER),
    "div": LayerCase(top.Div(), [X, uniform(1, 70, 5, 6, low=1, high=2)]),
    "mul_const": LayerCase(top.MulConst(const_val=-0.7), [X], _MULTIPLIER),
    "mul_const_relu": LayerCase(top.MulConst(const_val=0.7, do_relu=True), [X], _MULTIPLIER),
    "add_const": LayerCase(top.AddConst(const_val=0.3), [X], _MULTIPLIER),
    "add_far": LayerCase(top.AddConst(const_val=3000.0), [X], _MULTIPLIER),
    "sub_const": LayerCase(top.SubConst(const_val=0.3), [X], _MULTIPLIER),
    "sub_from": LayerCase(top.SubConst(const_val=0.3, is_reverse=True), [X], _MULTIPLIER),
    "softmax": LayerCase(top.Softmax(axis=1), [X]),
    "depthwise": LayerCase(top.Conv(group=70, **_WINDOW), [X, _FILTER, _BIAS], 9 * 2),
    "grouped": LayerCase(top.Conv(group=2, **_WINDOW), [X, Fixed(uniform(10, 35, 3, 3, seed=7)), None], 5),
    "scale": LayerCase(top.Scale(), [X, Fixed(uniform(70, seed=8)), _BIAS], 2),
    "scale_rows": LayerCase(top.Scale(do_relu=True), [uniform(2, 7, 9), Fixed(uniform(7, seed=8)), None], 2),
    "max_pool": LayerCase(top.MaxPool(kernel_shape=(2, 2), strides=(2, 2)), [X]),
    "avg_pool": LayerCase(top.AvgPool(kernel_shape=(5, 6)), [X], _MULTIPLIER),
    "mean": LayerCase(top.Reduce(axes=(2, 3), mode="ReduceMean"), [X]),
    "mean_apart": LayerCase(top.Reduce(axes=(1, 3), mode="ReduceMean", keepdims=False), [X]),
    "sum": LayerCase(top.Reduce(axes=(1,), mode="ReduceSum"), [X]),
    "max": LayerCase(top.Reduce(axes=(1,), mode="ReduceMax"), [X]),
    "min": LayerCase(top.Reduce(axes=(1,), mode="ReduceMin"), [X]),
    "l2": LayerCase(top.Reduce(axes=(0, 3), mode="ReduceL2", keepdims=False), [X]),
    "concat": LayerCase(top.Concat(axis=1), [X, Y], _MULTIPLIER),
    "concat_relu": LayerCase(top.Concat(axis=3, do_relu=True), [X, Y], _MULTIPLIER),
    **layer_cases.MOVES,
}
IMAGE = uniform(1, 5, 4, 6, seed=9)
_TURNED = Fixed(uniform(8, 5, 4, 4, seed=4))
_EIGHT = uniform(8, seed=5)
_LINE = uniform(2, 12, 20, seed=10)
_LEFT, _RIGHT = uniform(2, 3, 7, 40, seed=4), uniform(2, 3, 40, 70, low=-1, high=2, seed=5)
CASES |= {
    "attention": LayerCase(top.MatMul(), [_LEFT, _RIGHT, None], 12),
    "attention_turned": LayerCase(
        top.MatMul(right_transpose=True, do_relu=True), [_LEFT, _RIGHT.swapaxes(2, 3).copy(), None], 12
    ),
    "matmul_computed": LayerCase(top.MatMul(), [_LEFT, _RIGHT[0, 0], None], 12),
    "matmul_one_left": LayerCase(top.MatMul(), [_LEFT[:1, :1], _RIGHT, None], 12),
    "matmul_constant_left": LayerCase(top.MatMul(), [Fixed(_LEFT[0, 0]), _RIGHT, Fixed(uniform(70, seed=6))], 12),
    "matmul_constants": LayerCase(top.MatMul(), [_LEFT, Fixed(_RIGHT), Fixed(uniform(70, seed=6))], 12),
    "matmul_from_constant": LayerCase(top.MatMul(), [Fixed(_LEFT), _RIGHT, None], 12),
    "log": LayerCase(top.Log(), [POSITIVE]),
    "max_pool_ceil": LayerCase(top.MaxPool(kernel_shape=(3, 2), strides=(2, 2), ceil_mode=True), [X]),
    "avg_pool_border": LayerCase(top.AvgPool(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), [X]),
    "avg_pool_ceil": LayerCase(
        top.AvgPool(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 0, 0, 1), ceil_mode=True, count_include_pad=True), [X]
    ),
    "deconv": LayerCase(
        top.Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)), [IMAGE, _TURNED, Fixed(_EIGHT)], 12
    ),
    "conv_line": LayerCase(
        top.Conv(kernel_shape=(5,), strides=(2,), pads=(2, 2), dilations=(1,), do_relu=True),
        [_LINE, Fixed(uniform(30, 12, 5, seed=7)), Fixed(uniform(30, seed=8))],
        9,
    ),
    "deconv_line": LayerCase(
        top.Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 1), dilations=(1,), output_padding=(1,)),
        [_LINE, Fixed(uniform(8, 12, 4, seed=7)), None],
        9,
    ),
    "deconv_wide": LayerCase(
        top.Deconv(
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
        top.Deconv(kernel_shape=(2, 2), strides=(2, 2), group=5), [IMAGE, Fixed(uniform(1, 5, 2, 2, seed=4)), None], 3
    ),
    "deconv_grouped": LayerCase(
        top.Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=5),
        [IMAGE, Fixed(uniform(3, 5, 3, 3, seed=4)), Fixed(uniform(15, seed=5))],
        5,
    ),
    "erf": LayerCase(top.Erf(), [X]),
    "gelu": LayerCase(top.GELU(), [X]),
    "gelu_tanh": LayerCase(top.GELU(approx_mode="tanh"), [X]),
    "sin": LayerCase(top.Sin(), [X / 4]),
    "cos": LayerCase(top.Cos(), [X]),
    "softplus": LayerCase(top.Softplus(), [X]),
    "softsign": LayerCase(top.Softsign(), [X]),
    "mish": LayerCase(top.Mish(), [X]),
    "sign": LayerCase(top.Sign(), [X]),
    "log_sigmoid": LayerCase(top.Sigmoid(log=True), [X]),
    "rsqrt": LayerCase(top.Rsqrt(), [POSITIVE + 1]),
    "reciprocal": LayerCase(top.Reciprocal(const_val=2.0), [POSITIVE + 1]),
    "square": LayerCase(top.Pow(exponent=2.0), [X]),
    "cube": LayerCase(top.Pow(exponent=3.0), [X]),
    "root": LayerCase(top.Pow(exponent=0.5), [POSITIVE]),
    "inverse": LayerCase(top.Pow(exponent=-1.0), [POSITIVE + 1]),
    "power": LayerCase(top.Pow(exponent=1.7), [POSITIVE]),
    "of_two": LayerCase(top.Pow2(const_val=2.0), [X]),
    "log_softmax": LayerCase(top.Softmax(axis=1, log=True), [X]),
    "maximum": LayerCase(top.Max(), [X, Y], _MULTIPLIER),
    "minimum_channel": LayerCase(top.Min(), [X, CHANNEL], _MULTIPLIER),
    "minimum_three": LayerCase(top.Min(), [X, Y, uniform(1, 70, 5, 1, seed=9)], _MULTIPLIER),
    "tile": LayerCase(top.Tile(tile=(1, 2, 1, 3)), [X]),
    "tile_once": LayerCase(top.Tile(tile=(1, 1, 1, 1)), [X]),
    "nearest": LayerCase(top.Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 8, 18)),
    "nearest_half": LayerCase(top.Interp(mode="nearest", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "nearest_odd": LayerCase(top.Interp(mode="nearest", coord_mode="asymmetric"), [IMAGE], result=(1, 5, 7, 4)),
    "linear": LayerCase(top.Interp(mode="linear", coord_mode="half_pixel"), [IMAGE], result=(1, 5, 8, 12)),
    "columns_alone": LayerCase(
        top.Interp(mode="linear", coord_mode="asymmetric", scale_h=1.0, scale_w=3.0), [IMAGE], result=(1, 5, 4, 18)
    ),
    "rows_alone": LayerCase(
        top.Interp(mode="linear", coord_mode="asymmetric", scale_h=2.5, scale_w=1.0), [IMAGE], result=(1, 5, 10, 6)
    ),
    "linear_corners": LayerCase(top.Interp(mode="linear", coord_mode="align_corners"), [IMAGE], result=(1, 5, 9, 6)),
    "layer_norm": LayerCase(top.LayerNorm(axis=-1), [X, Fixed(uniform(6, seed=3)), Fixed(uniform(6, seed=4))]),
    "layer_norm_plain": LayerCase(top.LayerNorm(axis=2), [X, None, None]),
    "rms_norm": LayerCase(top.RMSNorm(), [X, Fixed(uniform(6, seed=3))]),
    "instance_norm": LayerCase(top.InstanceNorm(), [X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))]),
    "group_norm": LayerCase(top.GroupNorm(num_groups=7), [X, Fixed(uniform(70, seed=3)), None]),
}

CASES |= layer_cases.CASES


def _on_grid(array: Array) -> Array:
    """Values that 8 bits hold exactly when the threshold is the greatest magnitude."""
    greatest = np.abs(array).max()
    steps = 255 if array.min() >= 0 else 128
    return (np.clip(np.rint(array / greatest * steps), -steps, steps if steps == 255 else 127) / steps).astype(
        np.float32
    ) * np.float32(greatest)


def whole_network(mode: str, thorough: bool) -> tuple[Module, dict[str, Array], CalibrationTable]:
    """Cases side by side, with their inputs and the ranges of all values: all of them, or those whose turn it is in a
    mode.
    """
    cases = CASES if thorough else due(CASES, MODES, mode)
    samples = {
        name: sample_of(case, [_on_grid(x) if isinstance(x, np.ndarray) else x for x in case.operands])
        for name, case in cases.items()
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    sources = [x for case in cases.values() for x in case.operands]
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


MODES = ("f32", "f16", "bf16", "int8", "int8-asym")
# Of the greatest magnitude: operands, constants and results are rounded to 24, 11 and 8 bits, and sums cancel.
FLOAT_MODES = {"f32": 2e-6, "f16": 2e-3, "bf16": 2e-2}


IN_SHORT_FLOATS = ("hard_swish",)
"""Computed in f16 and bf16 step by step: three roundings, where other kernels round what they have in f32."""


TURNS = in_turn(CASES, [*FLOAT_MODES, "int8-asym"], path_of, few_pairs)
"""Symmetric integers, which networks use most, are computed for every op."""


@each(("name", "mode"), [turn for turn in TURNS if turn.values[1] in FLOAT_MODES])
def test_float_forms_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize=mode, opt=1)
    final, data = build_exposed(session, module)
    result = check_file(session, final, data, inputs, mode if name in IN_SHORT_FLOATS else "f32")
    wanted = values["y"].reshape(result.shape)
    assert np.abs(result.astype(np.float32) - wanted).max() <= FLOAT_MODES[mode] * np.abs(wanted).max()


@each(("name", "mode"), [turn for turn in TURNS if turn.values[1] not in FLOAT_MODES])
def test_asymmetric_forms_compute_the_op(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize=mode, opt=1, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    result = check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    spread = max(float(wanted.max()), 0.0) - min(float(wanted.min()), 0.0)
    assert np.abs(real_values(result, type_) - wanted).max() <= 0.03 * spread  # seven steps of 255


@each("name", one_of_each(CASES, path_of))
def test_integer_forms_stay_within_their_steps(name: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize="int8", opt=1, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    result = check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    if not type_.is_quantized:
        assert float_error(result, wanted) <= 1e-6
        return
    low, high = type_.uniform.bounds
    ideal = np.clip(wanted / type_.uniform.scale + type_.uniform.zero_point, low, high)
    assert np.abs(result - ideal).max() <= case.steps


def _has_constant_filters(case: LayerCase) -> bool:
    """One matrix for all rows counts too; several of them are computed with like other operands."""
    if not isinstance(case.op, (top.Conv, top.Deconv, top.MatMul)) or not isinstance(case.operands[1], Fixed):
        return False
    return not isinstance(case.op, top.MatMul) or case.operands[1].array.ndim == 2


PRODUCTS = [name for name, case in CASES.items() if _has_constant_filters(case)]


@each("name", PRODUCTS)
def test_integer_products_that_are_answers_give_their_sums(name: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case)
    session = Session(chip="bm1684x", quantize="int8")
    final, data = build_exposed(session, module, _table(values, inputs, case.operands))
    products = [o for o in final.main.operations if o.op.name in ("tpu.Conv2D", "tpu.Deconv", "tpu.MatMul")]
    assert {o.result.tensor.storage.name for o in products} == {"i32"}  # images may be computed apart
    result = check_file(session, final, data, inputs)
    wanted = values["y"].reshape(result.shape)
    # Operands lie on their grid; filters are off by up to 1/254 of the largest, which mostly cancels in sums.
    assert np.abs(result - wanted).max() <= 0.01 * np.abs(wanted).max()


@each("ratio", [1e-12, 1e-8, 1e-5, 0.3, 1.0, 100.0, 3e4])
def test_terms_of_sums_fit_16_bits_and_shifts_their_field(ratio: float) -> None:
    module, inputs = sample_module(
        {"y": sample_of(LayerCase(top.Add(), [X, Y]), [X, Y * np.float32(ratio)])}, Registry()
    )
    table = own_ranges(Interpreter(module).run(inputs, "all"))
    session = Session(chip="bm1684x", quantize="int8", opt=1, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, table)
    check_file(session, final, data, inputs)
    (total,) = [o for o in final.main.operations if o.op.name == "tpu.Add"]
    multipliers, shifts = total.op.multipliers, total.op.rshifts  # type: ignore[attr-defined]
    assert all(0 <= shift <= 30 for shift in shifts)
    largest = [255 if v.tensor.storage.is_unsigned else 128 for v in total.operands]
    terms = zip(multipliers, shifts, largest, strict=False)
    assert all(abs(multiplier) * most / 2**shift < 2**15 - 1 for multiplier, shift, most in terms)
