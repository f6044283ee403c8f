"""Charts of a tensor: scatter plot, histograms, worst channels, and the weights of its op."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Constant, ElementType, Module, TensorType, Uniform, Value
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import decibels

from tpuc_visual.graph import element_text

POINTS, WORST_POINTS = 200, 40
BINS, WEIGHT_BINS = 48, 24
CHANNELS = 8
STEPS = 1000
"""Steps of a tensor's range in point coordinates."""
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Channel:
    """One of a tensor's worst channels: its share of the tensor's error power, its SQNR, and its values in the float
    network.
    """

    index: int
    share: float
    sqnr_db: float
    low: float
    high: float


@dataclass(frozen=True)
class Picture:
    """Both versions of a tensor. `points`: pairs of float and quantized values, in thousandths of the range from `low`
    to `high`; `limits`: the range of the quantized type, None for floats. `channels`: the worst of `channel_count`.
    """

    low: float
    high: float
    points: tuple[tuple[int, int], ...]
    exact: tuple[int, ...]
    quantized: tuple[int, ...]
    limits: tuple[float, float] | None
    channels: tuple[Channel, ...]
    channel_count: int


@dataclass(frozen=True)
class Weight:
    """A constant operand: its stored type, and a histogram of its values between their extremes."""

    name: str
    shape: str
    element: str
    low: float
    high: float
    counts: tuple[int, ...]


def picture(exact: Array, quantized: Array, element: ElementType) -> Picture:
    """Return the picture of two arrays of one shape; NaN are skipped."""
    wanted, got = exact.reshape(-1).astype(np.float64), quantized.reshape(-1).astype(np.float64)
    is_number = np.isfinite(wanted) & np.isfinite(got)
    wanted, got = wanted[is_number], got[is_number]
    low, high = _extremes(np.concatenate((wanted, got)))
    return Picture(
        low,
        high,
        _points(wanted, got, low, high),
        _counts(wanted, low, high, BINS),
        _counts(got, low, high, BINS),
        _limits(element),
        _worst_channels(exact.astype(np.float64), quantized.astype(np.float64)),
        exact.shape[1] if exact.ndim > 1 else 1,
    )


def weights_of(module: Module) -> dict[str, tuple[Weight, ...]]:
    """Return the constants that each op of a module reads, by the name of its first result."""
    found: dict[str, tuple[Weight, ...]] = {}
    for operation in module.main.operations:
        weights = [value for value in operation.operands if _is_weight(value) and value.name in module.weights]
        if operation.results and weights:
            found[operation.results[0].name] = tuple(_weight(value, module.weights[value.name]) for value in weights)
    return found


def _is_weight(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.defining is not None and isinstance(value.defining.op, Constant)


def _weight(value: Value, array: Array) -> Weight:
    values = array.reshape(-1).astype(np.float64)
    values = values[np.isfinite(values)]
    low, high = _extremes(values)
    shape = "x".join(map(str, value.tensor.dims)) or "scalar"
    return Weight(
        value.name, shape, element_text(value.tensor.element), low, high, _counts(values, low, high, WEIGHT_BINS)
    )


def _extremes(values: Array) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def _counts(values: Array, low: float, high: float, bins: int) -> tuple[int, ...]:
    if low == high:
        return (int(values.size), *([0] * (bins - 1)))
    return tuple(np.histogram(values, bins, (low, high))[0].tolist())


def _points(wanted: Array, got: Array, low: float, high: float) -> tuple[tuple[int, int], ...]:
    """Return some elements spread over the tensor, and those with the largest errors."""
    if not wanted.size:
        return ()
    chosen = np.arange(wanted.size)
    if wanted.size > POINTS + WORST_POINTS:
        spread = (np.arange(POINTS) * _GOLDEN % 1 * wanted.size).astype(np.int64)
        worst = np.argpartition(np.abs(got - wanted), wanted.size - WORST_POINTS)[-WORST_POINTS:]
        chosen = np.unique(np.concatenate((spread, worst)))
    factor = STEPS / (high - low) if high > low else 0.0
    pairs = np.rint((np.stack((wanted[chosen], got[chosen]), 1) - low) * factor).astype(np.int64)
    return tuple((int(one), int(other)) for one, other in np.unique(pairs, axis=0))


def _limits(element: ElementType) -> tuple[float, float] | None:
    if not isinstance(element, Uniform):
        return None
    low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
    return low, high


def _worst_channels(wanted: Array, got: Array) -> tuple[Channel, ...]:
    """Return channels by error, largest first; channels that are zero in the float network come last."""
    if wanted.ndim < 2 or wanted.shape[1] < 2:
        return ()
    count = wanted.shape[1]
    rows, others = (np.moveaxis(array, 1, 0).reshape(count, -1) for array in (wanted, got))
    signal, noise = (rows**2).sum(1), ((others - rows) ** 2).sum(1)
    ratios = [decibels(float(one), float(other)) for one, other in zip(signal, noise, strict=True)]
    shares = noise / (noise.sum() or 1.0)
    order = sorted(range(count), key=lambda index: (signal[index] == 0, -shares[index], index))
    lows, highs = rows.min(1), rows.max(1)
    return tuple(
        Channel(one, float(shares[one]), ratios[one], float(lows[one]), float(highs[one])) for one in order[:CHANNELS]
    )
