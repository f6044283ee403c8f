"""Convert a sample to another preset: the same pixels with other means, scales, and channel order. Pictures can be read
again as the preset describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.ir.preprocess import Preprocess, preprocess_from
from tpuc.registry import Registry

from tpuc_driver.data.description import LARGEST_PIXEL, PRESETS, Preset
from tpuc_driver.data.sample_input import SampleInput

ORDERS = ("rgb", "bgr", "gray")
"""Pixel formats between which values can be converted."""
_RANGES = (
    ((0.0, 1 / LARGEST_PIXEL), Preprocess(scale=(LARGEST_PIXEL**-2,), pixel_format="rgb")),
    ((0.0, 1.0), Preprocess(scale=(1 / LARGEST_PIXEL,), pixel_format="rgb")),
    ((-1.0, 1.0), Preprocess((LARGEST_PIXEL / 2,), (2 / LARGEST_PIXEL,), "rgb")),
    ((-2.118, 2.641), Preprocess((123.675, 116.28, 103.53), (1 / 58.395, 1 / 57.12, 1 / 57.375), "rgb")),
    ((0.0, LARGEST_PIXEL), Preprocess(pixel_format="rgb")),
    ((-123.0, 151.0), Preprocess((104.0, 117.0, 123.0), (1.0,), "bgr")),
    ((0.0, LARGEST_PIXEL**2), Preprocess(scale=(LARGEST_PIXEL,), pixel_format="rgb")),
)
"""Usual pixel ranges, by which undescribed arrays are guessed."""


@dataclass(frozen=True)
class Alternative:
    """An input's values under the presets `names`, computed from the same pixels; `axis` is that of the channels.
    `preprocess` is that of the first of these presets: it may place pictures differently.
    """

    names: tuple[str, ...]
    axis: int
    swaps: bool
    factor: tuple[float, ...]
    offset: tuple[float, ...]
    preprocess: Preprocess | None = None

    def of(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """The converted input."""
        shape = [-1 if axis == self.axis else 1 for axis in range(values.ndim)]
        turned = np.flip(values, self.axis) if self.swaps else values
        factor, offset = (np.reshape(np.array(one, np.float32), shape) for one in (self.factor, self.offset))
        return np.ascontiguousarray(turned * factor + offset, dtype=np.float32)


def alternatives(one: SampleInput, registry: Registry, ends: tuple[float, float] | None) -> list[Alternative]:
    """The conversions of a float image input to other presets, without duplicates. `ends` are the smallest and the
    largest value of its samples, from which an undescribed input is guessed. Empty for other inputs.
    """
    own = one.preprocess if one.is_described else _described_by(ends, one.preprocess.layout)
    if own is None or len(one.shape) != 4 or np.dtype(one.dtype) != np.dtype(np.float32):
        return []
    axis = 1 if own.layout == "nchw" else 3
    channels = one.shape[axis]
    if channels not in (1, 3) or own.pixel_format not in ORDERS or min(map(abs, own.scale)) == 0:
        return []
    found: dict[tuple[Any, ...], list[str]] = {}
    for name in sorted(registry.names(PRESETS)):
        preset: Preset = registry.get(PRESETS, name)
        way = _way(own, Preprocess(**_values(preset), layout=own.layout), channels)
        if way is not None:
            found.setdefault(way, []).append(name)
    whole = {names[0]: _preprocess(registry.get(PRESETS, names[0]), own, one) for names in found.values()}
    return [Alternative(tuple(names), axis, *way, preprocess=whole[names[0]]) for way, names in found.items()]


def one_of(names: Sequence[str]) -> str:
    """Names as text: `a, b or c`."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _described_by(ends: tuple[float, float] | None, layout: Any) -> Preprocess | None:
    if ends is None:
        return None
    for (low, high), said in _RANGES:
        if low <= ends[0] and ends[1] <= high:
            return Preprocess(said.mean, said.scale, said.pixel_format, layout=layout)
    return None


def _values(preset: Preset) -> dict[str, Any]:
    return {name: preset.said[name] for name in ("mean", "scale", "pixel_format") if name in preset.said}


def _preprocess(preset: Preset, own: Preprocess, one: SampleInput) -> Preprocess:
    """How the preset reads pictures; a filter to resize them stays the user's."""
    whole = preprocess_from({**preset.said, "channel_format": own.layout}, one.shape)
    return replace(whole, interpolation=whole.interpolation or own.interpolation)


def _way(own: Preprocess, other: Preprocess, channels: int) -> tuple[bool, tuple[float, ...], tuple[float, ...]] | None:
    """Channel swap, factor and offset from one preprocessing to the other; None where nothing changes."""
    swaps = channels > 1 and own.pixel_format != other.pixel_format
    mean, scale = (np.resize(np.array(values, np.float64), channels) for values in (own.mean, own.scale))
    if swaps:
        mean, scale = mean[::-1], scale[::-1]
    wanted_mean, wanted_scale = (
        np.resize(np.array(values, np.float64), channels) for values in (other.mean, other.scale)
    )
    factor, offset = wanted_scale / scale, (mean - wanted_mean) * wanted_scale
    if not swaps and np.allclose(factor, 1.0, rtol=1e-2) and np.allclose(offset, 0.0, atol=1e-2):
        return None
    return swaps, tuple(np.round(factor, 9).tolist()), tuple(np.round(offset, 9).tolist())
