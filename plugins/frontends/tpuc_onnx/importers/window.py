"""Sliding windows as ONNX states them, with all automatic choices made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tpuc.api import ForeignNode, ImportBuilder

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class WindowAttributes:
    """Attributes per dimension; `pads` lists all before, then all after: in two dimensions top, left, bottom, right."""

    kernel: Shape
    strides: Shape
    pads: Shape
    dilations: Shape

    @staticmethod
    def of(node: ForeignNode, build: ImportBuilder, kernel: Sequence[int]) -> WindowAttributes:
        """Return the attributes of a node that slides `kernel` over one to three dimensions; refuses other ranks."""
        window = WindowAttributes.any(node, build, kernel)
        rank = len(window.kernel)
        if rank not in (1, 2, 3):
            raise build.refuse(node, f"windows over {rank} dimensions are not supported; use 1 to 3")
        return window.two_dimensional() if rank == 1 else window

    @staticmethod
    def any(node: ForeignNode, build: ImportBuilder, kernel: Sequence[int]) -> WindowAttributes:
        """Return the attributes of a node that slides `kernel` over its first operand, with any number of
        dimensions.
        """
        size = build.shape(node.inputs[0])[2:]
        rank = len(size)
        strides: Shape = node.attributes.get("strides", (1,) * rank)
        dilations: Shape = node.attributes.get("dilations", (1,) * rank)
        if not len(kernel) == len(strides) == len(dilations) == rank:
            raise build.refuse(node, f"kernel, strides and dilations do not all have the input's {rank} dimensions")
        pads = _pads(node, build, size, kernel, strides, dilations)
        if min(pads, default=0) < 0:
            raise build.refuse(node, f"negative pads are not supported, these are {list(pads)}")
        return WindowAttributes(tuple(kernel), strides, pads, dilations)

    def two_dimensional(self) -> WindowAttributes:
        """Turn a one-dimensional window into one over a single row."""
        if len(self.kernel) == 2:
            return self
        before, after = self.pads
        return WindowAttributes((1, *self.kernel), (1, *self.strides), (0, before, 0, after), (1, *self.dilations))

    def ceiled(self, size: Sequence[int], result: Sequence[int]) -> WindowAttributes:
        """Add padding at the end so that a window over `size` gives `result` without rounding up."""
        pads = list(self.pads)
        rank = len(self.kernel)
        for axis in range(rank):
            extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            reach = (result[axis] - 1) * self.strides[axis] + extent
            pads[axis + rank] = max(pads[axis + rank], reach - size[axis] - pads[axis])
        return replace(self, pads=tuple(pads))


def images(shape: Sequence[int]) -> Shape:
    """Reshape `[n, c, l]` to `[n, c, 1, l]`; other ranks are unchanged."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else tuple(shape)


def _pads(
    node: ForeignNode,
    build: ImportBuilder,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Shape:
    """Return padding before and after in ONNX's order: all starts, then all ends."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    match mode:
        case "NOTSET":
            pads: Shape = node.attributes.get("pads", (0,) * 2 * len(size))
            if len(pads) != 2 * len(size):
                raise build.refuse(node, f"{len(size)} dimensions need {2 * len(size)} pads, these are {list(pads)}")
            return pads
        case "VALID":
            return (0,) * 2 * len(size)
        case "SAME_UPPER" | "SAME_LOWER":
            totals = [
                max((-(-extent // stride) - 1) * stride + (taps - 1) * dilation + 1 - extent, 0)
                for extent, taps, stride, dilation in zip(size, kernel, strides, dilations, strict=True)
            ]
            less, more = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
            return less + more if mode == "SAME_UPPER" else more + less
        case _:
            raise build.refuse(node, f"auto_pad '{mode}' is not supported; use NOTSET, VALID, SAME_UPPER or SAME_LOWER")


def transposed_window(node: ForeignNode, build: ImportBuilder, kernel: Sequence[int]) -> tuple[WindowAttributes, Shape]:
    """Return the window of a transposed convolution, and the number of elements appended along each axis."""
    size = build.shape(node.inputs[0])[2:]
    rank = len(size)
    strides: Shape = node.attributes.get("strides", (1,) * rank)
    dilations: Shape = node.attributes.get("dilations", (1,) * rank)
    extra: Shape = node.attributes.get("output_padding", (0,) * rank)
    mode = node.attributes.get("auto_pad", "NOTSET")
    wanted = node.attributes.get("output_shape")
    is_stated = wanted is not None
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(extent * stride for extent, stride in zip(size, strides, strict=True))
    if wanted is None:
        pads = node.attributes.get("pads", (0,) * 2 * rank) if mode == "NOTSET" else (0,) * 2 * rank
        return WindowAttributes(tuple(kernel), strides, pads, dilations), extra
    full = [
        stride * (extent - 1) + more + (taps - 1) * dilation + 1
        for extent, stride, more, taps, dilation in zip(size, strides, extra, kernel, dilations, strict=True)
    ]
    totals = [extent - aim for extent, aim in zip(full, wanted[-rank:], strict=True)]
    if is_stated:  # a stride above the window makes no result larger by itself
        extra = tuple(more + max(-total, 0) for more, total in zip(extra, totals, strict=True))
    less = tuple(max(total, 0) // 2 for total in totals)
    more = tuple(max(total, 0) - max(total, 0) // 2 for total in totals)
    pads = less + more if mode == "SAME_UPPER" else more + less
    return WindowAttributes(tuple(kernel), strides, pads, dilations), extra
