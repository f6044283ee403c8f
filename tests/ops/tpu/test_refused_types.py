"""Operands and attributes of `tpu` that contradict each other: one sentence each."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tpuc.api import ABSENT, F32, Node, Op, ScalarType, TensorType, Uniform
from tpuc_ops import tpu

from tests.families import each

INT8 = Uniform(ScalarType("i8"), F32, 0.1)


def floats(*dims: int) -> TensorType:
    return TensorType(dims, F32)


def integers(*dims: int) -> TensorType:
    return TensorType(dims, INT8)


IMAGE = floats(1, 4, 8, 8)
CASES: list[tuple[Op, list[TensorType], str]] = [
    (tpu.Arg(axis=0, mode="Largest"), [floats(2)], "mode must be ArgMax or ArgMin, this one is Largest"),
    (
        tpu.Bitwise(mode="Nand"),
        [floats(2), floats(2)],
        "mode must be one of And, Or, Xor, ShiftLeft, ShiftRight, this one is Nand",
    ),
    (tpu.Div(), [floats(2)], "two operands are needed, there are 1"),
    (tpu.Div(), [floats(2), integers(2)], "floats are needed, an operand stores i8"),
    (tpu.Max(), [floats(2), integers(2)], "operands of one type are needed, these are f32, i8"),
    (tpu.Min(), [integers(2), floats(2)], "operands of one type are needed, these are i8, f32"),
    (tpu.Pad(paddings=(0, 1), mode="wrap"), [floats(2)], "mode must be constant, reflect or edge, this one is wrap"),
    (tpu.BestPlaces(kept=4), [floats(2, 3)], "rows of at least kept=4 elements are needed"),
    (tpu.Rank(), [floats(2, 3), floats(3, 2)], "the same tensor of two dimensions is needed twice"),
    (
        tpu.RecurrentSteps(kind="GRU", hidden_size=3, steps=2),
        [floats(3, 9), floats(9, 3)],
        "kind GRU of 2 steps does not fit 3x9",
    ),
    (
        tpu.RecurrentSteps(kind="GRU", hidden_size=3, steps=2),
        [floats(4, 9), floats(9, 4)],
        "recurrence 9x4 does not fit gates 4x9",
    ),
    (
        tpu.RecurrentSteps(kind="GRU", hidden_size=3, steps=2),
        [floats(4, 5), floats(9, 3), ABSENT, ABSENT, ABSENT, floats(9, 6)],
        "filter 9x6 does not fit inputs 4x5",
    ),
    (tpu.Scale(), [IMAGE, floats(4), floats(3)], "bias 3 does not fit 4 channels"),
    (tpu.Scan(axis=0, mode="Max"), [floats(2)], "mode must be Sum or Prod, this one is Max"),
    (
        tpu.ScatterRows(),
        [floats(2, 5, 3), floats(2, 4), floats(2, 3, 3)],
        "indices 2x4 do not fit updates 2x3x3",
    ),
    (
        tpu.ScatterRows(),
        [floats(2, 5, 3), floats(2, 4), floats(2, 4, 2)],
        "updates 2x4x2 do not fit 2x5x3",
    ),
    (
        tpu.Slice(offset=(0,), steps=(1,), ends=(2,), axes=(0,)),
        [floats(4)],
        "axes are not supported; state offset, steps and ends of every dimension",
    ),
    (tpu.Sub(), [floats(2)], "two operands are needed, there are 1"),
    (tpu.Sub(multipliers=(1,)), [integers(2), integers(2)], "1 multipliers do not fit two integer operands"),
    (
        tpu.Where(x_is_const=True, y_is_const=True),
        [floats(2), ABSENT, ABSENT],
        "every branch must be an operand or a number, and one of them an operand",
    ),
]


@each(("op", "operands", "sentence"), CASES)
def test_sentences(op: Op, operands: list[TensorType], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        op.infer(tuple(operands))


def test_zeros_between_rows_are_for_chips() -> None:
    op, types = tpu.Conv2D(kernel_shape=(1, 1), inserts=(1, 1)), (IMAGE, floats(6, 4, 1, 1))
    assert op.infer(types) is None
    arrays = [np.zeros(type.dims, np.float32) for type in types]
    with pytest.raises(ValueError, match=r"^inserts are not supported in tpu\.Conv2D$"):
        op.evaluate(Node(op, types, (floats(1, 6, 15, 15),)), arrays)
