"""Resizing of images."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.upsample import Upsample

from tpuc_onnx.importers.common import TABLE

COORDINATES_SINCE = 11
"""Before this opset every resize was asymmetric and nearest meant floor."""

_CENTRED = ("half_pixel", "pytorch_half_pixel")


@TABLE.imports("Resize", "Upsample")
def resize(node: ForeignNode, build: ImportBuilder) -> Value:
    """Whole blocks of copies where that is all, else interpolation."""
    name, x = node.outputs[0], build.value(node.inputs[0])
    dims, shape = x.tensor.dims, build.shape(name)
    if len(dims) != 4 or dims[:2] != shape[:2]:
        raise build.refuse(node, "only rows and columns of images (n, c, h, w) can be resized")
    old = node.version < COORDINATES_SINCE
    mode = node.attributes.get("mode", "nearest")
    coordinates = "asymmetric" if old else node.attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else node.attributes.get("nearest_mode", "round_prefer_floor")
    _check(node, build, mode, coordinates)
    if mode == "nearest" and shape[2] % dims[2] == 0 and shape[3] % dims[3] == 0 and _copies(coordinates, rounding):
        return build.build(Upsample(scale_h=shape[2] // dims[2], scale_w=shape[3] // dims[3]), [x], name)
    if mode == "nearest" and rounding != ("floor" if coordinates == "asymmetric" else "round_prefer_floor"):
        raise build.refuse(node, f"nearest_mode '{rounding}' with '{coordinates}' coordinates is not supported")
    scale_h, scale_w = _scales(node, build)
    op = Interp(mode=mode, coord_mode=coordinates, scale_h=scale_h, scale_w=scale_w)
    return build.build(op, [x, build.none()], name, [TensorType(shape, x.tensor.element)])


def _copies(coordinates: str, rounding: str) -> bool:
    """Does growing by a whole factor copy every element, without shifting?"""
    if coordinates == "asymmetric":
        return rounding == "floor"
    return coordinates in _CENTRED and rounding.startswith("round_")


def _check(node: ForeignNode, build: ImportBuilder, mode: str, coordinates: str) -> None:
    if mode not in ("nearest", "linear"):
        raise build.refuse(node, f"mode '{mode}' is not supported, only nearest and linear")
    if coordinates not in ("asymmetric", "align_corners", *_CENTRED):
        raise build.refuse(node, f"coordinate_transformation_mode '{coordinates}' is not supported")
    if node.attributes.get("antialias", 0):
        raise build.refuse(node, "antialias is not supported")


def _scales(node: ForeignNode, build: ImportBuilder) -> tuple[float, float]:
    """What the file says, which places elements where extents are rounded; -1 when it gives sizes."""
    if "scales" in node.attributes:
        scales = node.attributes["scales"]
    else:
        index = 1 if node.version < COORDINATES_SINCE else 2
        array = build.constant(node.inputs[index]) if len(node.inputs) > index else None
        scales = () if array is None else array.tolist()
    return (float(scales[-2]), float(scales[-1])) if len(scales) >= 2 else (-1.0, -1.0)
