"""Kernel samples of BM1684X for places: gathers, scatters, comparisons, choices, order and running sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tpuc.api import BF16, F16, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_testing import Typed, integers, uniform
from tpuc_testing.kernel_conformance import Fixed, Sample

from tests.chips.bm1684x.kernels.samples import I8, i8

I32 = ScalarType("i32")


def places(*shape: int, below: int, seed: int = 0) -> Typed:
    """int32 from 0 up to `below`, which is left out."""
    return Typed(np.random.default_rng(seed).integers(0, below, shape, dtype=np.int32), TensorType(shape, I32))


def different(rows: int, count: int, below: int, seed: int = 0) -> Typed:
    """int32 in rows, no number twice in one."""
    rng = np.random.default_rng(seed)
    array = np.stack([rng.permutation(below)[:count] for _ in range(rows)]).astype(np.int32)
    return Typed(array, TensorType(array.shape, I32))


def few(*shape: int, seed: int = 0) -> np.ndarray:
    """Floats of few values: many are equal, and zeros are of both signs."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, shape).astype(np.float32) / 2 * rng.choice(np.float32([-1, 1]), shape)


def counts(*shape: int, below: int, seed: int = 0) -> np.ndarray:
    """Whole numbers as floats."""
    return places(*shape, below=below, seed=seed).array.astype(np.float32)


def half(array: np.ndarray) -> Typed:
    return Typed(array.astype(np.float16), TensorType(array.shape, F16))


def brain(array: np.ndarray) -> Typed:
    return Typed(array.astype(ml_dtypes.bfloat16), TensorType(array.shape, BF16))


ROWS = {
    "gather": Sample(tpu.GatherRows(), [uniform(1, 50, 33), places(1, 17, below=50)]),
    "gather_bytes": Sample(tpu.GatherRows(), [i8(3, 50, 7), places(1, 90, below=50)]),
    "gather_each": Sample(tpu.GatherRows(), [uniform(70, 9, 1), places(70, 20, below=9)]),
    "gather_half": Sample(tpu.GatherRows(), [half(uniform(2, 9, 5)), places(2, 20, below=9)]),
    "gather_from_constant": Sample(tpu.GatherRows(), [Fixed(uniform(1, 50, 33)), places(1, 17, below=50)]),
    "gather_by_constant": Sample(tpu.GatherRows(), [uniform(4, 50, 3), Fixed(places(1, 17, below=50).array)]),
    "gather_beyond": Sample(
        tpu.GatherRows(), [uniform(1, 5, 3), Typed(np.array([[4, -1, 5, 0]], np.int32), TensorType((1, 4), I32))]
    ),
    "gather_wide": Sample(tpu.GatherRows(), [i8(1, 3, 70000), places(1, 4, below=3)]),
    "scatter": Sample(tpu.ScatterRows(), [uniform(1, 50, 33), different(1, 17, 50), uniform(1, 17, 33, seed=1)]),
    "scatter_bytes": Sample(tpu.ScatterRows(), [i8(3, 50, 7), different(3, 20, 50), i8(3, 20, 7, seed=1)]),
    "scatter_shared": Sample(tpu.ScatterRows(), [i8(3, 50, 7), different(1, 20, 50), i8(3, 20, 7, seed=1)]),
    "scatter_by_constant": Sample(
        tpu.ScatterRows(), [uniform(4, 50, 3), Fixed(different(1, 17, 50).array), Fixed(uniform(4, 17, 3))]
    ),
    "scatter_alone": Sample(
        tpu.ScatterRows(), [None, different(3, 50, 50), i8(3, 50, 2, seed=1)], TensorType((3, 20, 2), I8)
    ),
    "index": Sample(
        tpu.RowIndex(extent=9, stride=7), [integers(3, 70).astype(np.float32) % 9 - 5], tilings=({"c": 64},)
    ),
    "index_of_half": Sample(tpu.RowIndex(extent=9), [half(few(3, 70) * 2)]),
    "index_sum": Sample(
        tpu.RowIndex(extent=5, stride=11),
        [
            few(2, 3, 5),
            places(2, 3, 5, below=100),
        ],
        tilings=({"h": 2},),
    ),
    "index_base": Sample(tpu.RowIndex(extent=5, stride=-11), [few(2, 3, 5), Fixed(places(3, 1, below=100).array)]),
    "index_more": Sample(tpu.RowIndex(extent=4, stride=3), [places(2, 40, below=4), places(2, 40, below=9, seed=1)]),
}

