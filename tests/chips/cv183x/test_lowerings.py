"""TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tpuc.api import F32, LoweringNode, Op, TensorType
from tpuc_cv18.lowerings import TABLE
from tpuc_cv183x.chip import CHIP
from tpuc_ops import top

from tests.chips.cv18.lowered import check_layers, compile_layers
from tests.chips.cv18.more_lowering_cases import LAYERS
from tests.chips.cv18.steps import check_steps
from tests.chips.layer_cases import LayerCase
from tests.chips.lowered import Array, path_of
from tests.families import each
from tests.turns import single_pairs

MODES = ("int8", "bf16")
_CASES = {f"{group}.{name}": case for group, layers in LAYERS for name, case in layers.items()}
_IN_BOTH = {name: case for name, case in _CASES.items() if all(map(case.has, MODES))}
QUICK = single_pairs(_IN_BOTH, MODES, path_of) | {
    (name, mode) for name, case in _CASES.items() if name not in _IN_BOTH for mode in MODES if case.has(mode)
}
"""Modes take turns where a case has both."""


# Most time goes into plans that join ops, of which these ops side by side have little: networks are planned as usual.
@each("opt", [pytest.param(1, id="opt1"), pytest.param(None, marks=pytest.mark.slow, id="usual")])
@each("mode", MODES)
@each("group", [name for name, _ in LAYERS])
def test_lowered_ops_are_close_and_the_file_computes_them(group: str, mode: str, opt: int | None) -> None:
    layers: Mapping[str, LayerCase] = dict(LAYERS)[group]
    if opt is not None:
        layers = {name: case for name, case in layers.items() if (f"{group}.{name}", mode) in QUICK}
    compiled = compile_layers(layers, mode, opt)
    got = compiled.session.chip.load(compiled.data).run(compiled.inputs)
    check_steps(compiled.final, {**got, **compiled.inputs})
    check_layers(layers, mode, compiled, got)


def t(*dims: int) -> TensorType:
    return TensorType(dims, F32)


IMAGE = t(1, 4, 20, 20)
ARRAY = np.ones((4, 4, 3, 3), np.float32)
FAR = "a stride above 15 needs windows that do not overlap, without groups and dilation; this one is 16"
FAR_PLACES = (
    "an axis of at most 256 elements, this one has 1000: bf16 cannot represent larger indices; output the values and "
    "search them outside"
)
REFUSALS: dict[str, tuple[Op, list[TensorType], list[Array | None], TensorType, str]] = {
    "computed_filter": (
        top.Conv(kernel_shape=(3, 3)),
        [IMAGE, t(4, 4, 3, 3)],
        [None, None],
        t(1, 4, 18, 18),
        "the filter must be a constant",
    ),
    "volumes": (
        top.Conv(kernel_shape=(3, 3, 3)),
        [t(1, 4, 5, 5, 5), t(4, 4, 3, 3, 3)],
        [None, ARRAY],
        t(1, 4, 3, 3, 3),
        "only 2-D windows, this one has 3 dimensions",
    ),
    "far_overlap": (
        top.Conv(kernel_shape=(17, 3), strides=(16, 1)),
        [IMAGE, t(4, 4, 17, 3)],
        [None, ARRAY],
        t(1, 4, 1, 18),
        FAR,
    ),
    "far_groups": (
        top.Conv(kernel_shape=(3, 3), strides=(16, 16), group=4),
        [IMAGE, t(4, 1, 3, 3)],
        [None, ARRAY],
        t(1, 4, 2, 2),
        FAR,
    ),
    "pool_volumes": (
        top.MaxPool(kernel_shape=(2, 2, 2)),
        [t(1, 4, 6, 6, 6)],
        [None],
        t(1, 4, 5, 5, 5),
        "only 2-D windows, this one has 3 dimensions",
    ),
    "vector": (top.MatMul(), [t(4), t(4, 5)], [None, None], t(5), "two matrices, one operand is a vector"),
    "batches_in_rows": (
        top.MatMul(hdim_is_batch=True),
        [t(1, 3, 2, 4), t(1, 4, 2, 5)],
        [None, None],
        t(1, 3, 2, 5),
        "hdim_is_batch has no kernel; permute the operands so that batches come first",
    ),
    "deconv_filter": (
        top.Deconv(kernel_shape=(3, 3)),
        [IMAGE, t(4, 4, 3, 3)],
        [None, None],
        t(1, 4, 22, 22),
        "the filter must be a constant",
    ),
    "deconv_volumes": (
        top.Deconv(kernel_shape=(3, 3, 3)),
        [t(1, 4, 5, 5, 5), t(4, 4, 3, 3, 3)],
        [None, ARRAY],
        t(1, 4, 7, 7, 7),
        "only 2-D windows, this one has 3 dimensions",
    ),
    "deconv_far_dilation": (
        top.Deconv(kernel_shape=(9, 3), dilations=(3, 1)),
        [IMAGE, t(4, 4, 9, 3)],
        [None, np.ones((4, 4, 9, 3), np.float32)],
        t(1, 4, 44, 22),
        "a window of more than 16 places has no dilation here, this one is 3",
    ),
    "deconv_far_strides": (
        top.Deconv(kernel_shape=(17, 3)),
        [IMAGE, t(4, 4, 17, 3)],
        [None, np.ones((4, 4, 17, 3), np.float32)],
        t(1, 4, 36, 22),
        "a window of at most 16 strides, this one has 17",
    ),
    "interp_rank": (
        top.Interp(mode="linear", coord_mode="half_pixel"),
        [t(1, 4, 20)],
        [None],
        t(1, 4, 40),
        "only images of 4 dimensions, this one has 3",
    ),
    "gather_many": (
        top.Gather(),
        [t(300, 4), t(3)],
        [np.ones((300, 4), np.float32), None],
        t(3, 4),
        "computed indices select from at most 256 rows, here 300; look up the rows outside and make them an input",
    ),
    "gather_runs": (
        top.Gather(),
        [t(2000, 4), t(2400)],
        [None, np.arange(2400, dtype=np.float32) ** 2 % 1999],
        t(2400, 4),
        "indices of at most 1024 runs, these have 1200",
    ),
    "cast": (
        top.Cast(to="INT16"),
        [IMAGE],
        [None],
        IMAGE,
        "types FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32, INT64, INT8, UINT8, BOOL, this one is INT16",
    ),
    "arg_places": (
        top.Arg(axis=1),
        [t(3, 1000)],
        [None],
        t(3, 1),
        FAR_PLACES,
    ),
    "concat_constant": (
        top.Concat(axis=1),
        [IMAGE, IMAGE],
        [np.ones((1, 4, 20, 20), np.float32)] * 2,
        t(1, 8, 20, 20),
        "all operands are constants; fold the op",
    ),
    "prelu": (
        top.PRelu(),
        [IMAGE, t(1, 1, 20, 1)],
        [None, np.ones((1, 1, 20, 1), np.float32)],
        IMAGE,
        "one slope, or one per channel; there are 20 for 4 channels",
    ),
    "reduce_mode": (
        top.Reduce(axes=(2,), mode="ReduceProd"),
        [IMAGE],
        [None],
        t(1, 4, 1, 20),
        "mode ReduceProd has no kernel, only ReduceMean, ReduceMax, ReduceSum, ReduceMin, ReduceL1, ReduceL2",
    ),
    "reduce_prime": (
        top.Reduce(axes=(1,), mode="ReduceMean"),
        [t(1, 4093, 5)],
        [None],
        t(1, 1, 5),
        "at most 4063 values in a row, or a product of two such numbers, here 4093",
    ),
    "constants": (
        top.Max(),
        [t(1), IMAGE],
        [np.zeros(1, np.float32)] * 2,
        IMAGE,
        "all operands are constants; fold the op",
    ),
    "divisor": (
        top.Div(),
        [IMAGE, t(1)],
        [None, np.zeros(1, np.float32)],
        IMAGE,
        "a constant divisor must not contain 0",
    ),
}


def _refusal(name: str, mode: str) -> str | None:
    op, operands, constants, result, _ = REFUSALS[name]
    node = LoweringNode(op, tuple(operands), (result,), "y", (), tuple(constants), mode, CHIP.description)
    return TABLE.cells[op.name, mode].refuse(node)


@each("name", REFUSALS)
@each("mode", ["int8", "bf16"])
def test_what_is_outside_is_refused_by_a_sentence(name: str, mode: str) -> None:
    assert _refusal(name, mode) == REFUSALS[name][-1]
