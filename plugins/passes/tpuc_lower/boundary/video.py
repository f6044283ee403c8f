"""Convert camera frames (YUV 4:2:0) to RGB channels in the network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, reduce

from tpuc.api import TensorType, Value
from tpuc_driver.api.host import VIDEO_FORMATS, video_terms
from tpuc_ops import tpu

from tpuc_lower.boundary.building import PIXELS, BoundaryBuilder
from tpuc_lower.boundary.video_terms import Parts, VideoArithmetic


class VideoFrames:
    """The channels of frames `[n, 1, 3 h / 2, w]`; every value is built on first use.

    Two rows of a frame become one channel, `[n, h / 2, 2, w]`: every lane has work, and chroma is upsampled in place.
    """

    def __init__(
        self, build: BoundaryBuilder, raw: Value, pixels: str, channels: str, arithmetic: VideoArithmetic
    ) -> None:
        self._build, self._raw, self._format = build, raw, VIDEO_FORMATS[pixels]
        self._channels, self._arithmetic = channels, arithmetic
        n, _, rows, width = raw.tensor.dims
        self._shape = (n, rows // 3, 2, width)

    def channel(self, name: str) -> Value:
        """Red, green or blue as bytes `[n, 1, h, w]`; `name` is the first letter."""
        n, half, rows, width = self._shape
        colors = self._colors[name]  # of all channels, while brightness is loaded, which takes longest
        value = self._arithmetic.pixels(self._brightness, colors, (n, half, rows, width // 2, 2))
        return self._reshaped(value, (n, 1, 2 * half, width), name)

    @cached_property
    def _colors(self) -> Mapping[str, Parts]:
        """The chroma terms of each channel."""
        found: dict[str, Parts] = {}
        for name in self._channels:
            maps = [color for channel, color in video_terms() if channel == name]
            found[name] = reduce(
                self._arithmetic.sum, [self._arithmetic.color(name, color, self._map(color)) for color in maps]
            )
        return found

    @cached_property
    def _brightness(self) -> Parts:
        n, half, _, width = self._shape
        rows = self._part(self._raw, (0, 0, 0, 0), (n, 1, 2 * half, width))
        return self._arithmetic.brightness(self._reshaped(rows, self._shape, "y_rows"))

    def _map(self, color: str) -> Value:
        """The bytes of one chroma component, one row per channel: `[n, h / 2, 1, w / 2]`."""
        return self._maps["uv".index(color) if self._format.u_first else "vu".index(color)]

    @cached_property
    def _maps(self) -> tuple[Value, Value]:
        """The bytes of both chroma components in their order."""
        n, half, _, width = self._shape
        rows = self._part(self._raw, (0, 0, 2 * half, 0), (n, 1, half, width))
        dims = (n, half, 1, width // 2)
        if self._format.interleaved:
            pairs = self._reshaped(rows, (n, half, 1, width), "pairs")
            return self._part(pairs, (0, 0, 0, 0), dims, 2), self._part(pairs, (0, 0, 0, 1), dims, 2)
        maps = self._reshaped(rows, (n, 2, half, width // 2), "maps")
        first, second = (self._part(maps, (0, index, 0, 0), (n, 1, half, width // 2)) for index in range(2))
        return self._reshaped(first, dims, "first_map"), self._reshaped(second, dims, "second_map")

    def _part(self, value: Value, offset: tuple[int, ...], dims: tuple[int, ...], step: int = 1) -> Value:
        """A slice from `offset` on; every `step`-th column."""
        steps = (1, 1, 1, step)
        ends = tuple(start + (size - 1) * pace + 1 for start, size, pace in zip(offset, dims, steps, strict=True))
        op = tpu.Slice(offset=offset, steps=steps, ends=ends)
        return self._build.op(op, [value], TensorType(dims, PIXELS), "map" if step > 1 else "rows")

    def _reshaped(self, value: Value, dims: tuple[int, ...], what: str) -> Value:
        return self._build.op(tpu.Reshape(shape=dims), [value], TensorType(dims, PIXELS), what)
