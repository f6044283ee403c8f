"""top.DeformConv2D."""

from __future__ import annotations

from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

X, W, OFFSETS = uniform(2, 4, 6, 7), uniform(6, 2, 3, 2), uniform(2, 2 * 6 * 2, 4, 6, low=-2, high=2)


class TestDeformConv2D(OpConformance):
    op = top.DeformConv2D(kernel_shape=(3, 2), pads=(0, 0, 0, 0), group=2, deform_group=2, use_mask=True)
    reference = onnx_node("DeformConv", inputs=(0, 1, 2, 4, 3), group=2, offset_group=2)
    samples = ([X, W, OFFSETS, uniform(2, 12, 4, 6), uniform(6)],)
    flops = 10 * 2 * 3 * 2


class TestPlain(OpConformance):
    op = top.DeformConv2D(kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    reference = onnx_node("DeformConv", inputs=(0, 1, 2), pads=[1, 1, 1, 1], strides=[2, 2])
    samples = ([uniform(1, 2, 6, 6), uniform(3, 2, 3, 3), uniform(1, 18, 3, 3), None, None],)
    flops = 10 * 2 * 3 * 3
