"""One image input of a lowered module becomes an input of bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api import (
    F32,
    Location,
    Module,
    Node,
    Op,
    Operation,
    Rewriter,
    ScalarType,
    TensorType,
    Uniform,
    UsageError,
    Value,
)
from tpuc.api.host import preprocess_of
from tpuc_ops.top.input import Input
from tpuc_ops.top.none import NoneOp
from tpuc_ops.top.weight import Weight
from tpuc_ops.tpu.add_const import AddConst
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.concat import Concat
from tpuc_ops.tpu.lut import Lut
from tpuc_ops.tpu.mul import Mul
from tpuc_ops.tpu.mul_const import MulConst
from tpuc_ops.tpu.permute import Permute
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.slice import Slice
from tpuc_ops.tpu.sub import Sub

from tpuc_passes.canonicalisation.common import Names

Array: TypeAlias = npt.NDArray[Any]

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


class ImageFusion:
    """Replaces `operation`, an image input, by an input of bytes in a format and what makes the old values of them."""

    def __init__(self, module: Module, operation: Operation, format: str) -> None:
        self.operation = operation
        self.old: Any = operation.op
        self.format_name, self.format = format, FORMATS[format]
        self.name = operation.name
        self.dims = operation.result.tensor.dims
        self.layout: str = self.old.channel_format or "nchw"
        self.axis = self.layout.index("c")
        if self.dims[self.axis] != self.format.channels:
            raise UsageError(
                f"input '{self.name}' has {self.dims[self.axis]} channels, and {format} gives {self.format.channels}. "
                "Transform the network with its own --pixel-format and --channel-format."
            )
        self.preprocess = preprocess_of(operation.op, self.dims)
        self.names = Names(module)
        self.build = Rewriter(module, constant=Weight(), absent=NoneOp())
        self.build.at(operation)

    def run(self) -> None:
        """Do it."""
        pixels = self._arranged(self._raw())
        result = self.operation.result
        casts = [user for user in result.users if isinstance(user.op, Cast) and user.result.tensor.is_quantised]
        for cast in casts:
            quantised = self._quantised(pixels, cast)
            cast.result.replace_with(quantised)
            cast.erase()
            _last_name(quantised, cast.name)
        if result.uses:
            value = self._normalised(pixels)
            result.replace_with(value)
            _last_name(value, self.name)
        self.operation.erase()

    def _raw(self) -> Value:
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
        argument = self.operation.operands[0]
        argument.type = TensorType(shape, BYTES)
        name = self.names.new(f"{self.name}_raw")
        argument.location = Location((name,))
        op = dataclasses.replace(
            self.old,
            channel_format=self.format.layout,
            customization_format=self.format_name,
            mean=(0.0,) * c,
            scale=(1.0,) * c,
            pixel_format=self.format.pixels,
            resize_dims=(rows, columns),
        )
        assert isinstance(op, Input)
        return self.build.build(op, [argument], TensorType(shape, PIXELS), name)

    def _arranged(self, raw: Value) -> Value:
        """The middle of the image in the network's layout and order of channels."""
        value = raw
        if self.format.layout != self.layout:
            order = _ORDERS[self.format.layout, self.layout]
            dims = tuple(value.tensor.dims[axis] for axis in order)
            value = self._op(Permute(order=order), [value], TensorType(dims, PIXELS), "transpose")
        whole = value.tensor.dims
        swapped = self.format.pixels != self.old.pixel_format and self.format.channels > 1
        if whole == self.dims and not swapped:
            return value
        offset = [(extent - wanted) // 2 for extent, wanted in zip(whole, self.dims, strict=True)]
        steps, ends = [1] * 4, [start + size for start, size in zip(offset, self.dims, strict=True)]
        if swapped:
            offset[self.axis], steps[self.axis] = self.format.channels - 1, -1
        op = Slice(offset=tuple(offset), steps=tuple(steps), ends=None if swapped else tuple(ends))
        return self._op(op, [value], TensorType(self.dims, PIXELS), "slice")

    def _quantised(self, pixels: Value, cast: Operation) -> Value:
        """What `cast` made of normalised pixels, by tables: one for all channels where that is enough."""
        result = cast.result.tensor
        columns = self.preprocess.normalise(np.arange(256).repeat(self.format.channels).reshape(256, -1))
        node = Node(cast.op, (TensorType(columns.shape, F32),), (TensorType(columns.shape, result.element),), cast.name)
        tables = cast.op.evaluate(node, [columns])[0]
        if (tables == tables[:, :1]).all():
            return self._look_up(pixels, tables[:, 0], result)
        parts: list[Value] = []
        dims = tuple(1 if axis == self.axis else extent for axis, extent in enumerate(self.dims))
        for channel in range(self.format.channels):
            offset = tuple(channel if axis == self.axis else 0 for axis in range(4))
            ends = tuple(start + size for start, size in zip(offset, dims, strict=True))
            op = Slice(offset=offset, steps=(1,) * 4, ends=ends)
            part = self._op(op, [pixels], TensorType(dims, PIXELS), f"channel{channel}")
            parts.append(self._look_up(part, tables[:, channel], TensorType(dims, result.element)))
        return self._op(Concat(axis=self.axis), parts, TensorType(self.dims, result.element), "scale_lut")

    def _look_up(self, pixels: Value, table: Array, result: TensorType) -> Value:
        """Rows count as channels, so that all lanes take part."""
        n, *middle, last = result.dims
        spread = (n, int(np.prod(middle)), last, 1)
        flat = self._op(Reshape(shape=spread), [pixels], TensorType(spread, PIXELS), "rows")
        name = self.names.new(f"{self.name}_preprocess_table")
        weight = self.build.weight(name, table.reshape(1, 1, 1, 256), result.element)
        found = self._op(Lut(), [flat, weight], TensorType(spread, result.element), "lut")
        return self._op(Reshape(shape=result.dims), [found], TensorType(result.dims, result.element), "scale_lut")

    def _normalised(self, pixels: Value) -> Value:
        """The float32 values: pixels minus mean, times scale, rounded after each."""
        mean, scale = (np.array(numbers, np.float32) for numbers in (self.preprocess.mean, self.preprocess.scale))
        value = self._op(Cast(), [pixels], TensorType(self.dims, F32), "f32")
        if mean.any():
            constant = AddConst(const_val=-float(mean[0]))
            value = self._per_channel(value, mean, constant, Sub(), "mean")
        if (scale != 1).any():
            value = self._per_channel(value, scale, MulConst(const_val=float(scale[0])), Mul(), "scale")
        return value

    def _per_channel(self, value: Value, numbers: Array, same: Op, different: Op, what: str) -> Value:
        type_ = TensorType(self.dims, F32)
        if (numbers == numbers[0]).all():
            return self._op(same, [value], type_, what)
        shape = tuple(self.dims[axis] if axis == self.axis else 1 for axis in range(4))
        constant = self.build.weight(self.names.new(f"{self.name}_preprocess_{what}_values"), numbers.reshape(shape))
        return self._op(different, [value, constant], type_, what)

    def _op(self, op: Op, operands: Sequence[Value], result: TensorType, what: str) -> Value:
        return self.build.build(op, operands, result, self.names.new(f"{self.name}_preprocess_{what}"))


def _last_name(value: Value, name: str) -> None:
    """What stands for an old value has its name."""
    assert value.defining is not None
    value.defining.location = Location((name,))
