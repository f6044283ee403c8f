"""TOP ops that choose, compare and order, in every mode: the lowered op means the same and the file computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, Op
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Operand, Sample, sample_module
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.kernels.lowered import check_file
from tests.chips.lowered import EVERYTHING_IN_INTEGERS, Array, lowered_ops, path_of
from tests.families import each
from tests.turns import due, few_pairs, in_turn

FLOATS, INTEGERS = ("f32", "f16", "bf16"), ("int8", "int8-asym")
MODES = (*FLOATS, *INTEGERS)
ALIKE = (
    *(top.Arg, top.Bitwise, top.Cast, top.Compare, top.CompareConst, top.Concat, top.CumProd, top.CumSum, top.Mod),
    *(top.GatherElements, top.GatherND, top.Pad, top.Pow3, top.Slice, top.Tile, top.TopK, top.Trilu),
)
"""Ops that take and give f32 in every mode of floats, where they stand alone."""


@dataclass(frozen=True, eq=False)
class Case:
    """An op on float operands. `exact`: its results are whole numbers in every mode. `steps` of 8 bits else."""

    op: Op
    operands: list[Operand]
    exact: bool = False
    steps: float = 1.5


def grid(*shape: int, seed: int = 0) -> Array:
    """Values that every mode holds: 1/8 steps within 4, the greatest magnitude is 4."""
    rng = np.random.default_rng(seed)
    array = rng.integers(-31, 32, shape).astype(np.float32) / 8 * rng.choice(np.float32([-1, 1]), shape)
    array.reshape(-1)[0] = -4.0
    return array


def indices(*shape: int, below: int, low: int = 0, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, below, shape).astype(np.float32)


def different(*shape: int, below: int, seed: int = 0) -> Array:
    """Rows of numbers, none twice in a row."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(below)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))]
    return np.stack(rows).reshape(shape).astype(np.float32)


X, Y = grid(2, 5, 6, 7), grid(2, 5, 6, 7, seed=1)
TABLE = Fixed(grid(50, 24, seed=2))
_GATHER_ND = np.stack([indices(2, 3, below=5), indices(2, 3, below=6, low=-6, seed=1)], -1)
_PLACES = np.array([[0, 1], [4, 5], [2, -1]], np.float32)

