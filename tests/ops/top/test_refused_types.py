"""Operands and attributes of `top` that contradict each other: one sentence each."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tpuc.api import ABSENT, F32, Op, TensorType
from tpuc_ops import top

from tests.families import each

IMAGE = (1, 4, 8, 8)
BLOCKS = top.Depth2Space(block_h=2, block_w=3, is_CRD=True, is_inversed=True)
BOXES: dict[str, Any] = {"nms_threshold": 0.5, "top_k": 9, "confidence_threshold": 0.1}
YOLO: dict[str, Any] = {"net_input_h": 8, "net_input_w": 8, "nms_threshold": 0.5, "obj_threshold": 0.5, "keep_topk": 3}
REGIONS: dict[str, Any] = {
    "net_input_h": 8,
    "net_input_w": 8,
    "feat_stride": 4,
    "anchor_base_size": 4,
    "rpn_obj_threshold": 0.5,
    "rpn_nms_threshold": 0.5,
}

CASES: list[tuple[Op, list[tuple[int, ...] | None], str]] = [
    (top.Add(coeff=(1.0,)), [(2,), (2,)], "coeff has 1 factors for 2 operands"),
    (top.Arg(axis=0, mode="Largest"), [(2,)], "mode must be ArgMax or ArgMin, this one is Largest"),
    (top.BatchNorm(), [IMAGE, (4,)], "x, mean, variance and at most gamma and beta are needed"),
    (top.BatchNorm(), [IMAGE, (4,), (3,)], "variance 3 does not fit 4 channels"),
    (top.BatchNorm(), [IMAGE, (4,), (4,), None, (5,)], "beta 5 does not fit 4 channels"),
    (
        top.Bitwise(mode="Nand"),
        [(2,), (2,)],
        "mode must be one of And, Or, Xor, ShiftLeft, ShiftRight, this one is Nand",
    ),
    (top.Conv(kernel_shape=(3, 3)), [IMAGE, (6, 4, 3, 3), (5,)], "bias 5 does not fit 6 output channels"),
    (
        top.Conv(kernel_shape=(3,), strides=(1,), pads=(0, 0), dilations=(1,)),
        [IMAGE, (6, 4, 3)],
        "a kernel of 1 dimensions needs an input of 3, this one is 1x4x8x8",
    ),
    (
        top.Conv(kernel_shape=(1, 1, 1, 1), strides=(1,) * 4, pads=(0,) * 8, dilations=(1,) * 4),
        [(1, 4, 2, 2, 2, 2), (6, 4, 1, 1, 1, 1)],
        "kernel_shape must have 1 to 3 dimensions, this one has 4",
    ),
    (
        top.Conv(kernel_shape=(1, 1, 1), strides=(1,) * 3, pads=(0,) * 6, dilations=(1,) * 3, inserts=(1, 1, 1)),
        [(1, 4, 2, 2, 2), (6, 4, 1, 1, 1)],
        "inserts are zeros between rows and columns; a kernel of 3 dimensions cannot have them",
    ),
    (
        top.Deconv(kernel_shape=(1, 1, 1), strides=(1,) * 3, pads=(0,) * 6, dilations=(1,) * 3),
        [(1, 4, 2, 2, 2), (6, 4, 1, 1, 1)],
        "kernel_shape must have 1 or 2 dimensions, this one has 3",
    ),
    (
        top.MaxPool(kernel_shape=(2, 2, 2)),
        [(1, 4, 2, 2, 2)],
        "a kernel of 3 dimensions needs 3 strides and dilations and 6 pads, there are 2, 3 and 4",
    ),
    (
        top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 1, 1), pads=(0,) * 6),
        [(1, 4, 5, 2, 4)],
        "kernel 2x3x2 reaches over 3 elements, the padded input has 2",
    ),
    (
        top.Conv(kernel_shape=(1, 1), pads=(0, -1, 0, 0)),
        [IMAGE, (6, 4, 1, 1)],
        "pads must not be negative, these are [0, -1, 0, 0]",
    ),
    (
        top.Deconv(kernel_shape=(3, 3), inserts=(1, 0)),
        [IMAGE, (6, 4, 3, 3)],
        "inserts are not supported in a transposed convolution",
    ),
    (top.Deconv(kernel_shape=(3, 3)), [IMAGE, (6, 4, 3, 3), (4,)], "bias 4 does not fit 6 output channels"),
    (
        top.Deconv(kernel_shape=(1, 1), pads=(4, 0, 4, 0)),
        [IMAGE, (6, 4, 1, 1)],
        "pads [4, 0, 4, 0] leave nothing of the result",
    ),
    (
        top.DeformConv2D(kernel_shape=(3, 3)),
        [IMAGE, (6, 4, 3, 3), (1, 18, 5, 6)],
        "offsets 1x18x5x6 should be 1x18x6x6",
    ),
    (
        top.DeformConv2D(kernel_shape=(3, 3), use_mask=True),
        [IMAGE, (6, 4, 3, 3), (1, 18, 6, 6), None],
        "use_mask needs a mask",
    ),
    (
        top.Depth2Space(block_h=2, block_w=2, is_CRD=True, is_inversed=False, swap_cr=True),
        [IMAGE],
        "only NCHW without swap_cr is supported; permute the operand instead",
    ),
    (BLOCKS, [IMAGE], "blocks of 2x3 do not divide 1x4x8x8"),
    (BLOCKS, [(4, 8, 8)], "an operand of 4 dimensions is needed, this one is 4x8x8"),
    (top.DequantizeLinear(x_scale=(0.5,), x_zero_point=(0, 0)), [(2,)], "there are 1 scales and 2 zero points"),
    (top.Det(), [(2, 3)], "square matrices are needed"),
    (
        top.DetectionOutput(num_classes=2, code_type="EDGES", keep_top_k=3, **BOXES),
        [(1, 8), (1, 4), (1, 2, 8)],
        "code_type must be one of CORNER, CENTER_SIZE, CORNER_SIZE, this one is EDGES",
    ),
    (
        top.DetectionOutput(num_classes=2, code_type="CORNER", keep_top_k=-1, **BOXES),
        [(1, 8), (1, 4), (1, 2, 8)],
        "num_classes and keep_top_k must be stated: the number of results is static",
    ),
    (
        top.DetectionOutput(num_classes=2, code_type="CORNER", keep_top_k=3, **BOXES),
        [(1, 8), (1, 6), (1, 2, 8)],
        "offsets 1x8 and scores 1x6 do not fit 2 priors and 2 classes",
    ),
    (top.Div(), [(2,)], "two operands are needed, there are 1"),
    (
        top.Einsum(mode="ij,jk"),
        [(2, 3), (3, 4)],
        "mode ij,jk does not name the dimensions of these operands and of the result",
    ),
    (
        top.FrcnDetection(class_num=3, obj_threshold=0.5, nms_threshold=0.5, keep_topk=2),
        [(4, 12), (4, 3), (1, 1, 4, 4)],
        "regions 1x1x4x4 must be rows of 5 numbers, with class_num at least 2 and keep_topk at least 1",
    ),
    (
        top.FrcnDetection(class_num=3, obj_threshold=0.5, nms_threshold=0.5, keep_topk=2),
        [(4, 12), (4, 2), (1, 1, 4, 5)],
        "offsets 4x12 and scores 4x2 do not fit 4 regions and 3 classes",
    ),
    (top.GatherElements(axis=1), [(2, 3), (3, 3)], "indices 3x3 do not fit 2x3 along axis 1"),
    (top.GatherND(batch_dims=1), [(2, 3), (3, 1)], "indices 3x1 do not fit 2x3 with 1 batch dimensions"),
    (
        top.GridSampler(mode="cubic"),
        [IMAGE, (1, 5, 5, 2)],
        "mode cubic with padding_mode zeros is not known",
    ),
    (top.GridSampler(), [IMAGE, (1, 5, 5, 3)], "grid 1x5x5x3 does not fit 1x4x8x8"),
    (
        top.GridSampler(mode="bicubic"),
        [(1, 4, 2, 8, 8), (1, 2, 5, 5, 3)],
        "bicubic is for two dimensions only",
    ),
    (top.GroupNorm(num_groups=3), [IMAGE], "3 groups do not divide the channels of 1x4x8x8"),
    (top.GRU(hidden_size=3), [(5, 4), (1, 9, 4), (1, 9, 3)], "three dimensions are needed, this operand is 5x4"),
    (
        top.GRU(hidden_size=3),
        [(5, 2, 4), (1, 9, 4), (1, 9, 3), (1, 9)],
        "bias 1x9 should have 18 elements",
    ),
    (
        top.GRU(hidden_size=3),
        [(5, 2, 4), (1, 9, 4), (1, 9, 3), None, (1, 1, 3)],
        "initial h 1x1x3 should have 6 elements",
    ),
    (top.InstanceNorm(), [(2, 3)], "at least three dimensions are needed, there are 2"),
    (top.LRN(size=0), [IMAGE], "a size of at least 1 and channels are needed, these are 0 and 4 dims"),
    (top.LSTM(hidden_size=3), [(5, 4), (1, 12, 4), (1, 12, 3)], "three dimensions are needed, this operand is 5x4"),
    (
        top.LSTM(hidden_size=3),
        [(5, 2, 4), (1, 12, 4), (1, 12, 4)],
        "recurrence 1x12x4 should be 1x12x3",
    ),
    (
        top.MatMul(hdim_is_batch=True),
        [(2, 3), (3, 4)],
        "hdim_is_batch is not supported; permute the operands so that batches come first",
    ),
    (top.Max(), [(2, 3)], "at least two operands are needed, there are 1"),
    (
        top.MaxPoolWithMask(kernel_shape=(2, 2)),
        [(1, 4, 8)],
        "images and kernels of two dimensions are needed, the operand has 3 dimensions",
    ),
    (top.Normalize(), [IMAGE, (4,)], "scale 4 should have 1 elements"),
    (top.Normalize(channel_shared=False), [IMAGE, (1,)], "scale 1 should have 4 elements"),
    (
        top.Proposal(rpn_nms_post_top_n=3, **REGIONS),
        [(1, 16, 2, 2), (1, 36, 2, 2)],
        "scores 1x16x2x2 must have 18 channels, and rpn_nms_post_top_n be at least 1",
    ),
    (
        top.Proposal(rpn_nms_post_top_n=3, **REGIONS),
        [(1, 18, 2, 2), (1, 36, 2, 3)],
        "offsets 1x36x2x3 do not fit scores 1x18x2x2",
    ),
    (top.Reshape(shape=(1, 2, 0)), [(2, 1)], "shape [1, 2, 0] keeps a dimension that 2x1 does not have"),
    (
        top.RetinaFaceDetection(nms_threshold=0.5, confidence_threshold=0.5, keep_topk=3),
        [(1, 4, 2, 2)] * 3,
        "nine operands and a keep_topk of at least 1 are needed, there are 3 operands",
    ),
    (
        top.RetinaFaceDetection(nms_threshold=0.5, confidence_threshold=0.5, keep_topk=3),
        [(1, 4, 2, 2), (1, 8, 2, 2), (1, 20, 2, 2), (1, 4, 4, 4), (1, 8, 4, 5), *[(1, 4, 2, 2)] * 4],
        "operand 4 1x8x4x5 should be 1x8x4x4",
    ),
    (top.RMSNorm(), [()], "at least one dimension is needed"),
    (
        top.RNN(hidden_size=3, activation="Sigmoid"),
        [(5, 2, 4), (1, 3, 4), (1, 3, 3)],
        "activation must be Tanh or Relu, this one is Sigmoid",
    ),
    (
        top.RoiAlign(output_height=2, output_width=2),
        [IMAGE, (3, 4)],
        "regions 3x4 of images 1x4x8x8 in mode Avg: rows of 5, 4 dimensions, and Avg or Max are needed",
    ),
    (
        top.ROIPooling(pooled_h=0, pooled_w=2, spatial_scale=1.0),
        [IMAGE, (3, 5)],
        "a grid of at least 1x1 over images of 4 dimensions is needed, this one is 0x2 over 1x4x8x8",
    ),
    (
        top.ROIPooling(pooled_h=2, pooled_w=2, spatial_scale=1.0),
        [IMAGE, (3, 4)],
        "regions are rows of 5 numbers, these are 3x4",
    ),
    (top.Scale(), [IMAGE, (4,), (3,)], "bias 3 does not fit 4 channels"),
    (
        top.ScatterElements(axis=0),
        [(3, 3), (2, 3), (3, 2)],
        "indices 2x3 and updates 3x2 do not fit 3x3",
    ),
    (
        top.ScatterElements(axis=0, reduction="sum"),
        [(3, 3), (2, 3), (2, 3)],
        "reduction must be none, add, mul, max, min, this one is sum",
    ),
    (top.ScatterND(), [(3, 3), (2, 1), (2, 2)], "indices 2x1 and updates 2x2 do not fit 3x3"),
    (
        top.Slice(offset=(0,), steps=(1,), ends=(2,), axes=(0,)),
        [(4,)],
        "axes are not supported; state offset, steps and ends of every dimension",
    ),
    (
        top.Slice(offset=(0,), steps=(0,), ends=(2,)),
        [(4,)],
        "1 offsets and steps other than 0 are needed, these are (0,), (0,)",
    ),
    (top.Sub(), [(2,)] * 3, "two operands and none or two coeff are needed, there are 3 operands"),
    (top.Tile(tile=(2,)), [(2, 3)], "2 repetition counts are needed, these are [2]"),
    (top.Trilu(), [(2,)], "at least two dimensions are needed, there are 1"),
    (
        top.Upsample(scale_h=0, scale_w=2),
        [IMAGE],
        "scales of at least 1 and an operand of 4 dimensions are needed",
    ),
    (
        top.YoloDetection(version="yolov9", anchors=(1.0, 2.0), class_num=2, num_boxes=1, **YOLO),
        [(1, 7, 2, 2)],
        "version must be one of yolov3, yolov3_tiny, yolov3_spp, yolov4, this one is yolov9",
    ),
    (
        top.YoloDetection(version="yolov3", anchors=(1.0, 2.0), class_num=2, num_boxes=1, **YOLO),
        [(1, 8, 2, 2)],
        "feature maps need 7 channels and one batch, these are 1x8x2x2",
    ),
    (
        top.YoloDetection(version="yolov3", anchors=(1.0, 2.0), class_num=2, num_boxes=1, **YOLO),
        [(1, 7, 2, 2), (1, 7, 4, 4)],
        "2 anchor numbers do not fit 2 maps",
    ),
]


@each(("op", "shapes", "sentence"), CASES)
def test_sentences(op: Op, shapes: list[tuple[int, ...] | None], sentence: str) -> None:
    operands = tuple(ABSENT if shape is None else TensorType(shape, F32) for shape in shapes)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        op.infer(operands)
