"""top.Interp."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, f32, onnx_node, uniform

NOTHING = np.zeros(0, np.float32)


class TestLinear(OpConformance):
    op = top.Interp(mode="linear", coord_mode="half_pixel", scale_h=2.0, scale_w=1.5)
    reference = onnx_node("Resize", inputs=(0, NOTHING, f32(1, 1, 2, 1.5)), mode="linear")
    samples = ([uniform(1, 2, 4, 4)],)
    flops = 0
    result = F32


class TestLinearWithAlignedCorners(OpConformance):
    op = top.Interp(mode="linear", coord_mode="align_corners")
    reference = onnx_node(
        "Resize",
        inputs=(0, NOTHING, NOTHING, np.array([1, 2, 7, 3])),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    samples = ([uniform(1, 2, 4, 5)],)
    flops = 0
    result = F32


class TestNearest(OpConformance):
    op = top.Interp(mode="nearest", coord_mode="half_pixel", scale_h=0.5, scale_w=1.75)
    reference = onnx_node("Resize", inputs=(0, NOTHING, f32(1, 1, 0.5, 1.75)), mode="nearest")
    samples = ([uniform(1, 2, 4, 4)],)
    flops = 0
    result = F32


class TestNearestOfAsymmetricPlaces(OpConformance):
    op = top.Interp(mode="nearest", coord_mode="asymmetric", scale_h=3.0, scale_w=2.0)
    reference = onnx_node(
        "Resize",
        inputs=(0, NOTHING, f32(1, 1, 3, 2)),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    samples = ([uniform(1, 2, 4, 4)],)
    flops = 0
    result = F32


def test_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="mode cubic with coord_mode half_pixel is not supported"):
        top.Interp(mode="cubic", coord_mode="half_pixel").infer((TensorType((1, 1, 2, 2), F32),))
