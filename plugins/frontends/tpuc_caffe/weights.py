"""The weights of a layer: from the caffemodel, or random as the network's fillers state."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tpuc_ops.arrays import Array

Shape: TypeAlias = tuple[int, ...]

SEED = 20140620
"""Arbitrary seed; random weights are the same in every run."""

MOST_RANDOM_WEIGHTS = 1 << 28
"""Maximum number of elements of a random blob, twice the largest in a published network; more means a damaged
number.
"""

TRAINABLE = {"type": "msra"}
"""Filler if the file states none; Caffe's own default, zeros, would make every result zero."""


@dataclass(frozen=True)
class Blob:
    """A weight that a layer expects."""

    meaning: str
    shape: Shape
    filler: Mapping[str, Any]


class MissingWeights(Exception):
    """A problem with the weights of a layer, as the end of a sentence."""


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one layer. `blobs` is None if the file has none for it."""

    layer: str
    blobs: tuple[Array, ...] | None
    has_file: bool
    is_random: bool

    @property
    def can_be_had(self) -> bool:
        """True if there is a caffemodel, or weights may be random."""
        return self.has_file or self.is_random

    def take(self, wanted: Sequence[Blob]) -> list[Array]:
        """Return an array for each blob; raises MissingWeights if the file does not match."""
        if self.blobs is None:
            return self._random(wanted)
        if len(self.blobs) != len(wanted):
            meanings = ", ".join(blob.meaning for blob in wanted)
            raise MissingWeights(
                f"the caffemodel has {len(self.blobs)} weights for it, but it needs {len(wanted)} ({meanings}); give "
                "the caffemodel that belongs to this prototxt"
            )
        return [_fitting(array, blob) for array, blob in zip(self.blobs, wanted, strict=True)]

    def _random(self, wanted: Sequence[Blob]) -> list[Array]:
        if not self.is_random:
            raise MissingWeights("the caffemodel has no weights for it; give the one that belongs to this prototxt")
        generator = np.random.default_rng([SEED, zlib.crc32(self.layer.encode())])
        return [fill(generator, blob) for blob in wanted]


def _fitting(array: Array, blob: Blob) -> Array:
    """Return the array in the expected shape; old files state four extents for everything."""
    if array.shape == blob.shape:
        return array
    if _core(array.shape) != _core(blob.shape):
        raise MissingWeights(
            f"the caffemodel's {blob.meaning} is {_show(array.shape)}, but it needs {_show(blob.shape)}; give the "
            "caffemodel that belongs to this prototxt, or check the input's shape"
        )
    return array.reshape(blob.shape)


def _core(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent != 1)


def _show(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "one number"


def fill(generator: np.random.Generator, blob: Blob) -> Array:
    """Fill an array by the filler's rule; raises MissingWeights for an unknown rule."""
    shape, filler = blob.shape, blob.filler
    if math.prod(shape) > MOST_RANDOM_WEIGHTS:
        raise MissingWeights(
            f"its {blob.meaning} would have {math.prod(shape)} numbers; check the sizes that it states"
        )
    fans = {"FAN_IN": math.prod(shape[1:]), "FAN_OUT": math.prod(shape) // max(shape[1] if len(shape) > 1 else 1, 1)}
    fans["AVERAGE"] = (fans["FAN_IN"] + fans["FAN_OUT"]) // 2
    fan = max(fans[filler.get("variance_norm", "FAN_IN")], 1)
    match filler.get("type", "constant"):
        case "constant":
            return np.full(shape, filler.get("value", 0.0), np.float32)
        case "uniform":
            return _uniform(generator, shape, filler.get("min", 0.0), filler.get("max", 1.0))
        case "gaussian":
            return _gaussian(generator, shape, filler.get("mean", 0.0), filler.get("std", 1.0))
        case "xavier":
            return _uniform(generator, shape, -math.sqrt(3 / fan), math.sqrt(3 / fan))
        case "msra":
            return _gaussian(generator, shape, 0.0, math.sqrt(2 / fan))
        case "bilinear" if len(shape) == 4:
            return _bilinear(shape)
        case other:
            raise MissingWeights(f"its filler '{other}' is not known; give weights with --model-data")


def _uniform(generator: np.random.Generator, shape: Shape, low: float, high: float) -> Array:
    return generator.random(shape, np.float32) * np.float32(high - low) + np.float32(low)


def _gaussian(generator: np.random.Generator, shape: Shape, mean: float, deviation: float) -> Array:
    return generator.standard_normal(shape, np.float32) * np.float32(deviation) + np.float32(mean)


def _bilinear(shape: Shape) -> Array:
    """Return upsampling filters for a deconvolution: a tent function in every filter."""
    factor = -(-shape[3] // 2)
    center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
    rows, columns = (1 - np.abs(np.arange(extent) / factor - center) for extent in shape[2:])
    return np.broadcast_to(np.outer(rows, columns).astype(np.float32), shape).copy()
