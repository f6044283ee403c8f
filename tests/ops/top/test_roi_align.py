"""top.RoiAlign."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_testing import uniform

from tests.families import each
from tests.frontends.onnx.networks import network, node, run_onnx

ROIS = np.array([[0, 0, 5, 4], [1.5, 2, 9, 7.5], [-2, -2, 3, 12]], np.float32)


@each("mode", ["Avg", "Max"])
@each("ratio", [0, 2])
@each("align_corners", [False, True])
def test_as_onnx_runtime(mode: str, ratio: int, align_corners: bool) -> None:
    """Of a maximum ONNX Runtime takes that of all four weighted neighbors of a sample, as ONNX defined it."""
    x, images = uniform(2, 3, 8, 9, low=0), np.array([0, 1, 1], np.int64)
    align = node(
        "RoiAlign",
        "x rois images",
        "y",
        mode=mode.lower(),
        output_height=3,
        output_width=2,
        sampling_ratio=ratio,
        spatial_scale=0.75,
        coordinate_transformation_mode="half_pixel" if align_corners else "output_half_pixel",
    )
    model = network([align], {"x": x.shape}, ["y"], {"rois": ROIS, "images": images}, opset=16)
    op = top.RoiAlign(
        output_height=3,
        output_width=2,
        sampling_ratio=ratio,
        spatial_scale=0.75,
        align_corners=align_corners,
        mode=mode,
    )
    regions = np.concatenate([images[:, None], ROIS], 1).astype(np.float32)
    types = (TensorType(x.shape, F32), TensorType(regions.shape, F32))
    (result,) = op.evaluate(Node(op, types, op.infer(types)), [x, regions])
    np.testing.assert_allclose(result, run_onnx(model, {"x": x})["y"], rtol=0, atol=2e-6)  # other order of summation
    samples = max(ratio, 1) ** 2
    assert op.flops(Node(op, types, op.infer(types))) == 3 * 3 * 3 * 2 * samples * 8
