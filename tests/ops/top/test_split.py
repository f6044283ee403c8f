"""top.Split."""

from __future__ import annotations

import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform


class TestSplit(OpConformance):
    op = top.Split(axis=1, num=3)
    reference = onnx_node("Split", axis=1, num_outputs=3, outputs=3)
    samples = [uniform(2, 6)], [uniform(2, 8)]
    flops = 0


class TestSplitInGivenParts(OpConformance):
    op = top.Split(axis=-2, num=2, split_size=(1, 3))

    @staticmethod
    def reference(x: Array) -> list[Array]:
        return [x[:, :1], x[:, 1:]]

    samples = ([uniform(2, 4, 3)],)
    flops = 0


def test_parts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match=r"extent 5 cannot be split into 2 parts of \[1, 3\]"):
        top.Split(axis=0, num=2, split_size=(1, 3)).infer((TensorType((5,), F32),))
