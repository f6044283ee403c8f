"""top.Concat."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestConcat(OpConformance):
    op = top.Concat(axis=1)
    reference = onnx_node("Concat", axis=1)
    samples = ([uniform(1, 3, 4), uniform(1, 3, 4, seed=1)], [uniform(1, 3), uniform(1, 2), uniform(1, 1)])
    flops = 0


class TestConcatFromTheEnd(OpConformance):
    op = top.Concat(axis=-2)
    reference = onnx_node("Concat", axis=0)
    samples = ([uniform(1, 3), uniform(4, 3)],)
    flops = 0


def test_operands_that_differ_elsewhere_are_refused() -> None:
    with pytest.raises(ValueError, match="1x4 and 2x3 differ in more than dimension 1"):
        top.Concat(axis=1).infer((TensorType((2, 3), F32), TensorType((1, 4), F32)))
