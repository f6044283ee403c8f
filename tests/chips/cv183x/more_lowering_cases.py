"""More TOP ops by themselves, in groups; what their lowered forms may be off by."""

from __future__ import annotations

import dataclasses
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
from tpuc_cv183x.lowerings import TABLE
from tpuc_ops.top.add import Add
from tpuc_ops.top.arctan import Arctan
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.cast import Cast
from tpuc_ops.top.ceil import Ceil
from tpuc_ops.top.compare import Compare
from tpuc_ops.top.compare_const import CompareConst
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.cos import Cos
from tpuc_ops.top.cum_sum import CumSum
from tpuc_ops.top.deconv import Deconv
from tpuc_ops.top.floor import Floor
from tpuc_ops.top.gather import Gather
from tpuc_ops.top.group_norm import GroupNorm
from tpuc_ops.top.instance_norm import InstanceNorm
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.layer_norm import LayerNorm
from tpuc_ops.top.lrn import LRN
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.normalize import Normalize
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.pow2 import Pow2
from tpuc_ops.top.pow3 import Pow3
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.rms_norm import RMSNorm
from tpuc_ops.top.round import Round
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.sign import Sign
from tpuc_ops.top.sin import Sin
from tpuc_ops.top.softmax import Softmax
from tpuc_ops.top.softsign import Softsign
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.tile import Tile
from tpuc_ops.top.trilu import Trilu
from tpuc_ops.top.where import Where
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold

from tests.chips.layer_cases import CASES

Array = NDArray[Any]
EVERYTHING_IN_INTEGERS = {**PIPELINES, "lower": ("convert-top-to-tpu",)}
"""Without the pass that keeps the last ops of a network in floats."""


@dataclass(frozen=True, eq=False)
class Layer:
    """An op on float operands. `steps`: of the stored result that the integer form may be off in all; `error`: that of
    the bf16 form, as a part of the largest value; `result`: dims where the op does not infer them.
    """

    op: Op
    operands: list[Operand]
    steps: float = 0.51
    error: float = 2.0**-7
    result: tuple[int, ...] | None = None
    modes: tuple[str, ...] = ("int8", "bf16")


FILTERS = 6
"""Steps of sums of many products: each filter is off by up to half of 127ths."""
SHARES = 2.6
"""Steps of two products with shares, each rounded, that 127 steps hold."""
CURVE = 2.0**-6

X = uniform(1, 70, 5, 6, low=-4, high=4)
IMAGE = uniform(1, 5, 4, 6, seed=9)
LINE = uniform(2, 12, 20, seed=10)


def _filter(*shape: int) -> Fixed:
    return Fixed(uniform(*shape, seed=7))


def _interp(mode: str, places: str, h: int, w: int, **more: Any) -> Layer:
    return Layer(Interp(mode=mode, coord_mode=places), [IMAGE], result=(1, 5, h, w), **more)


