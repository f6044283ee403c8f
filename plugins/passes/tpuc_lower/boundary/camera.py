"""Read images from frames in the memory layout of camera hardware."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import FrameAlignment, TensorType, Value
from tpuc_ops import tpu

from tpuc_lower.boundary.building import PIXELS, BoundaryBuilder


@dataclass(frozen=True)
class Plane:
    """Rows of bytes within a frame, starting at `start`, `stride` bytes apart."""

    start: int
    rows: int
    width: int
    stride: int

    @property
    def end(self) -> int:
        """The offset after the last row and its padding."""
        return self.start + self.rows * self.stride


def up(size: int, unit: int) -> int:
    """Round up to the next multiple."""
    return -(-size // unit) * unit


def image_bytes(dims: tuple[int, ...], is_planar: bool, alignment: FrameAlignment) -> int:
    """Bytes of a frame of images with these extents, `[n, c, h, w]` or `[n, h, w, c]`."""
    planes, rows, width = dims[1:] if is_planar else (1, dims[1], dims[2] * dims[3])
    plane = rows * up(width, alignment.row_bytes)
    return planes * up(plane, alignment.plane_bytes) if planes > 1 else plane


def video_planes(rows: int, columns: int, is_interleaved: bool, alignment: FrameAlignment) -> tuple[Plane, ...]:
    """The luma plane, and one interleaved or two separate chroma planes."""
    unit, half = alignment.row_bytes, rows // 2
    width = columns if is_interleaved else columns // 2
    found = [Plane(0, rows, columns, up(columns, unit if is_interleaved else 2 * unit))]
    for _ in range(1 if is_interleaved else 2):
        found.append(Plane(up(found[-1].end, alignment.plane_bytes), half, width, up(width, unit)))
    return tuple(found)


class CameraFrames:
    """Splits frames `[n, 1, 1, bytes]` into planes."""

    def __init__(self, build: BoundaryBuilder, raw: Value) -> None:
        self._build, self._raw, self._images = build, raw, raw.tensor.dims[0]

    def image(self, dims: tuple[int, ...], is_planar: bool, alignment: FrameAlignment) -> Value:
        """The bytes of images with these extents."""
        planes, rows, width = dims[1:] if is_planar else (1, dims[1], dims[2] * dims[3])
        stride = up(width, alignment.row_bytes)
        planar = self._reshaped(self._raw, (self._images, planes, 1, self._raw.tensor.dims[3] // planes), "planes")
        lines = self._reshaped(self._part(planar, 0, rows * stride), (self._images, planes, rows, stride), "lines")
        return self._reshaped(self._part(lines, 0, width), dims, "image")

    def video(self, planes: tuple[Plane, ...]) -> Value:
        """The bytes of video, `[n, 1, 3 h / 2, w]`: luma above chroma."""
        brightness, *colors = (self._lines(plane) for plane in planes)
        n, _, rows, columns = brightness.tensor.dims
        maps = colors[0]
        if len(colors) > 1:
            dims = (n, 2, rows // 2, columns // 2)
            maps = self._build.op(tpu.Concat(axis=1), colors, TensorType(dims, PIXELS), "colors")
        below = self._reshaped(maps, (n, 1, rows // 2, columns), "below")
        result = TensorType((n, 1, rows + rows // 2, columns), PIXELS)
        return self._build.op(tpu.Concat(axis=2), [brightness, below], result, "frame")

    def _lines(self, plane: Plane) -> Value:
        whole = self._part(self._raw, plane.start, plane.end)
        return self._part(self._reshaped(whole, (self._images, 1, plane.rows, plane.stride), "lines"), 0, plane.width)

    def _part(self, value: Value, start: int, end: int) -> Value:
        """A slice of the last dimension."""
        *rest, whole = value.tensor.dims
        if (start, end) == (0, whole):
            return value
        op = tpu.Slice(offset=(0, 0, 0, start), steps=(1, 1, 1, 1), ends=(*rest, end))
        return self._build.op(op, [value], TensorType((*rest, end - start), PIXELS), "part")

    def _reshaped(self, value: Value, dims: tuple[int, ...], what: str) -> Value:
        if value.tensor.dims == dims:
            return value
        return self._build.op(tpu.Reshape(shape=dims), [value], TensorType(dims, PIXELS), what)
