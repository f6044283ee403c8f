"""TOP ops by themselves: the lowered op is close to the float one, and the file computes the lowered op."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, LoweringNode, Op, TensorType
from tpuc_cv183x.chip import DESCRIPTION
from tpuc_cv183x.lowerings import TABLE
from tpuc_ops.top.add import Add
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.div import Div
from tpuc_ops.top.matmul import MatMul
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.pad import Pad
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.prelu import PRelu
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.top.scale import Scale
from tpuc_ops.top.sigmoid import Sigmoid

from tests.chips.cv183x.lowering_cases import CASES, Array, cases_of, check_case, compile_cases
from tests.chips.cv183x.steps import check_steps


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_lowered_ops_are_close_and_the_file_computes_them(mode: str) -> None:
    names = cases_of(mode)
    compiled = compile_cases(names, mode)
    got = compiled.session.chip.load(compiled.data).run(compiled.inputs)
    check_steps(compiled.final, {**got, **compiled.inputs})
    for name in names:
        check_case(name, compiled, got)


def t(*dims: int) -> TensorType:
    return TensorType(dims, F32)


IMAGE = t(1, 4, 20, 20)
ARRAY = np.ones((4, 4, 3, 3), np.float32)
FAR = "a stride above 15 needs windows that do not overlap, without groups and dilation; this one is 16"
REFUSALS: dict[str, tuple[Op, list[TensorType], list[Array | None], TensorType, str]] = {
    "computed_filter": (
        Conv(kernel_shape=(3, 3)),
        [IMAGE, t(4, 4, 3, 3)],
        [None, None],
        t(1, 4, 18, 18),
        "the filter must be a constant",
    ),
    "volumes": (
        Conv(kernel_shape=(3, 3, 3)),
        [t(1, 4, 5, 5, 5), t(4, 4, 3, 3, 3)],
        [None, ARRAY],
        t(1, 4, 3, 3, 3),
        "only 2-D windows, this one has 3 dimensions",
    ),
    "far_overlap": (
        Conv(kernel_shape=(17, 3), strides=(16, 1)),
        [IMAGE, t(4, 4, 17, 3)],
        [None, ARRAY],
        t(1, 4, 1, 18),
        FAR,
    ),
    "far_groups": (
        Conv(kernel_shape=(3, 3), strides=(16, 16), group=4),
        [IMAGE, t(4, 1, 3, 3)],
        [None, ARRAY],
        t(1, 4, 2, 2),
        FAR,
    ),
    "pool_volumes": (
        MaxPool(kernel_shape=(2,)),
        [t(1, 4, 20)],
        [None],
        t(1, 4, 19),
        "only 2-D windows, this one has 1 dimensions",
    ),
    "computed_matrix": (MatMul(), [t(3, 4), t(4, 5)], [None, None], t(3, 5), "the right operand must be a constant"),
    "batched_matrix": (
        MatMul(),
        [t(2, 3, 4), t(2, 4, 5)],
        [None, np.ones((2, 4, 5), np.float32)],
        t(2, 3, 5),
        "the right operand must be a matrix, this one has 3 dimensions",
    ),
    "transposed_matrix": (
        MatMul(left_transpose=True),
        [t(4, 3), t(4, 5)],
        [None, np.ones((4, 5), np.float32)],
        t(3, 5),
        "left_transpose, output_transpose and hdim_is_batch have no kernel",
    ),
    "computed_scale": (
        Scale(),
        [IMAGE, t(4)],
        [None, None],
        IMAGE,
        "the scale must be a constant, and the tensor have channels",
    ),
    "concat_constant": (
        Concat(axis=1),
        [IMAGE, IMAGE],
        [None, np.ones((1, 4, 20, 20), np.float32)],
        t(1, 8, 20, 20),
        "a constant operand has no kernel; fold it into the network",
    ),
    "pad_mode": (
        Pad(paddings=(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"),
        [IMAGE],
        [None],
        t(1, 4, 22, 22),
        "only mode constant, this one is reflect",
    ),
    "prelu": (
        PRelu(),
        [IMAGE, t(1, 1, 20, 1)],
        [None, np.ones((1, 1, 20, 1), np.float32)],
        IMAGE,
        "one slope, or one per channel; there are 20 for 4 channels",
    ),
    "reduce_axes": (
        Reduce(axes=(1,), mode="ReduceMean"),
        [IMAGE],
        [None],
        t(1, 1, 20, 20),
        "rows and columns of four dimensions only, these are [1] of 4",
    ),
    "reduce_mode": (
        Reduce(axes=(2,), mode="ReduceL2"),
        [IMAGE],
        [None],
        t(1, 4, 1, 20),
        "ReduceMean and ReduceMax only, this one is ReduceL2",
    ),
    "constant_first": (
        Max(),
        [t(1), IMAGE],
        [np.zeros(1, np.float32), None],
        IMAGE,
        "the first operand must be computed; write the constant behind it",
    ),
    "divisor": (Div(), [IMAGE, t(1)], [None, np.zeros(1, np.float32)], IMAGE, "a constant divisor must not contain 0"),
}
FLOATS = {
    "sigmoid": (Sigmoid(scale=2.0), [IMAGE], [None], IMAGE, "a sigmoid with scale 1, bias 0 and no logarithm"),
    "power": (Pow(exponent=3.0), [IMAGE], [None], IMAGE, "exponents 2, 0.5, -0.5, this one is 3"),
    "coefficients": (
        Add(coeff=(1.0, 2.0)),
        [IMAGE, IMAGE],
        [None, None],
        IMAGE,
        "coefficients other than 1 have no kernel in bf16",
    ),
}


def _refusal(name: str, mode: str) -> str | None:
    op, operands, constants, result, _ = {**REFUSALS, **FLOATS}[name]
    node = LoweringNode(op, tuple(operands), (result,), "y", (), tuple(constants), mode, DESCRIPTION)
    return TABLE.cells[op.name, mode].refuse(node)


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_what_is_outside_is_refused_by_a_sentence(name: str, mode: str) -> None:
    assert _refusal(name, mode) == REFUSALS[name][-1]


@pytest.mark.parametrize("name", FLOATS)
def test_what_floats_lack_is_refused_by_a_sentence(name: str) -> None:
    assert _refusal(name, "bf16") == FLOATS[name][-1]


def test_every_lowering_has_a_case() -> None:
    """Reshape is what Flatten, Squeeze and Unsqueeze become; the others are tables of one function each."""
    covered = {case.op.name for case in CASES.values()} | {"top.Reshape"}
    tables = {f"top.{name}" for name in ("Cos", "Erf", "Mish", "Pow", "Sign", "Sin", "Softplus", "Softsign")}
    assert {name for name, _ in TABLE.cells} - covered <= tables
