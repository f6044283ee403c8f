"""Replace an image input by an input of bytes, and convert its pixels in the network."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tpuc.api import FrameAlignment, ImageFrame, Location, Module, Node, Operation, TensorType, UsageError, Value
from tpuc_driver.api.host import SENSOR_FORMATS, VIDEO_FORMATS
from tpuc_ops import top, tpu

from tpuc_lower.boundary.building import BYTES, PIXELS, BoundaryBuilder
from tpuc_lower.boundary.camera import CameraFrames, image_bytes, up, video_planes
from tpuc_lower.boundary.video import VideoFrames
from tpuc_lower.boundary.video_terms import ByteTerms, FloatTerms

_PLANES = {"rgb": "rgb", "bgr": "bgr", "rgba": "rgba", "gray": "y"} | dict.fromkeys(SENSOR_FORMATS, "rgbg")
_COLORS = ("rgb", "bgr")


@dataclass(frozen=True)
class Format:
    """The byte layout of an image: channel order and memory layout."""

    pixels: str
    layout: str

    @property
    def channels(self) -> int:
        """Channels of the stored bytes. A video frame has one, with half as many rows again as the image; a mosaic has
        one, with twice the rows and three times the columns.
        """
        return 1 if self.is_video or self.is_sensor else len(_PLANES[self.pixels])

    @property
    def is_video(self) -> bool:
        """True if luma and chroma are stored separately."""
        return self.pixels in VIDEO_FORMATS

    @property
    def is_sensor(self) -> bool:
        """True for raw sensor values, one color per position."""
        return self.pixels in SENSOR_FORMATS

    def gives(self, wanted: str) -> bool:
        """True if pixels in the order `wanted` can be computed from it."""
        if self.is_sensor or wanted in SENSOR_FORMATS:
            return self.is_sensor and wanted in SENSOR_FORMATS
        return wanted == self.pixels or (wanted in _COLORS and self.pixels != "gray")

    def shape(self, batch: int, rows: int, columns: int) -> tuple[int, int, int, int]:
        """Extents of the bytes of images."""
        if self.is_video:
            return batch, 1, rows * 3 // 2, columns
        if self.is_sensor:
            return batch, 1, 2 * rows, 3 * columns
        planar = self.layout == "nchw"
        return (batch, self.channels, rows, columns) if planar else (batch, rows, columns, self.channels)


FORMATS = {
    "RGB_PLANAR": Format("rgb", "nchw"),
    "RGB_PACKED": Format("rgb", "nhwc"),
    "BGR_PLANAR": Format("bgr", "nchw"),
    "BGR_PACKED": Format("bgr", "nhwc"),
    "GRAYSCALE": Format("gray", "nchw"),
    "RGBA_PLANAR": Format("rgba", "nchw"),
    "RGBA_PACKED": Format("rgba", "nhwc"),
    "YUV420_PLANAR": Format("yuv420", "nchw"),
    "YUV_NV12": Format("nv12", "nchw"),
    "YUV_NV21": Format("nv21", "nchw"),
    **{f"{pixels.upper()}_RAW": Format(pixels, "nchw") for pixels in SENSOR_FORMATS},
}
_ORDERS = {("nhwc", "nchw"): (0, 3, 1, 2), ("nchw", "nhwc"): (0, 2, 3, 1)}


def _no_kernel(_: Node) -> bool:
    return False


@dataclass(frozen=True)
class ImageTarget:
    """The chip's capabilities for images.

    Without `has_f32` the network cannot compute in float32. `alignment`: the input consists of frames with that
    alignment. `lanes` is the number of lanes. `runs` tells whether there is a kernel for a node.
    """

    has_f32: bool = True
    alignment: FrameAlignment | None = None
    lanes: int = 1
    runs: Callable[[Node], bool] = _no_kernel


def over_lanes(dims: tuple[int, ...], lanes: int) -> tuple[int, int, int, int] | None:
    """The same elements as equal rows over more than half of the lanes; None where their number is not divisible so."""
    size = math.prod(dims[1:])
    rows = next((rows for rows in range(lanes, lanes // 2, -1) if size % rows == 0), 0)
    return (dims[0], rows, size // rows, 1) if rows else None


def rows_of(dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """The same elements with rows as channels, so that every lane has work."""
    n, *middle, last = (1, *dims) if len(dims) < 2 else dims
    return (n, math.prod(middle), last, 1) if middle else (n, last, 1, 1)


def frame_of(operation: Operation) -> ImageFrame | None:
    """The images in the frames that an input takes."""
    op: Any = operation.op
    if not getattr(op, "aligned", False):
        return None
    form, n, (rows, columns) = FORMATS[op.customization_format], operation.result.tensor.dims[0], op.resize_dims
    dims = (n, 3, rows, columns) if form.is_video else form.shape(n, rows, columns)
    return ImageFrame(op.customization_format, dims)


class ImageBytes:
    """Builds, before `operation`, an input of bytes and the ops that rearrange them. Values are built on first use."""

    def __init__(
        self,
        module: Module,
        operation: Operation,
        format_name: str,
        target: ImageTarget,
    ) -> None:
        self.operation = operation
        self.old: Any = operation.op
        self.format_name, self.format = format_name, FORMATS[format_name]
        self.name, self.dims = operation.name, operation.result.tensor.dims
        self.layout: str = self.old.channel_format or "nchw"
        self.axis = self.layout.index("c")
        self.channels = len(_PLANES[self.old.pixel_format])
        if self.dims[self.axis] != self.channels:
            raise UsageError(
                f"input '{self.name}' has {self.dims[self.axis]} channels, but {format_name} has {self.channels}. "
                "Transform the network with a matching --pixel-format and --channel-format."
            )
        self.build = BoundaryBuilder(module, operation)
        self.target = target

    @cached_property
    def raw(self) -> Value:
        """The input of bytes; its attributes describe how image files are converted to it."""
        height, width = (self.dims[self.layout.index(axis)] for axis in "hw")
        rows, columns = self.old.resize_dims or (height, width)
        self._check(rows, columns)
        if self.target.alignment is not None:
            return self._from_camera(rows, columns, self.target.alignment)
        op = dataclasses.replace(
            self.old,
            channel_format=self.format.layout,
            customization_format=self.format_name,
            mean=(0.0,) * self.format.channels,
            scale=(1.0,) * self.format.channels,
            pixel_format=self.format.pixels,
            resize_dims=(rows, columns),
        )
        return self._input(op, self.format.shape(self.dims[0], rows, columns))

    def _input(self, op: Any, shape: tuple[int, ...]) -> Value:
        argument, name = self.operation.operands[0], self.build.new_name(f"{self.name}_raw")
        argument.type, argument.location = TensorType(shape, BYTES), Location((name,))
        assert isinstance(op, top.Input)
        return self.build.input(op, argument, TensorType(shape, PIXELS), name)

    def _from_camera(self, rows: int, columns: int, alignment: FrameAlignment) -> Value:
        """The same bytes extracted from frames, each one row of bytes."""
        if self.format.is_sensor:
            raise UsageError(
                f"input '{self.name}': {self.format_name} frames have no padding between rows; leave out "
                "--aligned-input."
            )
        op = top.Input(
            aligned=True,
            do_preprocess=False,
            channel_format=self.format.layout,
            customization_format=self.format_name,
            resize_dims=(rows, columns),
        )
        n = self.dims[0]
        if self.format.is_video:
            planes = video_planes(rows, columns, VIDEO_FORMATS[self.format.pixels].interleaved, alignment)
            size = up(planes[-1].end, alignment.plane_bytes)
            return CameraFrames(self.build, self._input(op, (n, 1, 1, size))).video(planes)
        dims, is_planar = self.format.shape(n, rows, columns), self.format.layout == "nchw"
        size = image_bytes(dims, is_planar, alignment)
        return CameraFrames(self.build, self._input(op, (n, 1, 1, size))).image(dims, is_planar, alignment)

    def _check(self, rows: int, columns: int) -> None:
        height, width = (self.dims[self.layout.index(axis)] for axis in "hw")
        if rows < height or columns < width:
            raise UsageError(
                f"input '{self.name}' is {height}x{width}, but images are resized to {rows}x{columns}. Transform the "
                "network with larger --resize-dims."
            )
        if self.format.is_video and (rows % 2 or columns % 2):
            raise UsageError(
                f"input '{self.name}': {self.format_name} frames have even heights and widths, but images are resized "
                f"to {rows}x{columns}. Transform the network with even --resize-dims; the image is cropped to its "
                "center."
            )

    def spread(self, pixels: Value) -> tuple[int, ...]:
        """Extents of pixels spread over the lanes: rows as channels, or equal parts of contiguous channels. A single
        image stays unchanged, since kernels spread it.
        """
        dims = pixels.tensor.dims
        made_by = pixels.defining
        is_piece = pixels is self.raw or (made_by is not None and made_by.operands[0] is self.raw)
        is_unchanged = self.format.layout == "nchw" and dims[1] == 1 and dims[2:] == self.raw.tensor.dims[2:]
        parts = over_lanes(dims, self.target.lanes) if is_piece and is_unchanged else None
        if parts is None:
            return rows_of(dims)
        return dims if dims[0] == 1 else parts

    @cached_property
    def pixels(self) -> Value:
        """The center crop of the image in the network's layout and channel order."""
        if self.format.is_video:
            return self.from_planes([self.channel(index) for index in range(self.channels)])
        value = self._arranged(self.raw, self.format.layout)
        if value.tensor.dims == self.dims and not self._swaps:
            return value
        return self._middle(value, self.dims, 0, -1 if self._swaps else 1, self.axis, "slice")

    def from_planes(self, planes: list[Value]) -> Value:
        """The network's input from channels `[n, 1, h, w]`, in its layout."""
        n, _, rows, columns = planes[0].tensor.dims
        joined = TensorType((n, self.channels, rows, columns), planes[0].tensor.element)
        return self._arranged(self.build.op(tpu.Concat(axis=1), planes, joined, "planes"), "nchw")

    def _arranged(self, value: Value, layout: str) -> Value:
        """The value in the network's layout."""
        if layout == self.layout:
            return value
        order = _ORDERS[layout, self.layout]
        dims = tuple(value.tensor.dims[axis] for axis in order)
        result = TensorType(dims, value.tensor.element)
        return self.build.op(tpu.Permute(order=order), [value], result, "transpose")

    @cached_property
    def _frames(self) -> VideoFrames:
        arithmetic = FloatTerms(self.build) if self.target.has_f32 else ByteTerms(self.build, self.target.runs)
        return VideoFrames(self.build, self.raw, self.format.pixels, self.old.pixel_format, arithmetic)

    @property
    def _swaps(self) -> bool:
        """True if the bytes have the opposite channel order."""
        return "bgr" in (self.format.pixels, self.old.pixel_format) and self.format.pixels != self.old.pixel_format

    def channel(self, index: int) -> Value:
        """The center crop of one channel of the network, in the layout of the bytes."""
        extents = dict(zip(self.layout, self.dims, strict=True)) | {"c": 1}
        dims = tuple(extents[name] for name in self.format.layout)
        if not self.format.is_video:
            return self._middle(self.raw, dims, index, 1, self.format.layout.index("c"), f"channel{index}")
        plane = self._frames.channel(self.old.pixel_format[index])
        return plane if plane.tensor.dims == dims else self._cropped(plane, dims, f"channel{index}")

    def _cropped(self, value: Value, dims: tuple[int, ...], what: str) -> Value:
        offset = tuple((extent - wanted) // 2 for extent, wanted in zip(value.tensor.dims, dims, strict=True))
        ends = tuple(start + size for start, size in zip(offset, dims, strict=True))
        op = tpu.Slice(offset=offset, steps=(1,) * 4, ends=ends)
        return self.build.op(op, [value], TensorType(dims, PIXELS), what)

    def _middle(self, value: Value, dims: tuple[int, ...], channel: int, step: int, axis: int, what: str) -> Value:
        """The center crop from a channel of the network on; reversed where its order is the opposite one."""
        offset = [(extent - wanted) // 2 for extent, wanted in zip(value.tensor.dims, dims, strict=True)]
        offset[axis] = self.channels - 1 - channel if self._swaps else channel
        steps = tuple(step if index == axis else 1 for index in range(4))
        ends = None if step < 0 else tuple(start + size for start, size in zip(offset, dims, strict=True))
        op = tpu.Slice(offset=tuple(offset), steps=steps, ends=ends)
        return self.build.op(op, [value], TensorType(dims, PIXELS), what)