DECONVS = {
    "deconv": Layer(
        Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)), [X, _filter(40, 70, 4, 4), None], FILTERS
    ),
    "deconv_bias_relu": Layer(
        Deconv(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1), do_relu=True),
        [IMAGE, _filter(8, 5, 3, 3), Fixed(uniform(8, seed=8))],
        FILTERS,
    ),
    "deconv_depthwise": Layer(
        Deconv(kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=70),
        [X, _filter(1, 70, 4, 4), Fixed(uniform(70, seed=8))],
        FILTERS,
    ),
    "deconv_groups": Layer(
        Deconv(kernel_shape=(3, 3), strides=(2, 2), group=2), [X, _filter(3, 70, 3, 3), Fixed(uniform(6))], FILTERS
    ),
    "deconv_sparse": Layer(
        Deconv(kernel_shape=(2, 1), strides=(3, 2), output_padding=(1, 1)), [IMAGE, _filter(8, 5, 2, 1), None], FILTERS
    ),
    "deconv_dilated": Layer(
        Deconv(kernel_shape=(3, 2), strides=(2, 2), dilations=(2, 3), pads=(1, 1, 1, 1), output_padding=(1, 1)),
        [IMAGE, _filter(8, 5, 3, 2), None],
        FILTERS,
    ),
    "deconv_far": Layer(
        Deconv(kernel_shape=(32, 20), strides=(16, 8), pads=(8, 6, 8, 6), do_relu=True),
        [IMAGE, _filter(6, 5, 32, 20), Fixed(uniform(6, seed=8))],
        FILTERS,
    ),
    "deconv_far_depthwise": Layer(
        Deconv(kernel_shape=(40, 3), strides=(20, 2), group=5, output_padding=(3, 1)),
        [IMAGE, _filter(1, 5, 40, 3), None],
        FILTERS,
    ),
    "deconv_line": Layer(
        Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 1), dilations=(1,)), [LINE, _filter(8, 12, 4), None], FILTERS
    ),
}
LINES = {
    "conv_line": Layer(
        Conv(kernel_shape=(5,), strides=(2,), pads=(2, 2), dilations=(1,), do_relu=True),
        [LINE, _filter(30, 12, 5), Fixed(uniform(30, seed=8))],
        FILTERS,
    ),
    "conv_line_dilated": Layer(
        Conv(kernel_shape=(3,), strides=(1,), pads=(0, 4), dilations=(4,), group=12),
        [LINE, _filter(12, 1, 3), None],
        FILTERS,
    ),
    "max_pool_line": Layer(MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 1)), [LINE]),
    "avg_pool_line": Layer(AvgPool(kernel_shape=(4,), strides=(4,), pads=(0, 0)), [LINE], 1.6),
    "avg_pool_line_ceil": Layer(
        AvgPool(kernel_shape=(3,), strides=(2,), pads=(1, 1), ceil_mode=True), [LINE], 2.6, CURVE
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
    "tile": Layer(Tile(tile=(1, 2, 3, 1)), [IMAGE]),
    "pad_edge": Layer(Pad(paddings=(0, 0, 1, 2, 0, 0, 2, 1), mode="edge"), [IMAGE]),
    "pad_reflect": Layer(Pad(paddings=(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"), [IMAGE]),
}


MATRICES = {
    "product": Layer(MatMul(), [uniform(2, 3, 7, 16), uniform(2, 3, 16, 9, seed=1)], 1.1, CURVE),
    "product_turned": Layer(MatMul(right_transpose=True), [uniform(2, 7, 16), uniform(2, 9, 16, seed=1)], 1.1, CURVE),
    "product_left_turned": Layer(
        MatMul(left_transpose=True), [uniform(2, 16, 7), uniform(2, 16, 9, seed=1)], 1.1, CURVE
    ),
    "product_of_matrices": Layer(MatMul(do_relu=True), [uniform(7, 40), uniform(40, 8, seed=1)], 1.1, CURVE),
    "product_awkward": Layer(MatMul(), [uniform(2, 19, 16), uniform(2, 16, 197, seed=1)], 1.1, CURVE),
    "product_awkward_turned": Layer(
        MatMul(right_transpose=True, output_transpose=True), [uniform(3, 16), uniform(131, 16, seed=1)], 1.1, CURVE
    ),
    "product_single_right": Layer(MatMul(), [uniform(2, 3, 7, 16), uniform(16, 8, seed=1)], 1.1, CURVE),
    "product_repeated": Layer(MatMul(), [uniform(4, 7, 16), uniform(2, 1, 16, 8, seed=1)], 1.1, CURVE),
    "product_constant_left": Layer(MatMul(), [Fixed(uniform(7, 16)), uniform(2, 16, 9, seed=1)]),
    "product_constant_batch": Layer(MatMul(), [uniform(2, 7, 16), Fixed(uniform(2, 16, 9, seed=1))]),
    "product_bias": Layer(
        MatMul(do_relu=True), [uniform(2, 7, 16), uniform(2, 16, 9, seed=1), Fixed(uniform(9, seed=2))]
    ),
    "product_unsigned": Layer(MatMul(), [uniform(2, 7, 16, low=0), uniform(2, 16, 9, low=0, high=2, seed=1)], 2, CURVE),
    "product_constant_turned": Layer(MatMul(left_transpose=True), [uniform(16, 7), Fixed(uniform(16, 9, seed=1))]),
}


NORM = 2.0**-5
"""Means, squares, roots and products, each rounded to 8 bits."""
TOKENS = uniform(2, 7, 48, low=-2, high=3, seed=11)
NORMS = {
    "layer_norm": Layer(
        LayerNorm(axis=-1, eps=1e-5), [TOKENS, Fixed(uniform(48, seed=3)), Fixed(uniform(48, seed=4))], 4, NORM
    ),
    "layer_norm_plain": Layer(LayerNorm(axis=1, eps=1e-5), [TOKENS, None, None], 4, NORM),
    "layer_norm_long": Layer(LayerNorm(axis=1, eps=1e-5), [uniform(1, 3000, seed=12), None, None], 4, NORM),
    "rms_norm": Layer(RMSNorm(eps=1e-5), [TOKENS, Fixed(uniform(48, seed=3))], 4, NORM),
    "instance_norm": Layer(
        InstanceNorm(eps=1e-5), [X, Fixed(uniform(70, seed=3)), Fixed(uniform(70, seed=4))], 4, NORM
    ),
    "group_norm": Layer(GroupNorm(num_groups=7, eps=1e-5), [X, Fixed(uniform(70, seed=3)), None], 4, NORM),
    "lrn": Layer(LRN(size=5, alpha=0.5, beta=0.75, bias=2.0), [X], 3, NORM),
    "lrn_even": Layer(LRN(size=4, alpha=0.5, beta=0.6, bias=1.0), [X], 3, NORM),
    "normalize": Layer(Normalize(channel_shared=False), [X, Fixed(uniform(70, low=1, high=3, seed=3))], 3, NORM),
    "normalize_across": Layer(Normalize(across_spatial=True), [X, Fixed(np.full(1, 20, np.float32))], 3, NORM),
}
REDUCTIONS = {
    **{
        f"{mode.lower()}_{'_'.join(map(str, axes))}": Layer(
            Reduce(axes=axes, mode=f"Reduce{mode}", keepdims=bool(axes[0] % 2)), [X], 2.6, CURVE
        )
        for mode in ("Mean", "Max", "Sum", "Min", "L1", "L2")
        for axes in ((1,), (3,), (1, 3), (2, 3))
    },
    "mean_of_rows": Layer(Reduce(axes=(-1,), mode="ReduceMean"), [TOKENS], 2.6, CURVE),
    "mean_of_all": Layer(Reduce(axes=(0, 1, 2), mode="ReduceMax", keepdims=False), [TOKENS], 2.6, CURVE),
}
WHOLE = np.rint(uniform(1, 7, 5, 6, low=-9, high=9, seed=13))
OTHER = np.rint(uniform(1, 7, 5, 6, low=-9, high=9, seed=14))
FLOATS: Any = {"modes": ("bf16",)}
CHOICES = {
    **{
        f"compare_{mode.lower()}": Layer(Compare(mode=mode), [WHOLE, OTHER], **FLOATS)
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
    "compare_number": Layer(CompareConst(mode="Less", const_val=2.0), [WHOLE], **FLOATS),
    "compare_number_inversed": Layer(
        CompareConst(mode="GreaterOrEqual", const_val=2.0, inversed=True), [WHOLE], **FLOATS
    ),
    "where": Layer(Where(), [np.maximum(WHOLE, 0), OTHER, uniform(1, 7, 5, 6, seed=15)], 2),
    "where_mask": Layer(
        Where(x_is_const=True, x_const_val=-100.0), [Fixed((WHOLE > 0).astype(np.float32)), None, OTHER], 2
    ),
    "where_numbers": Layer(
        Where(x_is_const=True, x_const_val=-1.0, y_is_const=True, y_const_val=3.0),
        [np.maximum(WHOLE, 0), None, None],
        2,
    ),
    **{
        name: Layer(op, [np.concatenate([WHOLE + 0.5, OTHER + 0.25, OTHER * 50], 1)], **FLOATS)
        for name, op in {
            "round": Round(),
            "floor": Floor(),
            "ceil": Ceil(),
            "sign": Sign(),
            "to_integers": Cast(to="INT64"),
            "to_truth": Cast(to="BOOL"),
            "to_halves": Cast(to="BFLOAT16"),
        }.items()
    },
    "gather_runs": Layer(Gather(axis=1), [X, Fixed(np.array([[3, 4, 5], [9, 7, 5], [-1, 0, 0]], np.float32))]),
    "sums_so_far": Layer(CumSum(axis=1), [X / 4], 3, CURVE),
    "sums_behind": Layer(CumSum(axis=-1, exclusive=True, reverse=True), [X], 3, CURVE),
    "upper": Layer(Trilu(upper=1, diagonal=1), [X], 1.6),
    "lower": Layer(Trilu(upper=0), [uniform(7, 9)], 1.6),
    "gather_one": Layer(Gather(axis=2, keepdims=False), [X, Fixed(np.array(3, np.float32))]),
    "gather_rows": Layer(
        Gather(axis=0), [Fixed(uniform(40, 12, seed=3)), np.array([[3, 39, 0], [7, -1, 8]], np.float32)], 0, **FLOATS
    ),
}


POSITIVE = uniform(1, 7, 5, 6, low=0.25, high=3, seed=16)
CURVES = {
    "cube": Layer(Pow(exponent=3.0), [X / 2], error=CURVE),
    "reciprocal_cube": Layer(Pow(exponent=-3.0), [POSITIVE], error=2 * CURVE),
    "power": Layer(Pow(exponent=1.7), [POSITIVE], 2.6, 2 * CURVE),
    "power_of_two": Layer(Pow2(const_val=2.0), [X], 3, 2 * CURVE),
    "powers": Layer(Pow3(), [POSITIVE, X[:, :7] / 2], 3, 4 * CURVE),
    "powers_of_numbers": Layer(Pow3(), [Fixed(POSITIVE), X[:, :7] / 2], 3, 2 * CURVE),
    "sigmoid_scaled": Layer(Sigmoid(scale=2.0, bias=0.5, log=True), [X], error=CURVE),
    "sigmoid_logarithm": Layer(Sigmoid(log=True), [X], error=CURVE),
    "sine": Layer(Sin(), [np.rint(X * 24) / np.float32(8)], 0, CURVE, modes=("bf16",)),  # whole eighths are bf16
    "cosine": Layer(Cos(), [np.rint(X * 24) / np.float32(8)], 0, CURVE, modes=("bf16",)),
    "arctan": Layer(Arctan(), [X], modes=("int8",)),
    "add_weighted": Layer(Add(coeff=(2.0, -0.5)), [X, X[:, ::-1]], 3.2, CURVE),
    "sub_weighted": Layer(Sub(coeff=(0.25, 3.0), do_relu=True), [X, X[:, ::-1]], 4.2, CURVE),
    "concat_constant": Layer(Concat(axis=1, do_relu=True), [Fixed(uniform(1, 1, 5, 6, seed=17)), X], 1.6),
    "concat_token": Layer(Concat(axis=1, do_relu=True), [Fixed(uniform(1, 1, 48)), uniform(1, 7, 48), TOKENS[:1]], 1.6),
    "softmax_logarithm": Layer(Softmax(axis=1, log=True), [X], 2, CURVE),
    "softmax_steep": Layer(Softmax(axis=-1, beta=2.0), [X], 3, 2 * CURVE),
    "softsign": Layer(Softsign(), [X], error=CURVE),
    "max_behind": Layer(Max(), [Fixed(np.zeros(1, np.float32)), X], 1.6),
}


LESS_EXACT = {"arccosh": 1.6}
"""Operands that are never negative become bytes through bf16, and this curve is steep."""
SHARED = {
    name: Layer(
        case.op,
        case.operands,
        max(case.steps, LESS_EXACT.get(name, 0.0)),
        case.error,
        case.result,
        tuple(mode for mode in ("int8", "bf16") if (case.op.name, mode) in TABLE.cells),
    )
    for name, case in CASES.items()
}
"""What every chip is asked for."""


@dataclass(frozen=True, eq=False)
class CompiledLayers:
    """Ops in one file, all values visible: each one's result is called after it."""

    session: Session
    final: Module
    data: bytes
    inputs: Mapping[str, Array]
    floats: Mapping[str, Array]
    """What the float ops give."""


def compile_layers(layers: Mapping[str, Layer], mode: str) -> CompiledLayers:
    """One network of the ops side by side, as far as the mode has them."""
    session = Session(chip="cv183x", quantize=mode, pipelines=EVERYTHING_IN_INTEGERS)
    steps = session.chip.description.symmetric_divisor
    samples = {
        name: Sample(
            layer.op,
            [_on_grid(x, steps) if isinstance(x, np.ndarray) and layer.steps else x for x in layer.operands],
            None if layer.result is None else TensorType(layer.result, F32),
        )
        for name, layer in layers.items()
        if mode in layer.modes
    }
    module, inputs = sample_module(samples, Registry())
    values = Interpreter(module).run(inputs, "all")
    final, data = build_exposed(session, module, _table(values) if mode == "int8" else None)
    return CompiledLayers(session, final, data, inputs, values)


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


def check_layers(layers: Mapping[str, Layer], mode: str, compiled: CompiledLayers, got: Mapping[str, Array]) -> None:
    """Assert that all results are as close to those of the float ops as they must be."""
    wrong = [
        message
        for name, layer in layers.items()
        if mode in layer.modes and (message := _difference(name, layer, compiled, got))
    ]
    assert not wrong, "\n".join(wrong)


def _difference(name: str, layer: Layer, compiled: CompiledLayers, got: Mapping[str, Array]) -> str:
    wanted = compiled.floats[name]
    type_ = next(o.result.tensor for o in compiled.final.main.operations if o.results and o.name == name)
    found = got[name]
    if found.dtype == np.uint16:
        found = found.view(ml_dtypes.bfloat16)
    found = found.reshape(wanted.shape).astype(np.float64)
    if not type_.is_quantised:
        error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        return f"{name}: {error:.4f} of its range" if error > layer.error else ""
    ideal = np.clip(wanted / type_.uniform.scale, *type_.uniform.bounds)
    steps = float(np.abs(found - ideal).max())
    return f"{name}: {steps:.2f} steps" if steps > layer.steps else ""


def only(layers: Mapping[str, Layer], *names: str) -> dict[str, Layer]:
    """Some of them."""
    return {name: dataclasses.replace(layers[name]) for name in names}


LAYERS: Sequence[tuple[str, Mapping[str, Layer]]] = (
    ("deconvs", DECONVS),
    ("lines", LINES),
    ("sizes", SIZES),
    ("matrices", MATRICES),
    ("norms", NORMS),
    ("reductions", REDUCTIONS),
    ("choices", CHOICES),
    ("curves", CURVES),
    ("shared", SHARED),
)
