"""Samples of functions that move by index, compare, order, repeat over steps, or multiply computed operands."""

from __future__ import annotations

from typing import Any

import numpy as np
from tpuc.api import F32, ScalarType, TensorType, Uniform
from tpuc_ops import tpu
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Sample
from tpuc_testing.op_conformance import Typed

SHAPE = (2, 6, 5, 4)


def byte(unsigned: bool = False, scale: float = 0.1, point: int = 0) -> Uniform:
    return Uniform(ScalarType("u8" if unsigned else "i8"), F32, scale, point)


def stored(shape: tuple[int, ...], seed: int, unsigned: bool = False, point: int = 0) -> Typed:
    array = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return Typed(array if unsigned else array.view(np.int8), TensorType(shape, byte(unsigned, point=point)))


def steps(*shape: int, seed: int = 0, low: float = -3, high: float = 3) -> np.ndarray:
    """Whole numbers, of which many are equal."""
    return np.rint(uniform(*shape, low=low, high=high, seed=seed))


def rows(*shape: int, seed: int = 0, most: int = 6) -> Fixed:
    """Places, some of them outside."""
    return Fixed(np.random.default_rng(seed).integers(-1, most + 1, shape).astype(np.int32))


def choices() -> dict[str, Sample]:
    x, y, row = steps(*SHAPE), steps(*SHAPE, seed=1), steps(5, 1, seed=2)
    modes = ("Equal", "NotEqual", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor")
    samples = {f"compare_{mode}": Sample(tpu.Compare(mode=mode), [x, y if mode < "G" else row]) for mode in modes}
    for mode in modes[:6]:
        for turned in (False, True):
            op = tpu.CompareConst(mode=mode, const_val=1.0, inversed=turned)
            samples[f"compare_const_{mode}_{turned}"] = Sample(op, [x])
    for mode, bits in (("And", 0), ("Or", 4), ("Xor", 0), ("ShiftLeft", 6), ("ShiftRight", 0)):
        shifts = steps(*SHAPE, seed=3, low=0, high=9)
        samples[f"bits_{mode}"] = Sample(tpu.Bitwise(mode=mode, bits=bits), [steps(*SHAPE, low=0, high=99), shifts])
    signs = np.where(steps(*SHAPE, seed=5) > 0, np.float32(1), np.float32(-1))
    divisors = uniform(*SHAPE, low=0.5, high=3, seed=4) * signs
    for whole in (False, True):
        samples[f"remainder_{whole}"] = Sample(tpu.Remainder(fmod=whole), [uniform(*SHAPE, low=-20, high=20), divisors])
    wide = uniform(*SHAPE, low=-70000, high=70000, seed=6)
    samples |= {f"truncate_{to}": Sample(tpu.Truncate(to=to), [wide]) for to in ("INT8", "UINT8", "INT16", "UINT32")}
    samples["where"] = Sample(tpu.Where(), [x, uniform(*SHAPE), uniform(5, 1, seed=1)])
    samples["where_number"] = Sample(tpu.Where(y_is_const=True, y_const_val=-7.5), [row, uniform(*SHAPE), None])
    samples["row_index"] = Sample(tpu.RowIndex(extent=9, stride=4), [steps(3, 7)])
    samples["row_index_plus"] = Sample(tpu.RowIndex(extent=9), [steps(3, 7), rows(3, 7)])
    return samples


def ordered() -> dict[str, Sample]:
    x, flat = steps(*SHAPE), steps(3, 17)
    samples: dict[str, Sample] = {}
    for axis in range(4):
        for mode in ("ArgMax", "ArgMin"):
            op = tpu.Arg(axis=axis, mode=mode, keepdims=bool(axis % 2), select_last_index=axis > 1)
            samples[f"{mode}_{axis}"] = Sample(op, [x])
        scan = tpu.Scan(axis=axis, mode=("Sum", "Prod")[axis % 2], exclusive=axis > 1, reverse=axis in (0, 3))
        samples[f"scan_{axis}"] = Sample(scan, [uniform(*SHAPE, low=0.5, high=1.5)])
    samples |= {f"rank_{largest}": Sample(tpu.Rank(largest=largest), [flat, flat]) for largest in (False, True)}
    data = uniform(3, 6, 5)
    samples["gather"] = Sample(tpu.GatherRows(), [data, rows(3, 4)])
    samples["gather_alike"] = Sample(tpu.GatherRows(), [data, rows(1, 9)])
    updates = uniform(3, 4, 5, seed=1)
    samples["scatter"] = Sample(tpu.ScatterRows(), [data, rows(3, 4), updates])
    samples["scatter_constant"] = Sample(tpu.ScatterRows(), [Fixed(data), rows(1, 4), updates])
    for mode in ("ReduceProd", "ReduceL1", "ReduceL2", "ReduceMin"):
        samples[mode] = Sample(tpu.Reduce(axes=(1, 3), mode=mode, keepdims=False), [uniform(*SHAPE)])
    for mode, cut in (("constant", 2), ("reflect", 0), ("edge", 1)):
        op = tpu.Pad(paddings=(0, -cut, 1, 2, 0, 1, 2, -cut), mode=mode, val=0.5)
        samples[f"pad_{mode}"] = Sample(op, [uniform(*SHAPE)])
    return samples


def recurrent() -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for reverse in (False, True):
            op = tpu.RecurrentSteps(
                kind=kind, hidden_size=5, steps=3, reverse=reverse, linear_before_reset=reverse,
                activation="Relu" if kind == "RNN" and reverse else "Tanh",
            )  # fmt: skip
            states = [uniform(2, 5, seed=3), uniform(2, 5, seed=4)] if reverse else [None, None]
            operands = [uniform(6, gates * 8, seed=1), Fixed(uniform(gates * 8, 5, seed=2)), Fixed(uniform(gates * 8))]
            samples[f"{kind}_{reverse}"] = Sample(op, [*operands, *states])
    return samples


def products() -> dict[str, Sample]:
    left, right = uniform(2, 3, 7, 8), uniform(2, 3, 8, 9, seed=1)
    factors: dict[str, Any] = {"multipliers": (1 << 30,), "rshifts": (38,)}
    one = {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1), "dilations": (1, 2)}
    groups = Fixed(uniform(2, 6, 3, 2, seed=4))
    bytes_ = Fixed(np.random.default_rng(5).integers(-128, 128, (4, 6, 3, 2)).astype(np.int8), "si8")
    sums = Fixed(np.random.default_rng(6).integers(-900, 900, (1, 4, 1, 1)).astype(np.int32))
    requantized = {"multiplier": (1 << 30,) * 4, "rshift": (37,) * 4}
    return {
        "product": Sample(tpu.MatMul(do_relu=True), [left, right, None, None, None]),
        "product_turned": Sample(
            tpu.MatMul(right_transpose=True, output_transpose=True),
            [left, right.swapaxes(2, 3).copy(), None, None, None],
        ),
        "product_repeated": Sample(tpu.MatMul(), [uniform(3, 7, 8), right, uniform(9, seed=2), None, None]),
        "product_left": Sample(
            tpu.MatMul(left_transpose=True), [uniform(8, 7), Fixed(uniform(8, 9)), Fixed(uniform(1, 9)), None, None]
        ),
        "product_bytes": Sample(
            tpu.MatMul(right_zp=3, **factors), [stored((2, 5, 8), 1), stored((2, 8, 9), 2), None, None, None], byte()
        ),
        "product_points": Sample(
            tpu.MatMul(input_zp=7, right_transpose=True, **factors),
            [stored((2, 5, 8), 1, True, 7), stored((9, 8), 2), None, None, None],
            byte(point=4),
        ),
        "product_bias": Sample(tpu.MatMul(), [uniform(5, 8), Fixed(uniform(8, 9)), uniform(1, 9, seed=2), None, None]),
        "conv_bias": Sample(
            tpu.Conv2D(kernel_shape=(3, 2)), [uniform(*SHAPE), Fixed(uniform(3, 6, 3, 2)), uniform(1, 3, 1, 1, seed=2)]
        ),
        "depthwise_bias": Sample(
            tpu.Conv2D(kernel_shape=(3, 2), group=6),
            [uniform(*SHAPE), Fixed(uniform(6, 1, 3, 2)), uniform(1, 6, 1, 1, seed=2)],
        ),
        "deconv_bias": Sample(
            tpu.Deconv(**one), [uniform(2, 6, 4, 5), Fixed(uniform(4, 6, 3, 2)), uniform(1, 4, 1, 1, seed=2)]
        ),
        "deconv": Sample(tpu.Deconv(**one, do_relu=True), [uniform(2, 6, 4, 5), Fixed(uniform(4, 6, 3, 2)), None]),
        "deconv_groups": Sample(
            tpu.Deconv(**one, group=3, output_padding=(1, 2)), [uniform(1, 6, 4, 5), groups, Fixed(uniform(1, 6, 1, 1))]
        ),
        "deconv_bytes": Sample(
            tpu.Deconv(**one, **requantized), [stored((1, 6, 4, 5), 7), bytes_, sums], byte(point=3)
        ),
        "deconv_sums": Sample(tpu.Deconv(**one), [stored((1, 6, 4, 5), 8), bytes_, sums]),
        "add_const": Sample(tpu.AddConst(const_val=900.0, multiplier=37, rshift=6), [stored(SHAPE, 9)], byte(point=2)),
    }
