"""top.Reduce."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

X = uniform(2, 3, 4, 5)


class TestReduceMean(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceMean")
    reference = onnx_node("ReduceMean", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceSum(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceSum")
    reference = onnx_node("ReduceSum", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceMax(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceMax")
    reference = onnx_node("ReduceMax", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceMin(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceMin")
    reference = onnx_node("ReduceMin", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceProd(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceProd")
    reference = onnx_node("ReduceProd", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceL1(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceL1")
    reference = onnx_node("ReduceL1", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceL2(OpConformance):
    op = top.Reduce(axes=(1, -1), mode="ReduceL2")
    reference = onnx_node("ReduceL2", inputs=(0, np.array([1, -1])))
    samples = ([X],)
    flops = 3 * 5


class TestReduceWithoutKeptDimensions(OpConformance):
    op = top.Reduce(axes=(2,), mode="ReduceMean", keepdims=False)
    reference = onnx_node("ReduceMean", inputs=(0, np.array([2])), keepdims=0)
    samples = ([X],)
    flops = 4


def test_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mode must be one of ReduceMean, .*, this one is ReduceMedian"):
        top.Reduce(axes=(0,), mode="ReduceMedian").infer((TensorType((2,), F32),))
