"""Fake quantization: round floats to the values that stored integers can represent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Calibrated, ChipDescription, TensorType, Uniform, UniformPerAxis, numpy_dtype
from tpuc.api.evaluation import Array
from tpuc_ops import top
from tpuc_ops.quant.arithmetic import usable_scales, usable_threshold
from tpuc_ops.quant.elements import symmetric_element

FILTER_STEPS = 127.0
"""Filters use -127 to 127: -128 has no positive counterpart."""
DIVISOR = 128
"""Steps from 0 to the threshold of a signed value where no chip is involved, as `ChipDescription.symmetric_divisor`."""
BLOCK_ELEMENTS = 1 << 18
"""Filter elements held in float64 at a time: 2 MiB."""


@dataclass(frozen=True)
class Grid:
    """The representable values ``(q - zero_point) * scale`` for integers `q` in `[low, high]`."""

    scale: float
    low: int
    high: int
    zero_point: int = 0

    def round(self, x: Array) -> Array:
        """Every element rounded to its nearest representable value, as a new float32 array."""
        result = self.integers(x)
        np.multiply(result, np.float32(self.scale), out=result)
        return result

    def integers(self, x: Array) -> Array:
        """Like `round`, in units of the scale."""
        result = np.empty(x.shape, np.float32)  # of a scalar, ufuncs would return a number
        np.multiply(x, np.float32(1.0 / self.scale), out=result, dtype=np.float32)
        np.rint(result, out=result)
        np.clip(result, self.low - self.zero_point, self.high - self.zero_point, out=result)
        return result

    @property
    def limit(self) -> int:
        """The largest magnitude of `integers`."""
        return max(self.high - self.zero_point, self.zero_point - self.low)

    def clip(self, x: Array) -> Array:
        """Every element clipped to the representable range, not rounded."""
        low, high = self.limits
        return np.clip(x, np.float32(low), np.float32(high))

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest representable value."""
        return (self.low - self.zero_point) * self.scale, (self.high - self.zero_point) * self.scale


@dataclass(frozen=True)
class ChannelGrid(Grid):
    """Like `Grid`, with a scale for each index of the second axis; `scale` is the largest."""

    scales: tuple[float, ...] = ()

    def round(self, x: Array) -> Array:
        scales = self._scales(x)
        result = np.divide(x, scales, dtype=np.float32)
        np.rint(result, out=result)
        np.clip(result, self.low, self.high, out=result)
        np.multiply(result, scales, out=result)
        return result

    def clip(self, x: Array) -> Array:
        scales = self._scales(x)
        return np.clip(x, self.low * scales, self.high * scales)

    def _scales(self, x: Array) -> Array:
        return np.asarray(self.scales, np.float32).reshape(-1, *(1,) * (x.ndim - 2))


def grid_of_uniform(element: Uniform | UniformPerAxis) -> Grid:
    """The grid of a stored element type."""
    limits = np.iinfo(numpy_dtype(element.storage))
    if isinstance(element, UniformPerAxis):
        return ChannelGrid(max(element.scales), int(limits.min), int(limits.max), 0, element.scales)
    return Grid(element.scale, int(limits.min), int(limits.max), element.zero_point)


def grid_of(type: TensorType, chip: ChipDescription | None, mode: str, name: str) -> Grid | None:
    """The grid of a calibrated value: by the chip's rule, or symmetric with the default divisor when there is none.

    None for values that are stored as floats (not calibrated).
    """
    if isinstance(type.element, UniformPerAxis):
        return grid_of_uniform(type.element)
    if not isinstance(type.element, Calibrated):
        return None
    element = (
        chip.quantized_element(type, mode, chip.symmetric_divisor, name)
        if chip is not None
        else symmetric_element(type, DIVISOR, name)
    )
    return grid_of_uniform(element) if isinstance(element, Uniform) else None


def symmetric_grid(threshold: float, *, signed: bool, divisor: int = DIVISOR) -> Grid:
    """The grid of a threshold: int8 when `signed`, else uint8."""
    threshold = usable_threshold(threshold)
    return Grid(threshold / divisor, -128, 127) if signed else Grid(threshold / 255, 0, 255)


def channel_axis(op: object) -> int:
    """The axis of output channels in the filters of a product op; matrices are `[k, n]` unless transposed."""
    return -1 if isinstance(op, top.MatMul) and not op.right_transpose else (-2 if isinstance(op, top.MatMul) else 0)


def scale_along(op: object, scales: Array, rank: int) -> Array:
    """The scales of a product's filters, shaped to broadcast with sums of this rank."""
    flat = scales.reshape(-1)
    if isinstance(op, top.MatMul):
        return flat
    return np.tile(flat, op.group if isinstance(op, top.Deconv) else 1).reshape(-1, *(1,) * (rank - 2))


def stored_filters(op: object, filters: Array) -> tuple[Array, Array]:
    """Filters as int8 with one scale per output channel, and the scales as `filter_scales` shapes them."""
    scale = filter_scales(op, filters)
    integers = np.empty(filters.shape, np.int8)
    axis = channel_axis(op) % filters.ndim
    parts = -(-filters.size // BLOCK_ELEMENTS)
    # In parts: what is in float64 meanwhile takes eight times the memory of the result.
    for some, result, steps in zip(
        *(np.array_split(one, parts, axis) for one in (filters, integers, scale)), strict=True
    ):
        result[...] = np.clip(np.rint(some / steps), -FILTER_STEPS, FILTER_STEPS)
    return integers, scale.astype(np.float32)


def filter_scales(op: object, filters: Array) -> Array:
    """The step of each output channel, shaped to broadcast with the filters."""
    kept = channel_axis(op) % filters.ndim
    others = tuple(axis for axis in range(filters.ndim) if axis != kept)
    absmax = np.abs(filters).max(axis=others, keepdims=True, initial=0.0).astype(np.float64)
    return usable_scales(absmax / FILTER_STEPS)
