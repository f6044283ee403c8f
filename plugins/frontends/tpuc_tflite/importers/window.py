"""Sliding windows as TFLite states them, with explicit padding."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ForeignNode

from tpuc_tflite.building import TfliteBuilder
from tpuc_tflite.graph import Shape

SAME, VALID = 0, 1


def pads_of(
    node: ForeignNode,
    build: TfliteBuilder,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> Shape:
    """Return top, left, bottom, right. SAME gives as many results as there are strides in the input; an odd element is
    padded at the end.

    The attribute `pads` states them explicitly; files do not have it, but a merged node may.
    """
    stated = node.attributes.get("pads")
    if stated is not None:
        return tuple(stated)
    mode = node.attributes.get("padding", SAME)
    if mode not in (SAME, VALID):
        raise build.refuse(node, f"padding {mode} is not known, only SAME (0) and VALID (1)")
    if mode == VALID:
        return (0, 0, 0, 0)
    totals = [
        max((-(-extent // stride) - 1) * stride + (taps - 1) * dilation + 1 - extent, 0)
        for extent, taps, stride, dilation in zip(size, kernel, strides, dilations, strict=True)
    ]
    return (totals[0] // 2, totals[1] // 2, totals[0] - totals[0] // 2, totals[1] - totals[1] // 2)


def strides_of(node: ForeignNode, build: TfliteBuilder) -> tuple[int, int]:
    """Return the strides of rows and columns."""
    strides = (int(node.attributes.get("stride_h", 1)), int(node.attributes.get("stride_w", 1)))
    if min(strides) < 1:
        raise build.refuse(node, f"its strides are {list(strides)}, but must be positive")
    return strides


def dilations_of(node: ForeignNode, build: TfliteBuilder) -> tuple[int, int]:
    """Return the dilations of rows and columns."""
    names = ("dilation_h_factor", "dilation_w_factor")
    dilations = (int(node.attributes.get(names[0], 1)), int(node.attributes.get(names[1], 1)))
    if min(dilations) < 1:
        raise build.refuse(node, f"its dilations are {list(dilations)}, but must be positive")
    return dilations
