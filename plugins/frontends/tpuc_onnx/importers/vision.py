"""Sampling of images, and determinants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE

_MODES: Mapping[str, str] = {"linear": "bilinear", "cubic": "bicubic"}
HALF_PIXEL_SINCE = 16
"""Before this opset, regions counted from the corners of elements."""


@TABLE.imports("GridSample")
def grid_sample(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import GridSample; the modes had other names up to opset 19."""
    mode = node.attributes.get("mode", "linear")
    op = top.GridSampler(
        mode=_MODES.get(mode, mode),
        padding_mode=node.attributes.get("padding_mode", "zeros"),
        align_corners=bool(node.attributes.get("align_corners", 0)),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("Det")
def det(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import determinants of matrices."""
    return build.build(top.Det(), [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("RoiAlign")
def roi_align(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import RoiAlign; TOP stores the image number with each region."""
    x, name = build.value(node.inputs[0]), node.outputs[0]
    rois, images = (build.constant(entry) for entry in node.inputs[1:3])
    if rois is not None and images is not None:
        regions = build.weight(f"{name}_regions", np.concatenate([images.reshape(-1, 1), rois], 1))
    else:
        column = reshape(build, build.value(node.inputs[2]), (build.shape(node.inputs[2])[0], 1), f"{name}_images")
        regions = build.build(top.Concat(axis=1), [column, build.value(node.inputs[1])], f"{name}_regions")
    default = "half_pixel" if node.version >= HALF_PIXEL_SINCE else "output_half_pixel"
    op = top.RoiAlign(
        output_height=node.attributes.get("output_height", 1),
        output_width=node.attributes.get("output_width", 1),
        sampling_ratio=node.attributes.get("sampling_ratio", 0),
        spatial_scale=node.attributes.get("spatial_scale", 1.0),
        align_corners=node.attributes.get("coordinate_transformation_mode", default) == "half_pixel",
        mode=node.attributes.get("mode", "avg").capitalize(),
    )
    return build.build(op, [x, regions], name)
