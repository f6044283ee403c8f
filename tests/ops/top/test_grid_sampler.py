"""top.GridSampler."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

from tests.frontends.onnx.networks import network, node, run_onnx

SAMPLES = ([uniform(2, 3, 5, 6), uniform(2, 4, 3, 2, low=-1.6, high=1.6)],)
NEIGHBORS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""Pixels in each direction that a mode multiplies and adds up."""


class TestBilinear(OpConformance):
    op = top.GridSampler()
    reference = onnx_node("GridSample")
    samples = SAMPLES
    flops = 2 * 4


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("rank", [4, 5])
def test_as_onnx_runtime(mode: str, padding_mode: str, align_corners: bool, rank: int) -> None:
    if rank == 5 and mode == "bicubic":
        pytest.skip("images only")
    x, grid = uniform(2, 3, *(5, 6, 4)[: rank - 2]), uniform(2, *(4, 3, 2)[: rank - 2], rank - 2, low=-1.6, high=1.6)
    names = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
    sample = node("GridSample", "x g", "y", mode=names[mode], padding_mode=padding_mode, align_corners=align_corners)
    model = network([sample], {"x": x.shape, "g": grid.shape}, ["y"], opset=20)
    op = top.GridSampler(mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    types = (TensorType(x.shape, F32), TensorType(grid.shape, F32))
    (result,) = op.evaluate(Node(op, types, op.infer(types)), [x, grid])
    assert op.flops(Node(op, types, op.infer(types))) == result.size * 2 * NEIGHBORS[mode] ** (rank - 2)
    expected = run_onnx(model, {"x": x, "g": grid})["y"]
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6)  # orders of summation differ


def test_a_grid_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="grid 2x4x3x3 does not fit 2x3x5x6"):
        top.GridSampler().infer((TensorType((2, 3, 5, 6), F32), TensorType((2, 4, 3, 3), F32)))
