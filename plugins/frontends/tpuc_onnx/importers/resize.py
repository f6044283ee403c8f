"""Resizing: repetition where it suffices, interpolation of images, and a matrix per axis for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, TensorType, Value
from tpuc_importing.operands import constant_input, integers, permute
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_onnx.importers.common import TABLE, Shape
from tpuc_onnx.resampling import Resampling

COORDINATES_SINCE = 11
"""Before this opset, every resize was asymmetric, and nearest meant floor."""

_CENTERED = ("half_pixel", "pytorch_half_pixel")
_COORDINATES = (*_CENTERED, "half_pixel_symmetric", "align_corners", "asymmetric", "tf_crop_and_resize")


@dataclass(frozen=True)
class _Axis:
    """One resized axis; `said` is the scale stated by the file, -1 if it states sizes."""

    index: int
    extent: int
    count: int
    scale: float
    said: float
    how: Resampling


@TABLE.imports("Resize", "Upsample")
def resize(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a Resize, as repeated blocks if possible, else as interpolation."""
    name, x = node.outputs[0], build.value(node.inputs[0])
    dims, shape = x.tensor.dims, build.shape(name)
    how = _resampling(node, build)
    axes = _axes(node, build, dims, shape, how)
    if _is_image(dims, axes):
        said = {axis.index: axis.said for axis in axes}
        if how.mode == "nearest" and shape[2] % dims[2] == 0 and shape[3] % dims[3] == 0 and _copies(how):
            return build.build(top.Upsample(scale_h=shape[2] // dims[2], scale_w=shape[3] // dims[3]), [x], name)
        if _interpolates(how) and all(map(_is_exact, axes)):
            op = top.Interp(
                mode=how.mode, coord_mode=how.coordinates, scale_h=said.get(2, 1.0), scale_w=said.get(3, 1.0)
            )
            return build.build(op, [x], name, [TensorType(shape, x.tensor.element)])
    return _by_axis(node, build, x, axes)


def _resampling(node: ForeignNode, build: ImportBuilder) -> Resampling:
    old = node.version < COORDINATES_SINCE
    mode = node.attributes.get("mode", "nearest")
    coordinates = "asymmetric" if old else node.attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear", "cubic"):
        raise build.refuse(node, f"mode '{mode}' is not supported; use nearest, linear or cubic")
    if coordinates not in _COORDINATES:
        raise build.refuse(node, f"coordinate_transformation_mode '{coordinates}' is not supported")
    return Resampling(
        mode,
        coordinates,
        "floor" if old else node.attributes.get("nearest_mode", "round_prefer_floor"),
        node.attributes.get("cubic_coeff_a", -0.75),
        bool(node.attributes.get("exclude_outside", 0)),
        bool(node.attributes.get("antialias", 0)),
    )


def _axes(node: ForeignNode, build: ImportBuilder, dims: Shape, shape: Shape, how: Resampling) -> list[_Axis]:
    """Return every resized axis; roi, scales, and sizes may be for some axes only."""
    chosen: list[int] = [axis % len(dims) for axis in node.attributes.get("axes", range(len(dims)))]
    scales, sizes, roi = _numbers(node, build)
    policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
    ratios = [float(sizes[index]) / dims[axis] for index, axis in enumerate(chosen)] if sizes is not None else []
    common = 0.0
    if ratios and policy != "stretch":
        common = min(ratios) if policy == "not_larger" else max(ratios)
    result: list[_Axis] = []
    for index, axis in enumerate(chosen):
        own = how
        if how.coordinates == "tf_crop_and_resize" and roi is not None:
            own = replace(how, start=float(roi[index]), end=float(roi[index + len(chosen)]))
        said = float(scales[index]) if scales is not None else -1.0
        scale = said if said > 0 else common or shape[axis] / dims[axis]
        if shape[axis] != dims[axis] or scale != 1 or (own.start, own.end) != (0.0, 1.0):
            result.append(_Axis(axis, dims[axis], shape[axis], scale, said, own))
    return result


def _numbers(node: ForeignNode, build: ImportBuilder) -> tuple[Array | None, Array | None, Array | None]:
    """Return scales, sizes, and roi, each None if absent."""
    if "scales" in node.attributes:
        return np.asarray(node.attributes["scales"]), None, None
    old = node.version < COORDINATES_SINCE
    scales = constant_input(node, build, 1 if old else 2, "the list of scales")
    roi = None if old else constant_input(node, build, 1, "the region of interest")
    sizes = None if old else constant_input(node, build, 3, "the list of sizes")
    if scales is not None and not scales.size:
        scales = None
    return scales, sizes if scales is None else None, roi if roi is not None and roi.size else None


def _is_image(dims: Shape, axes: Sequence[_Axis]) -> bool:
    return len(dims) == 4 and all(axis.index >= 2 for axis in axes)


def _copies(how: Resampling) -> bool:
    """True if growing by an integer factor repeats every element without shifting."""
    if how.coordinates == "asymmetric":
        return how.rounding == "floor"
    return how.coordinates in _CENTERED and how.rounding.startswith("round_")


def _interpolates(how: Resampling) -> bool:
    """True if `Interp` supports this mode."""
    if how.antialias or how.exclude_outside or how.coordinates not in (*_CENTERED, "asymmetric", "align_corners"):
        return False
    rounding = "floor" if how.coordinates == "asymmetric" else "round_prefer_floor"
    return how.mode == "linear" or (how.mode == "nearest" and how.rounding == rounding)


def _is_exact(axis: _Axis) -> bool:
    """True if `Interp`, which computes in float64, accepts the scale and selects the same elements as float32."""
    if axis.said <= 0 and axis.scale != axis.count / axis.extent:
        return False
    exact, single = (axis.how.indices(axis.extent, axis.count, axis.scale, kind) for kind in (np.float64, np.float32))
    return axis.how.mode != "nearest" or bool((exact == single).all())


def _by_axis(node: ForeignNode, build: ImportBuilder, x: Value, axes: Sequence[_Axis]) -> Value:
    """Resize one axis after the other; elements outside are filled in at the end."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    fill = float(node.attributes.get("extrapolation_value", 0.0))
    outside = _outside(axes, shape) if fill else np.zeros(0, bool)
    fill = fill if outside.any() else 0.0
    for number, axis in enumerate(axes):
        last = number == len(axes) - 1 and not fill
        x = _resampled(build, x, axis, name if last else f"{name}_axis{axis.index}")
    if not fill:
        return x
    border = build.weight(f"{name}_outside", np.where(outside, np.float32(fill), np.float32(0)))
    return build.build(top.Add(), [x, border], name)


def _outside(axes: Sequence[_Axis], shape: Shape) -> Array:
    """Mask of the result elements that lie outside the operand along any axis."""
    result: Array = np.zeros(shape, bool)
    for axis in axes:
        along = [1] * len(shape)
        along[axis.index] = -1
        result |= axis.how.outside(axis.extent, axis.count, axis.scale).reshape(along)
    return result


def _resampled(build: ImportBuilder, x: Value, axis: _Axis, name: str) -> Value:
    outside = axis.how.outside(axis.extent, axis.count, axis.scale)
    if axis.how.mode == "nearest" and not outside.any():
        indices = axis.how.indices(axis.extent, axis.count, axis.scale)
        return build.build(top.Gather(axis=axis.index), [x, build.weight(f"{name}_places", indices)], name)
    if axis.how.mode == "nearest":
        matrix = np.eye(axis.extent, dtype=np.float32)[axis.how.indices(axis.extent, axis.count, axis.scale)]
        matrix[outside] = 0
    else:
        matrix = axis.how.matrix(axis.extent, axis.count, axis.scale)
    rank = x.tensor.rank
    if axis.index == rank - 2:
        return build.build(top.MatMul(), [build.weight(f"{name}_matrix", matrix), x, build.none()], name)
    order = integers([*(index for index in range(rank) if index != axis.index), axis.index])
    moved = permute(build, x, order, f"{name}_last")
    weight = build.weight(f"{name}_matrix", np.ascontiguousarray(matrix.T))
    is_last = axis.index == rank - 1
    product = build.build(top.MatMul(), [moved, weight, build.none()], name if is_last else f"{name}_product")
    return permute(build, product, np.argsort(order).tolist(), name)