CASES = {
    "embedding": Case(top.Gather(axis=0), [TABLE, indices(2, 9, below=50)]),
    "gather": Case(top.Gather(axis=2), [X, indices(4, below=6, low=-6)]),
    "gather_first": Case(top.Gather(axis=0), [grid(9, 70), indices(2, 3, below=9)]),
    "gather_last": Case(top.Gather(axis=-1), [X, indices(3, below=7)]),
    "gather_one": Case(top.Gather(axis=1, keepdims=False), [X, indices(1, below=5)]),
    "gather_constant": Case(top.Gather(axis=1), [X, Fixed(np.array([3, -5, 4], np.float32))]),
    "gather_slice": Case(top.Gather(axis=2), [X, Fixed(np.array([1, 3, 5], np.float32))]),
    "gather_constant_one": Case(top.Gather(axis=2, keepdims=False), [X, Fixed(np.array([-1], np.float32))]),
    "gather_far": Case(top.Gather(axis=0), [Fixed(grid(3000, 4)), np.array([2999, 2047, 2049, 0], np.float32)]),
    "gather_many": Case(top.Gather(axis=0), [grid(9, 2), indices(70000, below=9)]),
    "elements_deep": Case(top.GatherElements(axis=1), [grid(2, 5, 3, 2, 4), indices(2, 3, 3, 2, 4, below=5)]),
    "elements": Case(top.GatherElements(axis=1), [X, indices(2, 3, 6, 7, below=5, low=-5)]),
    "elements_last": Case(top.GatherElements(axis=3), [X, indices(2, 5, 6, 9, below=7)]),
    "elements_part": Case(top.GatherElements(axis=2), [X, indices(1, 4, 9, 5, below=6)]),
    "elements_constant": Case(top.GatherElements(axis=1), [X, Fixed(indices(2, 3, 6, 7, below=5, low=-5))]),
    "nd": Case(top.GatherND(batch_dims=1), [X, _GATHER_ND]),
    "nd_all": Case(top.GatherND(), [grid(4, 5), np.array([[0, 1], [3, 4], [-1, 2]], np.float32)]),
    "nd_constant": Case(top.GatherND(batch_dims=1), [X, Fixed(_GATHER_ND)]),
    "scatter": Case(
        top.ScatterElements(axis=1),
        [grid(3, 9, 4), different(3, 4, 9, below=9).swapaxes(1, 2)[:, :5].copy(), grid(3, 5, 4, seed=1)],
    ),
    "scatter_last": Case(top.ScatterElements(axis=-1), [grid(2, 9), different(2, 4, below=9), grid(2, 4, seed=1)]),
    "scatter_part": Case(top.ScatterElements(axis=1), [grid(3, 9), different(2, 4, below=9), grid(2, 4, seed=1)]),
    "scatter_constant": Case(
        top.ScatterElements(axis=1), [grid(3, 9), Fixed(different(2, 4, below=9)), Fixed(grid(2, 4, seed=1))]
    ),
    "scatter_add": Case(
        top.ScatterElements(axis=1, reduction="add"), [grid(3, 9), Fixed(different(3, 4, below=9)), grid(3, 4, seed=1)]
    ),
    "scatter_add_equal": Case(
        top.ScatterElements(axis=1, reduction="add"), [grid(3, 9), indices(3, 14, below=9, low=-9), grid(3, 14, seed=1)]
    ),
    "scatter_mul_equal": Case(
        top.ScatterElements(axis=0, reduction="mul"), [grid(5, 9), indices(3, 4, below=5), 1 + grid(3, 4, seed=1) / 8]
    ),
    "scatter_nd_min": Case(top.ScatterND(reduction="min"), [grid(5, 6, 7), indices(4, 2, below=5), grid(4, 7, seed=1)]),
    "scatter_nd_max_equal": Case(
        top.ScatterND(reduction="max"), [grid(5, 70), Fixed(np.array([[1], [4], [1]], np.float32)), grid(3, 70, seed=1)]
    ),
    "scatter_nd": Case(top.ScatterND(), [grid(5, 6, 7), _PLACES, grid(3, 7, seed=1)]),
    "scatter_nd_max": Case(top.ScatterND(reduction="max"), [grid(5, 6, 7), Fixed(_PLACES), grid(3, 7, seed=1)]),
    "scatter_nd_mul": Case(top.ScatterND(reduction="mul"), [grid(5, 6), Fixed(_PLACES), grid(3, seed=1)]),
    "where": Case(top.Where(), [indices(2, 5, 1, 7, below=2), X, Y]),
    "where_number": Case(top.Where(y_is_const=True, y_const_val=-1e9), [indices(2, 1, 6, 7, below=2), X, None]),
    "where_weights": Case(top.Where(), [X, Fixed(grid(7)), Fixed(np.full((1,), 2.0, np.float32))]),
    "where_numbers": Case(
        top.Where(x_is_const=True, y_is_const=True, x_const_val=0.0, y_const_val=-3.0), [X, None, None]
    ),
    "where_mask": Case(top.Where(), [Fixed(indices(6, 7, below=2)), X, Y]),
    "equal": Case(top.Compare(mode="Equal"), [X, Y], True),
    "less_channel": Case(top.Compare(mode="LessOrEqual"), [X, Fixed(grid(5, 1, 1, seed=3))], True),
    "not": Case(top.CompareConst(mode="Equal", const_val=0.0), [X], True),
    "far": Case(top.CompareConst(mode="Greater", const_val=2999.0), [indices(70, below=3001, low=2990)], True),
    "and": Case(top.Compare(mode="And"), [indices(3, 40, below=2), indices(3, 40, below=2, seed=1)], True),
    "bits": Case(top.Bitwise(mode="Xor"), [indices(3, 40, below=2000), indices(3, 40, below=2000, seed=1)], True),
    "mod": Case(top.Mod(), [indices(3, 40, below=2000, low=-2000), Fixed(np.array([7.0], np.float32))], True),
    "trilu": Case(top.Trilu(upper=1, diagonal=1), [X]),
    "tril": Case(top.Trilu(upper=0), [X]),
    "argmax": Case(top.Arg(axis=1), [X], True),
    "argmin_last": Case(top.Arg(axis=3, mode="ArgMin", select_last_index=True, keepdims=False), [X], True),
    "topk": Case(top.TopK(axis=-1, K=3), [X], True),
    "topk_smallest": Case(top.TopK(axis=1, K=2, largest=False), [X], True),
    "sums": Case(top.CumSum(axis=2), [X]),
    "sums_back": Case(top.CumSum(axis=1, reverse=True, exclusive=True), [X]),
    "products": Case(top.CumProd(axis=3), [grid(2, 3, 4, 3)]),
    "products_back": Case(top.CumProd(axis=1, reverse=True, exclusive=True), [1 + grid(2, 3, 4, 3) / 8], steps=4),
    "bits_shared": Case(
        top.Bitwise(mode="And"), [indices(3, 40, below=2000), indices(3, 40, below=2000, seed=1)], True
    ),
    "mod_of_sign": Case(
        top.Mod(fmod=True), [indices(3, 40, below=2000, low=-2000), Fixed(np.array([7.0], np.float32))], True
    ),
}

