"""Rewrite transposed convolutions so that their windows reach every result of the zero-inserted input."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc_ops import top

Array: TypeAlias = npt.NDArray[Any]


def reaching(op: top.Deconv, filters: Array) -> tuple[top.Deconv, Array]:
    """Return the op with a window of at least the stride and padding of at least the output padding, and its filter.

    Zeros are appended to the filter, and the same number of elements is cut off by padding.
    """
    window = op.window()
    extra = tuple(op.output_padding or (0, 0))
    added, pads = [0, 0], list(op.pads)
    for axis in (0, 1):
        extent, step = window.extents[axis], window.dilations[axis]
        missing = max(window.strides[axis] - extent, extra[axis] - pads[axis + 2], 0)
        added[axis] = -(-missing // step)
        pads[axis + 2] += added[axis] * step
    if not any(added):
        return op, filters
    kernel = (op.kernel_shape[0] + added[0], op.kernel_shape[1] + added[1])
    wide = np.zeros((*filters.shape[:2], *kernel), filters.dtype)
    wide[:, :, : op.kernel_shape[0], : op.kernel_shape[1]] = filters
    return dataclasses.replace(op, kernel_shape=kernel, pads=tuple(pads)), wide
