"""top.Pad."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_ops.top.pad import pad
from tpuc_testing import OpConformance, f32, onnx_node, uniform

from tests.families import each

PADS = np.array([0, 1, 2, 0, 2, 1])


class TestPad(OpConformance):
    op = top.Pad(paddings=(0, 1, 2, 0, 2, 1), val=-0.5)
    reference = onnx_node("Pad", inputs=(0, PADS, f32([-0.5]).reshape(())), mode="constant")
    samples = ([uniform(2, 3, 4)],)
    flops = 0


class TestPadByReflection(OpConformance):
    op = top.Pad(paddings=(0, 1, 2, 0, 2, 1), mode="reflect")
    reference = onnx_node("Pad", inputs=(0, PADS), mode="reflect")
    samples = ([uniform(2, 3, 4)],)
    flops = 0


class TestPadWithBorder(OpConformance):
    op = top.Pad(paddings=(0, 1, 2, 0, 2, 1), mode="edge")
    reference = onnx_node("Pad", inputs=(0, PADS), mode="edge")
    samples = ([uniform(2, 3, 4)],)
    flops = 0


def test_negative_paddings_cut_off() -> None:
    op = top.Pad(paddings=(-1, 1, 0, -1))
    x = f32([[1, 2], [3, 4], [5, 6]])
    (result,) = op.infer((TensorType(x.shape, F32),))
    assert result.dims == (2, 2)
    assert pad(x, op.paddings, "constant", 0.0).tolist() == [[0, 3], [0, 5]]


@each(
    ("op", "sentence"),
    [
        (top.Pad(paddings=(1, 1)), "2 dimensions need 4 paddings"),
        (top.Pad(paddings=(-3, 0, 0, 0)), "leave nothing of 3x2"),
        (top.Pad(paddings=(0, 0, 0, 0), mode="wrap"), "mode must be constant, reflect or edge, this one is wrap"),
    ],
)
def test_illegal_paddings_are_refused(op: top.Pad, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        op.infer((TensorType((3, 2), F32),))
