"""top.Compare."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, f32, onnx_node, zeros

from tests.families import each

SAMPLES = ([f32(1, 2, 3), f32(2)], [f32([[1, 5], [3, 3]]), f32(1, 3)])


class Base(OpConformance):
    samples = SAMPLES
    flops = 1


class TestEqual(Base):
    op = top.Compare(mode="Equal")
    reference = onnx_node("Equal")


class TestNotEqual(Base):
    op = top.Compare(mode="NotEqual")

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return (x != y).astype(np.float32)


class TestGreater(Base):
    op = top.Compare(mode="Greater")
    reference = onnx_node("Greater")


class TestGreaterOrEqual(Base):
    op = top.Compare(mode="GreaterOrEqual")
    reference = onnx_node("GreaterOrEqual")


class TestLess(Base):
    op = top.Compare(mode="Less")
    reference = onnx_node("Less")


class TestLessOrEqual(Base):
    op = top.Compare(mode="LessOrEqual")
    reference = onnx_node("LessOrEqual")


TRUTH = f32(0, 0, 1, 2), f32(0, 3, 0, 4)


@each(("mode", "truth"), [("And", [0, 0, 0, 1]), ("Or", [0, 1, 1, 1]), ("Xor", [0, 1, 1, 0])])
def test_logic_takes_everything_but_0_for_true(mode: str, truth: list[float]) -> None:
    (result,) = top.Compare(mode=mode).evaluate(None, TRUTH)  # type: ignore[arg-type]
    assert result.tolist() == truth


def test_an_unknown_mode() -> None:
    with pytest.raises(ValueError, match=r"mode must be one of Equal, .*, this one is Similar"):
        top.Compare(mode="Similar").infer((TensorType(zeros(2).shape, F32),) * 2)
