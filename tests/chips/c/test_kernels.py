"""Every function against its op's evaluation: integers in all bits, floats within the bound of the conformance kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tpuc.api import F32, Node, ScalarType, TensorType, Uniform, Unsupported
from tpuc.registry import Registry
from tpuc_c.chip import CHIP
from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import ROUNDINGS
from tpuc_c.storage import packed, unpacked
from tpuc_ops import tpu
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample, compile_kernels
from tpuc_testing.op_conformance import Typed

from tests.chips.c import general_samples
from tests.chips.c.programs import needs_compiler
from tests.families import each

ROUND_MODES = tuple(ROUNDINGS)


def element(unsigned: bool, scale: float = 0.1, point: int = 0) -> Uniform:
    return Uniform(ScalarType("u8" if unsigned else "i8"), F32, scale, point)


def stored(shape: tuple[int, ...], seed: int, unsigned: bool = False, scale: float = 0.1, point: int = 0) -> Typed:
    """Every byte may occur."""
    array = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return Typed(array if unsigned else array.view(np.int8), TensorType(shape, element(unsigned, scale, point)))


def filters(shape: tuple[int, ...], seed: int) -> Fixed:
    return Fixed(np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8), "si8")


def bias(count: int, seed: int) -> Fixed:
    values = np.random.default_rng(seed).integers(-5000, 5000, (1, count, 1, 1)).astype(np.int32)
    return Fixed(values)


def convolution(seed: int) -> Sample:
    """A convolution with attributes by chance: groups, windows, both kinds of bytes, every way to requantize."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 2, 8]))
    channels = 8 if groups == 8 else groups * int(rng.integers(1, 6))
    count = 8 if groups == 8 else groups * int(rng.integers(1, 7))
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    unsigned, offset = bool(rng.integers(2)), int(rng.integers(-3, 4))
    shape = (int(rng.integers(1, 3)), channels, 7, 9)
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": tuple(map(int, rng.integers(1, 3, 2))),
        "pads": tuple(map(int, rng.integers(0, min(kernel), 4))),
        "dilations": tuple(map(int, rng.integers(1, 3, 2))),
        "group": groups,
        "do_relu": bool(rng.integers(2)),
        "relu_limit": float(rng.choice([-1.0, 6.0])),
        "kernel_zp": int(rng.choice([0, 0, 100])),
        "round_mode": str(rng.choice(ROUND_MODES)),
    }
    several = count if rng.integers(2) else 1
    way = int(rng.integers(4))
    if way == 1:
        attributes |= {"scales": tuple(rng.uniform(0.0005, 0.01, several).tolist())}
    elif way:
        attributes |= {
            "quant_mode": "MultiplierShift" if way == 2 else "QDM",
            "multiplier": tuple(map(int, rng.integers(1 << 29, (1 << 31) - 1, several))),
            "rshift": tuple(map(int, rng.integers(36, 41, several) if way == 2 else rng.integers(5, 10, several))),
        }
    else:
        attributes |= {"do_relu": False}
    source = stored(shape, seed, unsigned, point=offset if unsigned is False else 0)
    operands = [source, filters((count, channels // groups, *kernel), seed + 1), bias(count, seed + 2)]
    result = element(bool(rng.integers(2)), 0.05, 3) if way else None
    return Sample(tpu.Conv2D(**attributes), operands, result)


def with_wide_filters(count: int, widest: int) -> Sample:
    """Filters of up to `widest` in magnitude, held with 16 bits."""
    values = np.random.default_rng(count).integers(-widest, widest + 1, (count, 8, 3, 3)).astype(np.int16)
    values.reshape(-1)[:2] = -widest, widest
    op = tpu.Conv2D(kernel_shape=(3, 3), pads=(1, 1, 1, 1), scales=(0.003,), round_mode="HalfToEven")
    return Sample(op, [stored((1, 8, 6, 5), count), Fixed(values, "si16"), bias(count, 3)], element(False))


def several() -> dict[str, Sample]:
    """More filters than the library requantizes at once, and bytes held with 16 bits."""
    return {
        "many": Sample(
            tpu.Conv2D(kernel_shape=(1, 1), scales=(0.004,)),
            [stored((1, 20, 5, 5), 1), filters((70, 20, 1, 1), 2), bias(70, 3)],
            element(True),
        ),
        "deep": Sample(
            tpu.Conv2D(kernel_shape=(3, 3), scales=(0.001,)),
            [stored((1, 40, 6, 7), 4), filters((35, 40, 3, 3), 5), bias(35, 6)],
            element(False),
        ),
        "span_of_a_byte": with_wide_filters(5, 127),
    }


def matrices(seed: int, **attributes: Any) -> Sample:
    rng = np.random.default_rng(seed)
    rows, depth, columns = 3, 37, 11
    extra = Fixed(rng.integers(-900, 900, (1, columns)).astype(np.int32))
    shape = (columns, depth) if attributes.get("right_transpose") else (depth, columns)
    right = Fixed(rng.integers(-128, 128, shape).astype(np.int8), "si8")
    factors = {"multipliers": (1 << 30,), "rshifts": (38,)}
    return Sample(
        tpu.MatMul(**factors, **attributes), [stored((2, rows, depth), seed), right, extra, None, None], element(False)
    )


def pooled(mode: str, seed: int, **attributes: Any) -> Sample:
    given: dict[str, Any] = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    source = stored((2, 5, 9, 8), seed, unsigned=bool(seed % 2), point=0 if seed % 2 else 5)
    result = source.type.element if mode == "Max" else element(bool(seed % 2), 0.1, 5)
    return Sample(tpu.Pool2D(pool_mode=mode, **{**given, **attributes}), [source], result)


def floats() -> dict[str, Sample]:
    x, y = uniform(2, 6, 5, 4, seed=1), uniform(2, 6, 5, 4, low=0.5, high=3.0, seed=2)
    channel = Fixed(uniform(1, 6, 1, 1, seed=3))
    weights, whole = Fixed(uniform(10, 6, 3, 3, seed=4)), Fixed(uniform(6, 1, 3, 3, seed=5))
    samples = {
        "conv": Sample(tpu.Conv2D(kernel_shape=(3, 3), pads=(1, 1, 1, 1), do_relu=True), [x, weights, None]),
        "depthwise": Sample(tpu.Conv2D(kernel_shape=(3, 3), strides=(2, 2), group=6), [x, whole, None]),
        "product": Sample(tpu.MatMul(), [uniform(3, 20, seed=6), Fixed(uniform(20, 9, seed=7)), None, None, None]),
        "add": Sample(tpu.Add(do_relu=True, relu_limit=1.0, coeff=(1.0, -2.0)), [x, y]),
        "channels": Sample(tpu.Mul(), [x, channel]),
        "sub": Sample(tpu.Sub(is_reverse=True), [x, y]),
        "div": Sample(tpu.Div(), [x, y]),
        "plus": Sample(tpu.AddConst(const_val=0.3, do_relu=True), [x]),
        "times": Sample(tpu.MulConst(const_val=-0.7), [x]),
        "clip": Sample(tpu.Clip(min=-0.5, max=0.25), [x]),
        "max": Sample(tpu.Max(), [x, y]),
        "min": Sample(tpu.Min(), [x, y]),
        "leaky": Sample(tpu.LeakyRelu(alpha=0.1), [x]),
        "prelu": Sample(tpu.PReluOp(), [x, channel]),
        "scale": Sample(tpu.Scale(do_relu=True), [x, channel, channel, None]),
        "maxima": Sample(tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Max", pads=(1, 1, 1, 1)), [x]),
        "means": Sample(tpu.Pool2D(kernel_shape=(2, 3), pool_mode="Avg", pads=(1, 1, 0, 1), strides=(2, 2)), [x]),
        "padded_means": Sample(
            tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Avg", pads=(1, 1, 1, 1), count_include_pad=True), [x]
        ),
        "softmax": Sample(tpu.Softmax(axis=1), [x, None, None, None, None, None]),
        "log_softmax": Sample(tpu.Softmax(axis=-1, log=True), [x, None, None, None, None, None]),
        "mean": Sample(tpu.Reduce(axes=(2, 3), mode="ReduceMean"), [x]),
        "sum": Sample(tpu.Reduce(axes=(1,), mode="ReduceSum", keepdims=False), [x]),
        "largest": Sample(tpu.Reduce(axes=(0, 2), mode="ReduceMax"), [x]),
        "upsample": Sample(tpu.Upsample(scale_h=2, scale_w=3), [x]),
        "permute": Sample(tpu.Permute(order=(0, 3, 1, 2)), [x]),
        "reshape": Sample(tpu.Reshape(shape=(6, 40)), [x]),
        "slice": Sample(tpu.Slice(offset=(0, 1, 0, 1), steps=(1, 2, 1, 2), ends=(2, 6, 4, 4)), [x]),
        "concat": Sample(tpu.Concat(axis=2), [x, y, Fixed(uniform(2, 6, 1, 4, seed=8))]),
        "pad": Sample(tpu.Pad(paddings=(0, 1, 0, 2, 0, 0, 1, 0), val=1.5), [x]),
    }
    modes = ("SIGMOID", "TANH", "EXP", "GELU", "SILU", "MISH", "HSWISH", "SOFT_PLUS", "ERF", "SQUARE", "ABSVAL", "RELU")
    functions = {f"active_{mode.lower()}": Sample(tpu.Active(mode=mode), [x]) for mode in modes}
    positive = {f"active_{mode.lower()}": Sample(tpu.Active(mode=mode), [y]) for mode in ("LN", "SQRT", "RSQRT")}
    curved = {
        "elu": Sample(tpu.Active(mode="ELU", coeffs=(0.7,)), [x]),
        "hard": Sample(tpu.Active(mode="HSIGMOID", coeffs=(0.2, 0.5)), [x]),
    }
    return {**samples, **functions, **positive, **curved}


def integers() -> dict[str, Sample]:
    shape = (2, 6, 5, 4)
    x, y = stored(shape, 1, point=7), stored(shape, 2, unsigned=True)
    table = Fixed(np.arange(256, dtype=np.uint8)[::-1].reshape(1, 1, 1, 256).view(np.int8), "si8")
    rows = Fixed(np.random.default_rng(3).integers(-128, 128, (1, 6, 1, 256)).astype(np.int8), "si8")
    exponentials = Fixed(np.exp(-0.1 * np.arange(256)).astype(np.float32))
    floats = uniform(2, 6, 5, 4, low=-14, high=14, seed=4)
    pair = {"multipliers": (3, 5), "rshifts": (2, 3)}
    casts = {
        f"quantized_{mode}": Sample(tpu.Cast(round_mode=mode), [np.round(floats * 20) / 20], element(False, 0.1, 2))
        for mode in ROUND_MODES
    }
    shifts = {
        f"shifted_{mode}": Sample(tpu.MulShift(multiplier=5, rshift=4, round_mode=mode), [x], element(False, 0.1, 1))
        for mode in ROUND_MODES
    }
    return {
        **casts,
        **shifts,
        "meant": Sample(tpu.Cast(), [x], F32),
        "add": Sample(tpu.Add(**pair, do_relu=True), [x, y], element(False, 0.2, -3)),
        "add_once": Sample(tpu.Add(multipliers=(300, -500), rshifts=(9,)), [x, y], element(True)),
        "add_twice": Sample(tpu.Add(multipliers=(90, 70), rshifts=(1, 2, 5)), [x, y], element(False)),
        "sub": Sample(tpu.Sub(**pair), [x, y], element(False)),
        "mul": Sample(tpu.Mul(multiplier=77, rshift=14, round_mode="HalfAwayFromZero"), [x, y], element(False, 0.1, 4)),
        "table": Sample(tpu.Lut(), [x, table], element(False)),
        "tables": Sample(tpu.Lut(), [y, rows], element(False)),
        "relu": Sample(tpu.Relu(relu_limit=6.0), [x]),
        "clip": Sample(tpu.Clip(min=-2.0, max=3.0), [x]),
        "leaky": Sample(tpu.LeakyRelu(multiplier_neg=11, rshift_neg=7), [x], element(False, 0.1, -5)),
        "softmax": Sample(tpu.Softmax(axis=1), [x, exponentials, None, None, None, None], element(True, 1 / 255)),
        "mean": Sample(tpu.Reduce(axes=(2, 3), mode="ReduceMean", multiplier=51, rshift=10), [x], element(False)),
        "largest": Sample(tpu.Reduce(axes=(1,), mode="ReduceMax"), [x]),
        "upsample": Sample(tpu.Upsample(scale_h=2, scale_w=2, do_relu=True), [x]),
        "permute": Sample(tpu.Permute(order=(3, 0, 2, 1)), [x]),
        "concat": Sample(tpu.Concat(axis=1, multipliers=(3, 9), rshifts=(1, 4)), [x, y], element(False, 0.2, 6)),
        "pad": Sample(tpu.Pad(paddings=(0, 0, 1, 1, 0, 0, 2, 0), val=7.0), [x]),
        "maxima": pooled("Max", 1),
        "signed_maxima": pooled("Max", 2, do_relu=True),
        "averages": pooled("Avg", 3, multiplier=43, rshift=8),
        "signed_averages": pooled("Avg", 4, multiplier=43, rshift=8, round_mode="HalfUp"),
        "scaled_averages": pooled("Avg", 6, scale=0.15, offset=3.25, round_mode="HalfToEven"),
        "ceiling": pooled("Avg", 8, multiplier=43, rshift=8, ceil_mode=True, strides=(2, 2)),
        "product": matrices(1),
        "turned": matrices(2, right_transpose=True, do_relu=True),
        "shifted_right": matrices(3, right_zp=5, round_mode="HalfToEven"),
    }


SUBJECTS: Mapping[str, Callable[[], Mapping[str, Sample]]] = {
    "floats": floats,
    "integers": integers,
    "convolutions": lambda: {f"conv{seed}": convolution(seed) for seed in range(60)},
    "large convolutions": several,
    "choices": general_samples.choices,
    "ordered": general_samples.ordered,
    "recurrent": general_samples.recurrent,
    "products": general_samples.products,
}


@needs_compiler
@each("subject", SUBJECTS)
def test_functions_equal_the_evaluation(subject: str) -> None:
    registry = Registry()
    compiled = compile_kernels(SUBJECTS[subject](), "c", registry)
    compiled.compare(registry.get("tpuc.chips", "c").load(compiled.data, subject).run(compiled.inputs))


@needs_compiler
@each(
    ("subject", "right", "wrong"),
    [
        ("integers", b"case TPUC_HALF_UP: return (v + half) >> shift;", b"case TPUC_HALF_UP: return v >> shift;"),
        ("convolutions", b"acc[i] += out->bias[first + i]", b"acc[i] += out->bias[first]"),
    ],
)
def test_a_wrong_function_is_found(subject: str, right: bytes, wrong: bytes) -> None:
    compiled = compile_kernels(SUBJECTS[subject](), "c")
    files = dict(unpacked(compiled.data, subject))
    assert right in files["tpuc_math.h"]
    files["tpuc_math.h"] = files["tpuc_math.h"].replace(right, wrong)
    loaded = CHIP.load(packed(files))
    loaded.is_trusted = True
    with pytest.raises(AssertionError, match="integers differ"):
        compiled.compare(loaded.run(compiled.inputs))


def test_filters_of_nine_bits_over_several_channels_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"its filters span 256 steps, more than 8 bits hold; quantize it with"):
        compile_kernels({"wide": with_wide_filters(5, 128)}, "c")


def test_biases_of_integers_that_are_computed_are_refused() -> None:
    sums = np.zeros((1, 3, 1, 1), np.int32)
    operands = [stored((1, 2, 3, 3), 1), filters((3, 2, 1, 1), 2), sums]
    with pytest.raises(Unsupported, match=r"tpu\.Conv2D on c: an integer bias must be constant"):
        compile_kernels({"y": Sample(tpu.Conv2D(kernel_shape=(1, 1), scales=(0.004,)), operands, element(False))}, "c")


def test_every_function_is_among_the_samples() -> None:
    shown = {sample.op.name for make in SUBJECTS.values() for sample in make().values()}
    assert {str(op) for op in TABLE.cells} == shown


@each(
    ("op", "operands", "result", "sentence"),
    [
        (tpu.MulShift(multiplier=1, rshift=63), ["i8"], "i8", "shifts from -31 to 62, this one is 63"),
        (tpu.MulShift(multiplier=1, rshift=62), ["i8"], "i8", None),
        (tpu.Active(mode="LAST"), ["f32"], "f32", "mode LAST has no function"),
        (tpu.Scan(axis=0), ["i8"], "i8", "only floats, this one has i8"),
        (tpu.Scan(axis=0), ["f32"], "f32", None),
        (tpu.Compare(mode="Less"), ["i8", "i8"], "i8", "only floats, this one has i8"),
        (tpu.Compare(mode="Less"), ["i8", "i8"], "f32", None),
        (tpu.AddConst(const_val=1.0), ["i16"], "i16", "only operands of 8 bits"),
        (tpu.AddConst(const_val=1.0), ["i8"], "i8", None),
        (tpu.Active(mode="SIN"), ["f32"], "f32", None),
        (tpu.Softmax(log=True), ["i8", "f32"], "f32", "a softmax of integers has neither logarithm nor factor"),
        (tpu.Softmax(), ["i8", "f32"], "f32", None),
        (tpu.Add(), ["f16", "f16"], "f16", "only f32 and integers of 8, 16 and 32 bits, this one has f16"),
        (tpu.Add(), ["f32", "f32"], "f32", None),
        (tpu.Conv2D(kernel_shape=(1,)), ["i8", "i32"], "i8", "only filters of 8 or 16 bits, this one has i32"),
        (tpu.Conv2D(kernel_shape=(1,)), ["i8", "i16"], "i8", None),
    ],
)
def test_refusals_on_both_sides_of_their_limits(
    op: Any, operands: list[str], result: str, sentence: str | None
) -> None:
    shape = (1, 1, 4) if isinstance(op, tpu.Conv2D) else (4,)
    types = tuple(TensorType(shape, ScalarType(name)) for name in operands)
    node: Node[Any] = Node(op, types, (TensorType(shape, ScalarType(result)),))
    assert TABLE.cells[op.name].refuse(node) == sentence
