"""Expand operators on sampling grids into simpler ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tpuc_onnx.script import Script


def affine_grid(script: Script) -> None:
    """Map the positions of all pixels, which are constants, by each image's matrix.

    ONNX's function body also removes a batch dimension of extent 1.
    """
    size: list[int] = script.required(1, "the size of the grid").tolist()
    batch, extents = size[0], size[2:]
    rank = len(extents)
    corners = bool(script.node.attributes.get("align_corners", 0))
    lines = [_places(extent, corners) for extent in extents[::-1]]  # x first, which runs fastest
    places = [np.broadcast_to(line.reshape(-1, *(1,) * axis), extents) for axis, line in enumerate(lines)]
    base = np.stack([*(place.reshape(-1) for place in places), np.ones(math.prod(extents))]).astype(np.float32)
    moved = script("MatMul", script.node.inputs[0], script.constant("places", base))
    rows = script("Transpose", moved, perm=[0, 2, 1])
    shape = script.constant("shape", np.array([batch, *extents, rank], np.int64))
    script("Reshape", rows, shape, result=script.node.outputs[0])


def _places(extent: int, corners: bool) -> npt.NDArray[np.floating]:
    """Return pixel centers from -1 to 1, or positions with the corner pixels at -1 and 1.

    A single corner pixel is at -1, as in ONNX's reference; ONNX Runtime 1.32 has it at 1, and PyTorch at 0.
    """
    if corners:
        return -1 + np.arange(extent) * (2 / max(extent - 1, 1))
    return (2 * np.arange(extent) + 1) / extent - 1
