"""Sliding windows as ONNX states them, one- or two-dimensional, with every automatic choice made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tpuc.api import ForeignNode, ImportBuilder

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class WindowAttributes:
    """Two-dimensional; `pads` are top, left, bottom, right."""

    kernel: Shape
    strides: Shape
    pads: Shape
    dilations: Shape

    @staticmethod
    def of(node: ForeignNode, build: ImportBuilder, kernel: Sequence[int]) -> WindowAttributes:
        """From the attributes of a node that slides `kernel` over its first operand; refuses other ranks."""
        size = build.shape(node.inputs[0])[2:]
        if len(size) not in (1, 2):
            raise build.refuse(node, f"windows over {len(size)} dimensions are not supported, only over 1 or 2")
        rank = len(size)
        strides: Shape = node.attributes.get("strides", (1,) * rank)
        dilations: Shape = node.attributes.get("dilations", (1,) * rank)
        if not len(kernel) == len(strides) == len(dilations) == rank:
            raise build.refuse(node, f"kernel, strides and dilations do not all have the input's {rank} dimensions")
        pads = _pads(node, build, size, kernel, strides, dilations)
        if min(pads) < 0:
            raise build.refuse(node, f"negative pads are not supported, these are {list(pads)}")
        if rank == 1:
            return WindowAttributes((1, *kernel), (1, *strides), (0, pads[0], 0, pads[1]), (1, *dilations))
        return WindowAttributes(tuple(kernel), strides, pads, dilations)

    def ceiled(self, size: Sequence[int], result: Sequence[int]) -> WindowAttributes:
        """With so much more padding at the end that a window over `size` gives `result` without rounding up."""
        pads = list(self.pads)
        for axis in (0, 1):
            extent = (self.kernel[axis] - 1) * self.dilations[axis] + 1
            reach = (result[axis] - 1) * self.strides[axis] + extent
            pads[axis + 2] = max(pads[axis + 2], reach - size[axis] - pads[axis])
        return replace(self, pads=tuple(pads))


def images(shape: Sequence[int]) -> Shape:
    """`[n, c, l]` as `[n, c, 1, l]`; other ranks stay."""
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else tuple(shape)


def _pads(
    node: ForeignNode,
    build: ImportBuilder,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Shape:
    """Padding before and after, as ONNX orders it: all starts, then all ends."""
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
            raise build.refuse(node, f"auto_pad '{mode}' is not known, only NOTSET, VALID, SAME_UPPER and SAME_LOWER")
