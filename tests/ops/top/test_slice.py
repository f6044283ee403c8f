"""top.Slice."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSlice(OpConformance):
    op = top.Slice(offset=(1, -4, 9), ends=(100, -1, -100), steps=(1, 2, -3))
    reference = onnx_node(
        "Slice", inputs=(0, np.array([1, -4, 9]), np.array([100, -1, -100]), np.arange(3), np.array([1, 2, -3]))
    )
    samples = ([uniform(3, 5, 10)],)
    flops = 0


def test_the_declared_type_decides_without_ends() -> None:
    op = top.Slice(offset=(2, 10, 10, 12), steps=(1, 2, 2, 3))
    x = uniform(5, 116, 64, 64)
    operands = (TensorType(x.shape, F32),)
    assert op.infer(operands) is None
    (y,) = op.evaluate(Node(op, operands, (TensorType((3, 16, 16, 8), F32),)), [x])
    assert y.shape == (3, 16, 16, 8)
    assert y[2, 15, 15, 7] == x[2 + 2, 10 + 15 * 2, 10 + 15 * 2, 12 + 7 * 3]


def test_a_part_beyond_the_tensor_is_refused() -> None:
    op = top.Slice(offset=(2,), steps=(3,))
    node = Node(op, (TensorType((8,), F32),), (TensorType((3,), F32),))
    op.evaluate(Node(op, node.operand_types, (TensorType((2,), F32),)), [uniform(8)])
    with pytest.raises(ValueError, match="element 8 does not exist in a dimension of extent 8"):
        op.evaluate(node, [uniform(8)])


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing is left of 8 from \[5\] to \[5\]"):
        top.Slice(offset=(5,), ends=(5,), steps=(1,)).infer((TensorType((8,), F32),))