_X, _Y = few(2, 70, 5, 6), few(2, 70, 5, 6, seed=1)
_TILINGS = ({"n": 1, "h": 2}, {"c": 64, "w": 5})
LOGIC = {
    **{
        mode: Sample(tpu.Compare(mode=mode), [_X, _Y], tilings=_TILINGS if mode == "LessOrEqual" else ())
        for mode in ("Equal", "NotEqual", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor")
    },
    "half": Sample(tpu.Compare(mode="Greater"), [half(_X), half(_Y)]),
    "repeated": Sample(tpu.Compare(mode="Less"), [few(1, 1, 5, 6), few(2, 70, 1, 6)], tilings=_TILINGS),
    "flat": Sample(tpu.Compare(mode="Equal"), [few(3, 640), few(3, 640, seed=1)]),
    **{
        f"const_{mode}": Sample(tpu.CompareConst(mode=mode, const_val=0.5), [_X])
        for mode in ("Equal", "NotEqual", "Greater", "LessOrEqual", "And", "Or", "Xor")
    },
    "const_inversed": Sample(tpu.CompareConst(mode="GreaterOrEqual", const_val=0.5, inversed=True), [brain(_X)]),
    "const_not": Sample(tpu.CompareConst(mode="Equal", const_val=0.0), [half(_X)]),
    "where": Sample(tpu.Where(), [_X, _Y, few(2, 70, 5, 6, seed=2)], tilings=_TILINGS),
    "where_repeated": Sample(tpu.Where(), [few(1, 1, 5, 6), _Y, few(70, 1, 1, seed=2)], tilings=_TILINGS),
    "where_bytes": Sample(tpu.Where(), [_X, i8(2, 70, 5, 6), i8(1, 1, 5, 6, seed=1)], tilings=_TILINGS),
    "where_byte_condition": Sample(
        tpu.Where(y_is_const=True, y_const_val=-7.0),
        [Fixed(integers(5, 6, dtype="uint8") // 200), i8(2, 70, 5, 6), None],
    ),
    "where_number": Sample(tpu.Where(x_is_const=True, x_const_val=-65504.0), [half(_X), None, half(_Y)]),
    "where_grown": Sample(tpu.Where(y_is_const=True, y_const_val=2.5), [few(1, 3, 1), few(2, 3, 40), None]),
    "where_scalar": Sample(tpu.Where(), [few(40), few(1), few(3, 40)]),
    **{
        f"bits_{mode}": Sample(
            tpu.Bitwise(mode=mode), [integers(2, 70, 5).astype(np.float32), integers(70, 1, seed=1).astype(np.float32)]
        )
        for mode in ("And", "Or", "Xor")
    },
    "bits_far": Sample(
        tpu.Bitwise(mode="And"),
        [counts(2, 70, below=1 << 24), np.full((1, 1), 0xFF0F0F, np.float32)],
    ),
    "bits_left": Sample(
        tpu.Bitwise(mode="ShiftLeft", bits=8),
        [counts(2, 70, below=256), counts(70, below=8)],
    ),
    "bits_right": Sample(
        tpu.Bitwise(mode="ShiftRight", bits=8),
        [counts(2, 70, below=256), counts(70, below=8)],
    ),
    "rest": Sample(
        tpu.Remainder(),
        [integers(3, 70, 4).astype(np.float32), np.array([[3], [-7], [1], [16]], np.float32).reshape(4)],
    ),
    "rest_c": Sample(
        tpu.Remainder(fmod=True),
        [integers(3, 70, 4).astype(np.float32), np.array([3, -7, 1, 16], np.float32)],
        tilings=({"h": 2},),
    ),
    "rest_far": Sample(
        tpu.Remainder(),
        [
            counts(3, 700, below=1 << 23),
            counts(3, 700, below=5000, seed=1) + 1,
        ],
    ),
}

ORDER = {
    "argmax": Sample(tpu.Arg(axis=1), [few(2, 70, 5, 6)], tilings=({"c": 1, "h": 7}, {"k": 64})),
    "argmax_last": Sample(
        tpu.Arg(axis=3, select_last_index=True, keepdims=False),
        [few(2, 7, 5, 200)],
        tilings=({"k": 64}, {"c": 7, "k": 128}),
    ),
    "argmin": Sample(tpu.Arg(axis=-1, mode="ArgMin"), [few(70, 200)], tilings=({"k": 64},)),
    "argmin_last": Sample(tpu.Arg(axis=0, mode="ArgMin", select_last_index=True), [few(200, 70)], tilings=({"k": 64},)),
    "argmax_bytes": Sample(tpu.Arg(axis=1), [i8(3, 300)], tilings=({"k": 128},)),
    "argmin_half": Sample(tpu.Arg(axis=1, mode="ArgMin"), [half(uniform(3, 300))]),
    "argmax_rows": Sample(tpu.Arg(axis=1), [few(2, 21, 8, 16)], tilings=({"k": 5}, {"n": 1, "w": 1, "k": 20})),
    "argmax_rows_last": Sample(tpu.Arg(axis=1, select_last_index=True), [few(2, 9, 130)], tilings=({"k": 4},)),
    "argmin_rows": Sample(tpu.Arg(axis=0, mode="ArgMin", keepdims=False), [half(few(21, 128))], tilings=({"k": 4},)),
    "argmin_rows_bytes": Sample(tpu.Arg(axis=0, mode="ArgMin", select_last_index=True), [i8(40, 66)]),
    "argmax_long": Sample(tpu.Arg(axis=1), [uniform(1, 70000)]),
    "argmax_one": Sample(tpu.Arg(axis=1), [uniform(3, 1, 5)]),
    "sums": Sample(tpu.Scan(axis=1), [uniform(2, 33, 5)], tilings=({"c": 1}, {"w": 2})),
    "sums_lanes": Sample(tpu.Scan(axis=2), [uniform(2, 40, 37)], tilings=({"c": 64},)),
    "sums_inner": Sample(tpu.Scan(axis=0, reverse=True), [uniform(9, 128)], tilings=({"w": 1},)),
    "sums_exclusive": Sample(tpu.Scan(axis=1, exclusive=True), [half(uniform(2, 33, 5))]),
    "sums_back": Sample(tpu.Scan(axis=1, exclusive=True, reverse=True), [brain(uniform(2, 33, 5))]),
    "sums_long": Sample(tpu.Scan(axis=1), [uniform(3, 5000)]),
    "sum_of_one": Sample(tpu.Scan(axis=1, exclusive=True), [uniform(3, 1, 5)]),
    "products": Sample(tpu.Scan(axis=2, mode="Prod"), [uniform(2, 3, 20, low=0.5, high=1.5)]),
    "products_back": Sample(
        tpu.Scan(axis=2, mode="Prod", reverse=True, exclusive=True), [uniform(2, 3, 20, low=0.5, high=1.5)]
    ),
}
_ROW = few(3, 200)
for _name, _largest in (("largest", True), ("smallest", False)):
    ORDER[_name] = Sample(tpu.Rank(largest=_largest), [_ROW, _ROW], tilings=({"k": 64}, {"n": 1, "c": 64, "k": 128}))
_LONG = few(1, 2500)
ORDER["rank_long"] = Sample(tpu.Rank(), [_LONG, _LONG], tilings=({"c": 192, "k": 192},))
ORDER["rank_bytes"] = Sample(tpu.Rank(), [i8(2, 100), i8(2, 100)])
ORDER["rank_half"] = Sample(tpu.Rank(), [half(uniform(1, 100)), half(uniform(1, 100))])
for _name, _largest in (("best", True), ("worst", False)):
    ORDER[_name] = Sample(tpu.BestPlaces(kept=300, largest=_largest), [few(3, 1024)], tilings=({"n": 2}, {"n": 1}))
    ORDER[f"{_name}_half"] = Sample(tpu.BestPlaces(kept=7, largest=_largest), [half(uniform(2, 2048))])
    ORDER[f"{_name}_brain"] = Sample(tpu.BestPlaces(kept=1000, largest=_largest), [brain(uniform(1, 1024))])
    ORDER[f"{_name}_bytes"] = Sample(tpu.BestPlaces(kept=100, largest=_largest), [i8(2, 3072)])
ORDER["best_of_all"] = Sample(tpu.BestPlaces(kept=2047), [uniform(2, 2048)])

ALL = {"rows": ROWS, "logic": LOGIC, "order": ORDER}
