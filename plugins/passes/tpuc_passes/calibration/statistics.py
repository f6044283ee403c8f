"""Streaming statistics of a tensor: memory does not grow with the number of samples, partial results merge exactly."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CalibrationError

Array = NDArray[Any]

DEFAULT_BINS = 2048
BLOCK_ELEMENTS = 1 << 16
LANES = 4
"""Neighbours that are counted apart; two gain as much on relu results, eight no more (measured)."""


class TensorRange:
    """First pass: lowest and highest value. Nothing seen yet reads as the range [0, 0]."""

    def __init__(self, name: str = "tensor") -> None:
        self.name = name
        self._minimum = math.inf
        self._maximum = -math.inf

    @property
    def minimum(self) -> float:
        return self._minimum if self._minimum <= self._maximum else 0.0

    @property
    def maximum(self) -> float:
        return self._maximum if self._minimum <= self._maximum else 0.0

    @property
    def absmax(self) -> float:
        return max(-self.minimum, self.maximum, 0.0)

    def update(self, array: Array) -> None:
        """Take one more sample into account; an empty array changes nothing."""
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            kind = "NaN" if math.isnan(low) or math.isnan(high) else "infinite values"
            raise CalibrationError(
                f"{self.name}: {kind} during calibration. Check the weights and the preprocessing of the samples."
            )
        self._minimum, self._maximum = min(self._minimum, low), max(self._maximum, high)

    @classmethod
    def of(cls, name: str, minimum: float, maximum: float) -> TensorRange:
        """A range seen earlier."""
        result = cls(name)
        result._minimum, result._maximum = minimum, maximum
        return result

    def merge(self, other: TensorRange) -> None:
        """Take over what `other` has seen."""
        self._minimum = min(self._minimum, other._minimum)
        self._maximum = max(self._maximum, other._maximum)


class CountingBuffers:
    """What counting a block of elements needs, kept for the next one: fresh pages take as long as counting itself. For
    one thread at a time.
    """

    def __init__(self, bins: int = DEFAULT_BINS) -> None:
        self.bins = bins

    @cached_property
    def single(self) -> tuple[Array, Array]:
        """For scaled values in single precision, and the last bin for each: an array is three times as fast as a
        number there.
        """
        return np.empty(BLOCK_ELEMENTS, np.float32), np.full(BLOCK_ELEMENTS, self.bins, np.float32)

    @cached_property
    def double(self) -> tuple[Array, Array]:
        """As `single`, in double precision."""
        return np.empty(BLOCK_ELEMENTS, np.float64), np.full(BLOCK_ELEMENTS, self.bins, np.float64)

    @cached_property
    def whole(self) -> Array:
        """For bins."""
        return np.empty(BLOCK_ELEMENTS, np.int32)

    @cached_property
    def index(self) -> Array:
        """For places of bins among those of all lanes."""
        return np.empty(BLOCK_ELEMENTS, np.intp)

    @cached_property
    def lanes(self) -> Array:
        """Where the bins of each element's lane begin."""
        return (np.arange(BLOCK_ELEMENTS) % LANES * (self.bins + 1)).astype(np.int32)


class Histogram:
    """Second pass: how many values fall into each of equal bins of ``abs(x)``; a `TensorStatistics`.

    Bin `i` holds ``i < abs(x) * bins / absmax <= i + 1``, computed in the element type. Exact zeros are counted apart.
    """

    def __init__(self, seen: TensorRange, bins: int = DEFAULT_BINS, depth: float = 0.0) -> None:
        self.name = seen.name
        self.depth = depth
        self.minimum, self.maximum, self.absmax = seen.minimum, seen.maximum, seen.absmax
        self._counts = np.zeros(bins + 1, np.int64)  # zeros first

    @property
    def bins(self) -> int:
        return self._counts.size - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts[1:]

    @property
    def zeros(self) -> int:
        return int(self._counts[0])

    @property
    def all_counts(self) -> NDArray[np.int64]:
        """`zeros` and then `counts`, to be added elsewhere."""
        return self._counts

    def add(self, all_counts: NDArray[np.int64]) -> None:
        """Add the `all_counts` of a histogram over the same range."""
        self._counts += all_counts

    def update(self, array: Array, buffers: CountingBuffers | None = None) -> None:
        """Count one more sample; values beyond the range of the first pass go to the last bin. `buffers` are for as
        many bins as there are here.
        """
        flat = array.reshape(-1)
        if self.absmax == 0.0:
            self._counts[0] += flat.size
            return
        buffers = buffers or CountingBuffers(self.bins)
        is_single = flat.dtype.kind not in "iu" and flat.dtype.itemsize <= 4
        scaled, last = buffers.single if is_single else buffers.double
        # Python floats would overflow to infinity for a denormal absmax: the scale is bounded by the type's own range.
        scale = scaled.dtype.type(min(self.bins / self.absmax, float(np.finfo(scaled.dtype).max)))
        counts = np.zeros(LANES * (self.bins + 1), np.int64)
        for start in range(0, flat.size, BLOCK_ELEMENTS):
            block = flat[start : start + BLOCK_ELEMENTS]
            part, top = scaled[: block.size], last[: block.size]
            whole, index = buffers.whole[: block.size], buffers.index[: block.size]
            np.multiply(block, scale, out=part, dtype=part.dtype, casting="unsafe")
            np.abs(part, out=part)
            np.minimum(part, top, out=part)
            np.ceil(part, out=whole, casting="unsafe")
            # Zeros come in rows: each of their counts would wait for the one before, so neighbours are counted apart.
            np.add(whole, buffers.lanes[: block.size], out=index)
            counts += np.bincount(index, minlength=counts.size)
        self._counts += counts.reshape(LANES, -1).sum(axis=0)

    def merge(self, other: Histogram) -> None:
        """Add the counts of `other`, which must have the same bins over the same range."""
        if (other.bins, other.absmax) != (self.bins, self.absmax):
            raise CalibrationError(
                f"{self.name}: histograms of {self.bins} bins up to {self.absmax:g} and of {other.bins} bins up to"
                f" {other.absmax:g} cannot be merged. Finish the range pass before the histogram pass."
            )
        self._counts += other._counts
