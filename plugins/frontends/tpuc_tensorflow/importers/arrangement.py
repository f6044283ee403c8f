"""Operators that change shape or order, select elements, or combine tensors."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode
from tpuc_importing.operands import integers, required_constant
from tpuc_tflite.building import Results
from tpuc_tflite.slicing import MASKS

from tpuc_tensorflow.importers.building import TensorflowBuilder, is_channels_first
from tpuc_tensorflow.importers.common import TABLE, as_tflite

_ALIKE = {
    "BatchToSpaceND": "BATCH_TO_SPACE_ND",
    "BroadcastTo": "BROADCAST_TO",
    "ExpandDims": "EXPAND_DIMS",
    "GatherNd": "GATHER_ND",
    "Pad": "PAD",
    "PadV2": "PADV2",
    "Reshape": "RESHAPE",
    "ReverseV2": "REVERSE_V2",
    "ScatterNd": "SCATTER_ND",
    "Slice": "SLICE",
    "SpaceToBatchND": "SPACE_TO_BATCH_ND",
    "Tile": "TILE",
    "TopKV2": "TOPK_V2",
    "Transpose": "TRANSPOSE",
}
for _name, _operator in _ALIKE.items():
    TABLE.imports(_name)(as_tflite(_operator))

TABLE.imports("ArgMax")(as_tflite("ARG_MAX"))
TABLE.imports("ArgMin")(as_tflite("ARG_MIN"))
TABLE.imports("Cumsum")(as_tflite("CUMSUM", exclusive="exclusive", reverse="reverse"))
TABLE.imports("OneHot")(as_tflite("ONE_HOT", axis="axis"))
TABLE.imports("Pack")(as_tflite("PACK", axis="axis"))
TABLE.imports("Unpack")(as_tflite("UNPACK", axis="axis"))
TABLE.imports("Split")(as_tflite("SPLIT"))
TABLE.imports("SplitV")(as_tflite("SPLIT_V"))
TABLE.imports("StridedSlice")(as_tflite("STRIDED_SLICE", **{mask: mask for mask in MASKS}))


@TABLE.imports("Squeeze")
def squeeze(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import the removal of extents of 1."""
    axes = node.attributes.get("squeeze_dims") or node.attributes.get("axis") or ()
    return build.through("SQUEEZE", node, attributes={"squeeze_dims": axes})


@TABLE.imports("ConcatV2", "Concat")
def concat(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a concatenation; the axis is the last operand, in the old form the first."""
    place = 0 if node.op_type == "Concat" else len(node.inputs) - 1
    axis = integers(required_constant(node, build, place, "the axis"))[0]
    operands = node.inputs[1:] if place == 0 else node.inputs[:-1]
    if len(operands) == 1:
        return build.through("ADD_N", node, operands)
    return build.through("CONCATENATION", node, operands, {"axis": axis})


@TABLE.imports("Gather", "GatherV2", "ResourceGather")
def gather(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a selection along the axis given by the third operand, by default the first one."""
    axis = integers(required_constant(node, build, 2, "the axis"))[0] if len(node.inputs) > 2 else 0
    attributes = {"axis": axis, "batch_dims": node.attributes.get("batch_dims", 0)}
    return build.through("GATHER", node, node.inputs[:2], attributes)


@TABLE.imports("MirrorPad")
def mirror_pad(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import mirroring with the border itself (SYMMETRIC) or without it."""
    return build.through("MIRROR_PAD", node, attributes={"mode": int(node.attributes.get("mode") == "SYMMETRIC")})


@TABLE.imports("DepthToSpace", "SpaceToDepth")
def blocks(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import DepthToSpace or SpaceToDepth; channels of a block are numbered row, column, channel."""
    operator = "DEPTH_TO_SPACE" if node.op_type == "DepthToSpace" else "SPACE_TO_DEPTH"
    image = build.channels_last(node, node.inputs[0])
    made = build.through(operator, node, (image,), {"block_size": node.attributes.get("block_size", 0)})
    return build.in_format(node, made)


@TABLE.imports("ResizeBilinear", "ResizeNearestNeighbor")
def resize(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import resizing with half-pixel centers, aligned corners, or neither."""
    if is_channels_first(node):
        raise build.refuse(node, "only images with channels last can be resized")
    operator = "RESIZE_BILINEAR" if node.op_type == "ResizeBilinear" else "RESIZE_NEAREST_NEIGHBOR"
    names = ("align_corners", "half_pixel_centers")
    return build.through(operator, node, attributes={name: node.attributes.get(name, False) for name in names})


@TABLE.imports("Fill")
def fill(node: ForeignNode, build: TensorflowBuilder) -> Results:
    """Import a computed number in a constant shape."""
    rank = required_constant(node, build, 0, "the shape").size
    ones = build.constant_tensor(node, np.ones(rank, np.int32), "ones")
    grown = build.inner("RESHAPE", node, (node.inputs[1], ones), "number")
    return build.through("BROADCAST_TO", node, (grown, node.inputs[0]))
