"""top.PRelu."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestPRelu(OpConformance):
    op = top.PRelu()
    reference = onnx_node("PRelu")
    samples = [uniform(2, 3, 4, 5), uniform(1, 3, 1, 1)], [uniform(2, 3), uniform(1)]
    flops = 1


def test_a_slope_larger_than_the_operand_is_refused() -> None:
    with pytest.raises(ValueError, match="slope 2x3 does not broadcast to 1x3"):
        top.PRelu().infer((TensorType((1, 3), F32), TensorType((2, 3), F32)))
