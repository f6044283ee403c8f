"""Transposed convolution: a convolution with zeros between the input's rows and columns, and the filter turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import ABSENT, Box, KernelChoice, Node, Space, Tile, TileKernel, View, elementwise_view
from tpuc_ops.tpu.deconv import Deconv

from tpuc_cv183x.kernels.common import MAX_WINDOW_STEP, element_refusal
from tpuc_cv183x.kernels.depthwise import DepthwiseConvKernel
from tpuc_cv183x.kernels.product import Product, ProductKernel, requantise_refusal

Array: TypeAlias = npt.NDArray[Any]


def deconvolution(node: Node) -> Product:
    """The node as a convolution of what has zeros inserted."""
    op: Deconv = node.op
    window = op.window()
    top, left, bottom, right = (extent - 1 - pad for extent, pad in zip(window.extents * 2, window.pads, strict=True))
    return Product(
        View(elementwise_view(node.operand_types[0].dims)),
        View(elementwise_view(node.result_type.dims)),
        kernel=window.kernel,
        pads=(top, left, bottom, right),
        dilations=window.dilations,
        has_bias=node.operand_types[2] is not ABSENT,
        multipliers=op.multiplier,
        right_shifts=op.rshift,
        inserts=(window.strides[0] - 1, window.strides[1] - 1),
    )


def deconvolution_refusal(node: Node) -> str | None:
    """What no kind of transposed convolution can do."""
    op: Deconv = node.op
    window = op.window()
    if max(window.dilations) > MAX_WINDOW_STEP + 1:
        return f"dilation at most {MAX_WINDOW_STEP + 1}, this one is {max(window.dilations)}"
    extra = op.output_padding or (0, 0)
    for extent, stride, added, first, last in zip(
        window.extents, window.strides, extra, window.pads[:2], window.pads[2:], strict=True
    ):
        if extent < stride:
            return f"a window of at least the stride, this one is {extent} for {stride}"
        if extent - 1 - min(first, last - added) > MAX_WINDOW_STEP or stride - 1 > MAX_WINDOW_STEP:
            return f"a window of at most {MAX_WINDOW_STEP + 1} places beyond its padding, this one has {extent}"
        if max(first, last) >= extent or added > last:
            return "padding below the window's extent, and at least the output padding"
    return element_refusal(Node(op, node.operand_types[:1], node.result_types, node.name)) or requantise_refusal(
        node, op.multiplier, op.rshift
    )


def deconvolution_box(tile: Tile, product: Product, channels: tuple[int, int]) -> Box:
    """The input part that a tile reads, and the zeros around its inserted form."""
    n0, n1 = tile.range("n")
    _, _, *limits = product.input.shape
    starts: list[int] = []
    sizes: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for axis, name in enumerate("hw"):
        first, end = tile.range(name)
        step = product.inserts[axis] + 1
        low, high = first - product.pads[axis], end - 1 - product.pads[axis] + product.extent[axis] - 1
        start, stop = max(-(-low // step), 0), min(high // step, limits[axis] - 1)
        starts.append(start)
        sizes.append(stop - start + 1)
        before.append(start * step - low)
        after.append(high - stop * step)
    return Box(
        (n0, channels[0], starts[0], starts[1]),
        (n1 - n0, channels[1] - channels[0], sizes[0], sizes[1]),
        (before[0], before[1], after[0], after[1]),
    )


def _turned(node: Node, arrays: Sequence[Array | None]) -> Array:
    filters = arrays[1]
    assert filters is not None
    return node.op.turned(filters)


class FullDeconvKernel(ProductKernel):
    """Without groups."""

    def refuse(self, node: Node) -> str | None:
        return deconvolution_refusal(node)

    def product(self, node: Node) -> Product:
        return deconvolution(node)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes: list[Box | None] = [None] * len(node.operand_types)
        boxes[0] = deconvolution_box(tile, self.product(node), tile.range("k"))
        return boxes

    def filter_array(self, node: Node, arrays: Sequence[Array | None]) -> Array:
        return _turned(node, arrays)


class DepthwiseDeconvKernel(DepthwiseConvKernel):
    """One filter per channel."""

    def refuse(self, node: Node) -> str | None:
        return deconvolution_refusal(node)

    def product(self, node: Node) -> Product:
        return deconvolution(node)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes: list[Box | None] = [None] * len(node.operand_types)
        boxes[0] = deconvolution_box(tile, self.product(node), tile.range("c"))
        return boxes

    def filter_array(self, node: Node, arrays: Sequence[Array | None]) -> Array:
        return _turned(node, arrays)


class GroupedDeconvKernel(TileKernel[Deconv]):
    """Groups of several channels, which the chip does not have."""

    def refuse(self, node: Node) -> str | None:
        return "groups of several channels have no kernel; lowering writes them as one group with zeros between"


class DeconvKernel(KernelChoice[Deconv]):
    """Full or depthwise; other groups are spelled out by the lowering."""

    def __init__(self) -> None:
        self._full, self._depthwise, self._other = FullDeconvKernel(), DepthwiseDeconvKernel(), GroupedDeconvKernel()

    def kernel(self, node: Node) -> TileKernel[Any]:
        if node.op.group == 1:
            return self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        return self._depthwise if channels == (node.op.group, node.op.group) else self._other
