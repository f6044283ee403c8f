"""top.Einsum."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform


class TestEinsum(OpConformance):
    op = top.Einsum(mode="bij,bjk->ik")
    reference = onnx_node("Einsum", equation="bij,bjk->ik")
    samples = ([uniform(2, 3, 4), uniform(2, 4, 5)],)
    flops = 2 * 2 * 4


class TestDiagonal(OpConformance):
    op = top.Einsum(mode="ii->i")
    reference = onnx_node("Einsum", equation="ii->i")
    samples = ([uniform(4, 4)],)
    flops = 2


def test_extents_that_differ() -> None:
    with pytest.raises(ValueError, match="dimension j of ij,jk->ik is 3 and 4"):
        top.Einsum(mode="ij,jk->ik").infer((TensorType((2, 3), F32), TensorType((4, 5), F32)))