_LEFT, _RIGHT = grid(2, 3, 9, 20), grid(2, 3, 20, 12, seed=1)
_POWERS = uniform(3, 40, low=-3, high=3, seed=1)
CASES |= {
    "cast_whole": Case(top.Cast(to="INT64"), [X], True),
    "cast_byte": Case(top.Cast(to="INT8"), [indices(3, 70, below=600, low=-600)], True),
    "cast_unsigned": Case(top.Cast(to="UINT8"), [indices(3, 70, below=600, low=-600)], True),
    "cast_bool": Case(top.Cast(to="BOOL"), [X], True),
    "cast_float": Case(top.Cast(to="FLOAT"), [X]),
    "cast_half": Case(top.Cast(to="FLOAT16"), [uniform(3, 70)]),
    "powers": Case(top.Pow3(), [uniform(3, 40, low=0.2, high=3), _POWERS], steps=4),
    "powers_of_two": Case(top.Pow3(), [Fixed(np.full((1,), 2.0, np.float32)), _POWERS], steps=4),
    "powers_whole": Case(top.Pow3(), [grid(3, 40), indices(3, 40, below=4)], steps=4),
    "product": Case(top.Reduce(axes=(1,), mode="ReduceProd"), [1 + grid(3, 11, 7) / 8], steps=2),
    "product_apart": Case(
        top.Reduce(axes=(0, 2), mode="ReduceProd", keepdims=False), [1 + grid(3, 11, 4) / 8], steps=2
    ),
    "concat_constant": Case(top.Concat(axis=1), [X, Fixed(grid(2, 3, 6, 7, seed=5))], steps=3),
    "constant_concat": Case(top.Concat(axis=-1), [Fixed(grid(2, 5, 6, 1, seed=5)), X, Y], steps=3),
    "pad_reflect": Case(top.Pad(paddings=(0, 0, 1, 2, 0, 0, 3, 1), mode="reflect"), [X]),
    "pad_edge": Case(top.Pad(paddings=(0, 2, 0, 2, 1, 0, 0, 1), mode="edge"), [X]),
    "pad_cut": Case(top.Pad(paddings=(0, -2, 0, 2, 0, 0, 0, -1), mode="edge"), [X]),
    "pad_far": Case(top.Pad(paddings=(0, 300, 0, 300), mode="reflect"), [grid(2, 400)]),
    "backwards": Case(top.Slice(offset=(-1, 1), steps=(-1, 2), ends=(-700, 70)), [grid(600, 70)]),
    "backwards_part": Case(top.Slice(offset=(0, 560), steps=(1, -2), ends=(2, 10)), [grid(3, 600)]),
    "tile_often": Case(top.Tile(tile=(1, 1100, 1)), [grid(2, 1, 3)]),
    "tile_twice": Case(top.Tile(tile=(1, 1024)), [grid(2, 2)]),
    "sum_of_three": Case(top.Add(do_relu=True), [X, Y, grid(5, 1, 1, seed=2)], steps=2),
    "sum_with_factors": Case(top.Add(coeff=(1.0, -0.5)), [X, Y], steps=4),
    "sum_of_many": Case(top.Add(coeff=(1.0, -0.5, 2.0)), [X, Fixed(grid(5, 1, 1)), Y], steps=2),
    "difference_with_factors": Case(top.Sub(coeff=(0.5, 2.0), is_reverse=True), [X, Y], steps=4),
    "product_of_three": Case(top.Mul(), [X, Y, grid(5, 1, 1, seed=2)], steps=2),
    "left_turned": Case(top.MatMul(left_transpose=True), [_LEFT.swapaxes(2, 3).copy(), _RIGHT, None], steps=4),
    "result_turned": Case(
        top.MatMul(output_transpose=True, right_transpose=True), [_LEFT, _RIGHT.swapaxes(2, 3).copy(), None], steps=4
    ),
    "vector": Case(top.MatMul(), [grid(20), Fixed(grid(20, 12)), None], steps=4),
    "vector_computed": Case(top.MatMul(), [grid(20), grid(3, 20, 12), None], steps=4),
    "left_constant": Case(top.MatMul(left_transpose=True), [Fixed(grid(20, 9)), grid(20, 12), None], steps=4),
    "repeated_left": Case(top.MatMul(), [grid(9, 20), _RIGHT, None], steps=4),
    "repeated_right": Case(top.MatMul(), [_LEFT, grid(3, 20, 12), None], steps=4),
    "repeated_both": Case(top.MatMul(), [grid(2, 1, 9, 20), grid(1, 3, 20, 12), None], steps=4),
    "constant_turned": Case(
        top.MatMul(left_transpose=True, output_transpose=True, do_relu=True),
        [grid(2, 20, 9), Fixed(grid(20, 12)), Fixed(grid(12))],
        steps=4,
    ),
}


