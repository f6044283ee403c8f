"""top.Where."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, uniform

CONDITION = f32([[0, 1, 0], [2, 0, 1]])


class TestWhere(OpConformance):
    op = top.Where()

    @staticmethod
    def reference(condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition != 0, x, y)

    samples = ([CONDITION, uniform(2, 3), uniform(2, 3, seed=1)], [CONDITION, uniform(3), uniform(2, 1)])
    flops = 1


class TestWhereOfNumbers(OpConformance):
    op = top.Where(x_is_const=True, y_is_const=True, x_const_val=2.0, y_const_val=-1.0)

    @staticmethod
    def reference(condition: Array, _x: Array, _y: Array) -> Array:
        return np.where(condition != 0, np.float32(2), np.float32(-1))

    samples = ([CONDITION, None, None],)
    flops = 1


class TestWhereOfOneNumber(OpConformance):
    op = top.Where(y_is_const=True, y_const_val=-3.0)

    @staticmethod
    def reference(condition: Array, x: Array, _y: Array) -> Array:
        return np.where(condition != 0, x, np.float32(-3))

    samples = ([CONDITION, uniform(3), None],)
    flops = 1


def test_a_branch_that_is_missing() -> None:
    with pytest.raises(ValueError, match="every branch must be an operand or a number"):
        top.Where().infer((TensorType((2,), F32), TensorType((2,), F32), TensorType((0,), F32)))
