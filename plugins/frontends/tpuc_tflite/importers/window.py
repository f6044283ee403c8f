"""Sliding windows as TFLite states them, with the padding made explicit."""

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
    """Top, left, bottom, right: SAME gives as many results as strides begin in the input, the odd one at the end.

    Attribute `pads` states them outright; files have none, but a node made from several may.
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
    """Rows and columns."""
    strides = (int(node.attributes.get("stride_h", 1)), int(node.attributes.get("stride_w", 1)))
    if min(strides) < 1:
        raise build.refuse(node, f"its strides are {list(strides)}, and must be positive")
    return strides


def dilations_of(node: ForeignNode, build: TfliteBuilder) -> tuple[int, int]:
    """Rows and columns."""
    names = ("dilation_h_factor", "dilation_w_factor")
    dilations = (int(node.attributes.get(names[0], 1)), int(node.attributes.get(names[1], 1)))
    if min(dilations) < 1:
        raise build.refuse(node, f"its dilations are {list(dilations)}, and must be positive")
    return dilations