def _module(operands: Sequence[Operand], op: Op) -> tuple[Module, dict[str, Array], dict[str, Array]]:
    module, inputs = sample_module({"y": Sample(op, operands)}, Registry())
    return module, inputs, Interpreter(module).run(inputs, "all")


def whole_network(mode: str, thorough: bool) -> tuple[Module, dict[str, Array], CalibrationTable]:
    """Cases side by side, with their inputs and the ranges of all values: all of them, or those whose turn it is in a
    mode.
    """
    cases = CASES if thorough else due(CASES, MODES, mode)
    samples = {name: Sample(case.op, case.operands) for name, case in cases.items()}
    module, inputs = sample_module(samples, Registry())
    return module, inputs, _table(Interpreter(module).run(inputs, "all"))


def _table(values: dict[str, Array]) -> CalibrationTable:
    """Every value's own range, inputs' on their grid."""
    entries: dict[str, TensorThreshold] = {}
    for name, array in values.items():
        greatest = max(float(np.abs(array).max()), 1e-3)
        entries[name] = TensorThreshold(greatest, min(float(array.min()), -1e-3), max(float(array.max()), 1e-3))
    return CalibrationTable(entries)


SAME = {name: case for name, case in CASES.items() if isinstance(case.op, ALIKE)}
OTHERS = {name: case for name, case in CASES.items() if name not in SAME}


@each("name", SAME)
def test_ops_are_lowered_alike_in_every_mode_of_floats(name: str) -> None:
    """So that compiling and running them in one of these modes is enough."""
    modules = [
        (Session(chip="bm1684x", quantize=mode), _module(SAME[name].operands, SAME[name].op)[0]) for mode in FLOATS
    ]
    found = [lowered_ops(session, module) for session, module in modules]
    assert found[0] == found[1] == found[2]


@each(
    ("name", "mode"),
    [*in_turn(OTHERS, MODES, path_of), *in_turn(SAME, ("f32", *INTEGERS), path_of, few_pairs)],
)
def test_the_lowered_op_means_the_same(name: str, mode: str) -> None:
    case = CASES[name]
    module, inputs, values = _module(case.operands, case.op)
    integer = mode.startswith("int8")
    session = Session(chip="bm1684x", quantize=mode, opt=1, pipelines=EVERYTHING_IN_INTEGERS)
    final, data = build_exposed(session, module, _table(values) if integer else None)
    result = check_file(session, final, data, inputs)
    type_ = next(o.result.tensor for o in final.main.operations if o.results and o.name == "y")
    wanted = values["y"].reshape(result.shape)
    found = real_values(result, type_) if type_.is_quantized else result.astype(np.float32)
    if case.exact and not name.startswith("topk"):
        assert np.array_equal(found, wanted)
        return
    if mode == "f16":
        wanted = np.clip(wanted, -65504, 65504)
    bound = {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}.get(mode, case.steps / 120)
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()
