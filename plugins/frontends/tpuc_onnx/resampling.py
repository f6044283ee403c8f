"""Resize along one axis by a matrix: every result element is a weighted sum of operand elements with known weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Resampling:
    """How ONNX's Resize treats an axis: its attributes, and for tf_crop_and_resize the range `start`..`end`."""

    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    start: float = 0.0
    end: float = 1.0

    def places(self, extent: int, count: int, scale: float, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return the positions of `count` result elements among `extent` operand elements, computed in `dtype`."""
        index = np.arange(count, dtype=dtype)
        match self.coordinates:
            case "asymmetric":
                return index / scale
            case "align_corners":
                return index * (extent - 1) / (count - 1) if count > 1 else index
            case "pytorch_half_pixel" if count == 1:
                return index
            case "half_pixel_symmetric":
                offset = extent / 2 * (1 - count / (scale * extent))
                return offset + (index + 0.5) / scale - 0.5
            case "tf_crop_and_resize":
                if count == 1:
                    return index + 0.5 * (self.start + self.end) * (extent - 1)
                return self.start * (extent - 1) + index * ((self.end - self.start) * (extent - 1) / (count - 1))
            case _:
                return (index + 0.5) / scale - 0.5

    def outside(self, extent: int, count: int, scale: float) -> npt.NDArray[np.bool_]:
        """Mask of the result elements that hold the extrapolation value."""
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(count, bool)
        places = self.places(extent, count, scale)
        return (places < 0) | (places > extent - 1)

    def indices(
        self, extent: int, count: int, scale: float, dtype: npt.DTypeLike = np.float32
    ) -> npt.NDArray[np.int64]:
        """Return the operand element that each result element copies in mode nearest.

        Runtimes compute in float32, which decides ties: ``3.5 / 0.7 - 0.5`` is 4.5 there.
        """
        places = self.places(extent, count, scale, dtype)
        match self.rounding:
            case "floor":
                rounded = np.floor(places)
            case "ceil":
                rounded = np.ceil(places)
            case "round_prefer_ceil":
                rounded = np.floor(places + 0.5)
            case _:
                rounded = np.ceil(places - 0.5)
        return np.clip(rounded, 0, extent - 1).astype(np.int64)

    def matrix(self, extent: int, count: int, scale: float) -> npt.NDArray[np.float32]:
        """Return the weights of every result element, `[count, extent]`; rows outside are zero."""
        places = self.places(extent, count, scale)
        kernel, reach = self._kernel()
        narrowing = min(scale, 1.0) if self.antialias else 1.0
        span = math.ceil(reach / narrowing)
        taps = np.floor(places)[:, None] + np.arange(-span, span + 1)
        weights = kernel((taps - places[:, None]) * narrowing)
        inside = (taps >= 0) & (taps < extent)
        if self.exclude_outside:
            weights = np.where(inside, weights, 0)
        weights /= weights.sum(1, keepdims=True)
        result = np.zeros((count, extent))
        rows = np.broadcast_to(np.arange(count)[:, None], taps.shape)
        np.add.at(result, (rows, np.clip(taps, 0, extent - 1).astype(np.int64)), weights)
        result[self.outside(extent, count, scale)] = 0
        return result.astype(np.float32)

    def _kernel(self) -> tuple[Callable[[Array], Array], int]:
        """Return the weight as a function of distance, and the distance from which it is 0."""
        if self.mode == "linear":
            return lambda distance: np.maximum(1 - np.abs(distance), 0), 1
        a = self.cubic

        def cubic(distance: Array) -> Array:
            x = np.abs(distance)
            near = ((a + 2) * x - (a + 3)) * x * x + 1
            far = ((x - 5) * x + 8) * x * a - 4 * a
            return np.where(x <= 1, near, np.where(x < 2, far, 0))

        return cubic, 2
