"""What the kernels of the toy chip refuse and what they take, on either side of each limit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from acme_ops.stored_gelu7 import StoredGelu7
from toy_chip.chip import CHIP
from toy_chip.kernels import TABLE
from tpuc.api import F16, F32, Calibrated, CalibrationError, ElementType, Node, Op, ScalarType, TensorType, Uniform
from tpuc_ops import tpu

from tests.families import each
from tests.third_party.distributions import chips_with_acme_cells

I8 = Uniform(ScalarType("i8"), F32, 0.5)
SHIFTED = dataclasses.replace(I8, zero_point=3)
SHAPE = (1, 8, 4, 4)

CONV = tpu.Conv2D(kernel_shape=(1, 1), multiplier=(3,), rshift=(4,), round_mode="HalfUp")
MATMUL = tpu.MatMul(multipliers=(3,), rshifts=(4,), round_mode="HalfUp")
AVERAGE = tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Avg", multiplier=3, rshift=4, round_mode="HalfUp")
ADD = tpu.Add(multipliers=(1, 2), rshifts=(3, 4))
MATRIX = TensorType((4, 8), ScalarType("i8"))


def tensor(element: ElementType = I8, shape: tuple[int, ...] = SHAPE) -> TensorType:
    return TensorType(shape, element)


def refusal(op: Op, *operands: TensorType, result: TensorType | None = None) -> str | None:
    kernel: Any = TABLE.cells[op.name]
    return kernel.refuse(Node(op, operands or (tensor(),), (result or tensor(),)))


FILTER = tensor(ScalarType("i8"), (8, 8, 1, 1))

TAKEN = [
    (CONV, [tensor(), FILTER]),
    (MATMUL, [tensor(), MATRIX]),
    (AVERAGE, []),
    (tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Max"), []),
    (ADD, [tensor(), tensor()]),
    (tpu.Relu(), []),
    (tpu.Cast(), [tensor(F32)]),
    (tpu.Softmax(axis=3), [tensor(F32)]),
    (tpu.Softmax(axis=1), [tensor(F32, (1, 8, 1, 1))]),
    (tpu.Permute(order=(0, 2, 3, 1)), []),
]

REFUSED = [
    (dataclasses.replace(CONV, group=2), [tensor(), FILTER], "only group 1, this one has 2"),
    (dataclasses.replace(CONV, multiplier=(), rshift=()), [tensor(), FILTER], "this one has no multiplier"),
    (dataclasses.replace(CONV, quant_mode="QDM"), [tensor(), FILTER], "this one has QDM and HalfUp"),
    (dataclasses.replace(CONV, round_mode="HalfDown"), [tensor(), FILTER], "this one has MultiplierShift and HalfDown"),
    (CONV, [tensor(SHIFTED), FILTER], "only zero point 0, this one has 3"),
    (CONV, [tensor(F32), FILTER], "only int8 and uint8, this one has f32"),
    (MATMUL, [tensor(), tensor(ScalarType("i8"), (2, 4, 8))], "the right operand must be a matrix, this one has 3"),
    (dataclasses.replace(MATMUL, left_transpose=True), [tensor(), MATRIX], "left_transpose and output_transpose"),
    (dataclasses.replace(AVERAGE, round_mode="HalfAwayFromZero"), [], "averages only with multiplier and shift"),
    (dataclasses.replace(AVERAGE, scale=0.5), [], "averages only with multiplier and shift"),
    (ADD, [tensor()] * 3, "two operands, this one has 3"),
    (dataclasses.replace(ADD, rshifts=(3,)), [tensor(), tensor()], "one shift per operand, this one has 1"),
    (tpu.Relu(), [tensor(F32)], "only int8 and uint8, this one has f32"),
    (tpu.Cast(), [tensor(F16)], "only between f32 and 8-bit integers, this one goes from f16 to i8"),
    (tpu.Cast(), [tensor()], "only between f32 and 8-bit integers, this one goes from i8 to i8"),
    (tpu.Cast(round_mode="HalfUp"), [tensor(F32)], "only HalfAwayFromZero, this one has HalfUp"),
    (tpu.Softmax(axis=3, log=True), [tensor(F32)], "log softmax has no command"),
    (tpu.Softmax(axis=1), [tensor(F32)], "only along the last dimension, this one has axis 1 of 4 dimensions"),
    (tpu.Softmax(axis=3), [], "only f32, this one is i8"),
]


@each(("op", "operands"), TAKEN, ids=lambda value: getattr(value, "name", ""))
def test_taken(op: Op, operands: list[TensorType]) -> None:
    assert refusal(op, *operands) is None


@each(("op", "operands", "sentence"), REFUSED, ids=lambda value: getattr(value, "name", ""))
def test_refused(op: Op, operands: list[TensorType], sentence: str) -> None:
    reason = refusal(op, *operands)
    assert reason is not None
    assert sentence in reason
    assert not reason.endswith(".")


def test_permute_has_four_strides() -> None:
    five = tensor(shape=(1, 2, 3, 4, 5))
    assert refusal(tpu.Permute(order=(0, 2, 1, 3, 4)), five, result=five) == "at most 4 dimensions, this one has 5"


@pytest.mark.parametrize("chip", chips_with_acme_cells())
def test_foreign_cells_refuse_zero_points_too(chip: str) -> None:
    if chip == "toy":
        from acme_ops.toy import KERNELS
    else:
        from acme_ops.bm1684x import KERNELS
    kernel: Any = KERNELS.cells["acme.StoredGelu7"]
    op = StoredGelu7(low=-4.0, high=14.0)
    assert kernel.refuse(Node(op, (tensor(),), (tensor(),))) is None
    refused = Node(op, (tensor(SHIFTED),), (tensor(SHIFTED),))
    assert kernel.refuse(refused) == "only zero point 0, this one has 3"


def test_values_that_are_never_negative_are_unsigned() -> None:
    description = CHIP.description
    signed = description.quantize(tensor(Calibrated(F32, -1.0, 2.0)), "int8", "x")
    unsigned = description.quantize(tensor(Calibrated(F32, 0.0, 2.0)), "int8", "x")
    assert signed.uniform == Uniform(ScalarType("i8"), F32, 2.0 / 128)
    assert unsigned.uniform == Uniform(ScalarType("u8"), F32, 2.0 / 255)
    with pytest.raises(CalibrationError, match="value 'x' has no calibration"):
        description.quantize(tensor(F32), "int8", "x")
