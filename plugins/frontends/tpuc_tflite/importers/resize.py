"""Resizing of images."""

from __future__ import annotations

import numpy as np
from tpuc.api import ForeignNode, TensorType, Value
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_tflite.building import NCHW, Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, images

LARGEST = 1 << 16
"""Maximum number of rows or columns of a result."""


@TABLE.imports("RESIZE_BILINEAR")
def bilinear(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import bilinear resizing with half-pixel centers, aligned corners, or neither."""
    x, size = images(node, build), _size(node, build)
    mode = "asymmetric"
    if node.attributes.get("half_pixel_centers", False):
        mode = "half_pixel"
    elif node.attributes.get("align_corners", False):
        mode = "align_corners"
    name, element = node.outputs[0], build.entry(node.outputs[0]).element
    result = TensorType((*x.tensor.dims[:2], *size), element)
    return Arranged(build.build(top.Interp(mode="linear", coord_mode=mode), [x], name, [result]), NCHW)


@TABLE.imports("RESIZE_NEAREST_NEIGHBOR")
def nearest(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import nearest resizing as repeated blocks if possible, else as selection of rows and columns by index."""
    x, size, name = images(node, build), _size(node, build), node.outputs[0]
    dims = x.tensor.dims
    places = [_places(node, extent, count) for extent, count in zip(dims[2:], size, strict=True)]
    scales = [max(count // extent, 1) for extent, count in zip(dims[2:], size, strict=True)]
    copies = [np.repeat(np.arange(extent), scale) for extent, scale in zip(dims[2:], scales, strict=True)]
    if all(np.array_equal(place, copy) for place, copy in zip(places, copies, strict=True)):
        return Arranged(build.build(top.Upsample(scale_h=scales[0], scale_w=scales[1]), [x], name), NCHW)
    rows = _taken(build, x, 2, places[0], f"{name}_rows")
    return Arranged(_taken(build, rows, 3, places[1], name), NCHW)


def _taken(build: TfliteBuilder, x: Value, axis: int, places: Array, name: str) -> Value:
    index = build.weight(f"{name}_indices", places)
    return build.build(top.Gather(axis=axis), [x, index], name)


def _places(node: ForeignNode, extent: int, count: int) -> Array:
    """Return the position of each result element, in the runtime's float32 arithmetic."""
    corners = bool(node.attributes.get("align_corners", False))
    centered = bool(node.attributes.get("half_pixel_centers", False))
    scale = np.float32((extent - 1) / (count - 1)) if corners and count > 1 else np.float32(extent / count)
    places = (np.arange(count, dtype=np.float32) + np.float32(0.5 if centered else 0)) * scale
    rounded = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    return np.clip(rounded, 0, extent - 1).astype(np.int64)


def _size(node: ForeignNode, build: TfliteBuilder) -> tuple[int, int]:
    """Return rows and columns of the result."""
    size = integers(required_constant(node, build, 1, "the size"))
    if len(size) != 2 or min(size) < 1 or max(size) > LARGEST:
        raise build.refuse(node, f"its size {list(size)} is not an image size")
    return size[0], size[1]
