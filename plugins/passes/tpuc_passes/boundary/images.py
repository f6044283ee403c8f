"""An input of bytes in place of an image input, and its pixels as the network wants them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tpuc.api import F32, Location, Module, Op, Operation, Rewriter, ScalarType, TensorType, Uniform, UsageError, Value
from tpuc_ops import top, tpu

from tpuc_passes.canonicalisation.common import Names

BYTES = ScalarType("ui8")
PIXELS = Uniform(ScalarType("u8"), F32, 1.0)
"""Bytes that mean themselves, as TPU-MLIR declares them."""


@dataclass(frozen=True)
class Format:
    """How the bytes of an image lie: order of channels and layout."""

    pixels: str
    layout: str

    @property
    def channels(self) -> int:
        """Channels per pixel."""
        return 1 if self.pixels == "gray" else 3


FORMATS = {
    "RGB_PLANAR": Format("rgb", "nchw"),
    "RGB_PACKED": Format("rgb", "nhwc"),
    "BGR_PLANAR": Format("bgr", "nchw"),
    "BGR_PACKED": Format("bgr", "nhwc"),
    "GRAYSCALE": Format("gray", "nchw"),
}
_ORDERS = {("nhwc", "nchw"): (0, 3, 1, 2), ("nchw", "nhwc"): (0, 2, 3, 1)}


def rows_of(dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The same elements with rows as channels, so that every lane has work."""
    n, *middle, last = (1, *dims) if len(dims) < 2 else dims
    return (n, math.prod(middle), last, 1) if middle else (n, last, 1, 1)


class ImageBytes:
    """Builds, before `operation`, an input of bytes and what moves them. Values are made when first asked for."""

    def __init__(self, module: Module, operation: Operation, format_name: str) -> None:
        self.operation = operation
        self.old: Any = operation.op
        self.format_name, self.format = format_name, FORMATS[format_name]
        self.name, self.dims = operation.name, operation.result.tensor.dims
        self.layout: str = self.old.channel_format or "nchw"
        self.axis = self.layout.index("c")
        if self.dims[self.axis] != self.format.channels:
            raise UsageError(
                f"input '{self.name}' has {self.dims[self.axis]} channels, and {format_name} gives "
                f"{self.format.channels}. Transform the network with its own --pixel-format and --channel-format."
            )
        self._swaps = self.format.pixels != self.old.pixel_format and self.format.channels > 1
        self._names = Names(module)
        self._build = Rewriter(module, constant=top.Weight(), absent=top.None_())
        self._build.at(operation)

    @cached_property
    def raw(self) -> Value:
        """The bytes; images in files become them by what the attributes say."""
        height, width = (self.dims[self.layout.index(axis)] for axis in "hw")
        rows, columns = self.old.resize_dims or (height, width)
        if rows < height or columns < width:
            raise UsageError(
                f"input '{self.name}' is {height}x{width}, and images are resized to {rows}x{columns} only. Transform "
                "the network with larger --resize-dims."
            )
        n, c = self.dims[0], self.format.channels
        shape = (n, c, rows, columns) if self.format.layout == "nchw" else (n, rows, columns, c)
        argument, name = self.operation.operands[0], self._names.new(f"{self.name}_raw")
        argument.type, argument.location = TensorType(shape, BYTES), Location((name,))
        op = dataclasses.replace(
            self.old,
            channel_format=self.format.layout,
            customization_format=self.format_name,
            mean=(0.0,) * c,
            scale=(1.0,) * c,
            pixel_format=self.format.pixels,
            resize_dims=(rows, columns),
        )
        assert isinstance(op, top.Input)
        return self._build.build(op, [argument], TensorType(shape, PIXELS), name)

    @cached_property
    def pixels(self) -> Value:
        """The middle of the image in the network's layout and order of channels."""
        value = self.raw
        if self.format.layout != self.layout:
            order = _ORDERS[self.format.layout, self.layout]
            dims = tuple(value.tensor.dims[axis] for axis in order)
            value = self.op(tpu.Permute(order=order), [value], TensorType(dims, PIXELS), "transpose")
        if value.tensor.dims == self.dims and not self._swaps:
            return value
        return self._middle(value, self.dims, 0, -1 if self._swaps else 1, self.axis, "slice")

    def channel(self, index: int) -> Value:
        """The middle of one channel of the network, in the layout of the bytes."""
        extents = dict(zip(self.layout, self.dims, strict=True)) | {"c": 1}
        dims = tuple(extents[name] for name in self.format.layout)
        return self._middle(self.raw, dims, index, 1, self.format.layout.index("c"), f"channel{index}")

    def _middle(self, value: Value, dims: tuple[int, ...], channel: int, step: int, axis: int, what: str) -> Value:
        """From a channel of the network on; backwards where its order is the other one."""
        offset = [(extent - wanted) // 2 for extent, wanted in zip(value.tensor.dims, dims, strict=True)]
        offset[axis] = self.format.channels - 1 - channel if self._swaps else channel
        steps = tuple(step if index == axis else 1 for index in range(4))
        ends = None if step < 0 else tuple(start + size for start, size in zip(offset, dims, strict=True))
        return self.op(tpu.Slice(offset=tuple(offset), steps=steps, ends=ends), [value], TensorType(dims, PIXELS), what)

    def op(self, op: Op, operands: Sequence[Value], result: TensorType, what: str) -> Value:
        """One more operation."""
        return self._build.build(op, operands, result, self._names.new(f"{self.name}_preprocess_{what}"))

    def weight(self, what: str, array: Any, element: Any = F32) -> Value:
        """One more constant."""
        return self._build.weight(self._names.new(f"{self.name}_preprocess_{what}"), array, element)
