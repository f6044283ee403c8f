"""Map logits through a sigmoid before errors are measured: far below zero their differences mean nothing."""

from __future__ import annotations

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_ops import elementary

from tpuc_quantize.options.tuning import AGREEMENT

_STEEPEST = 50.0


def compand(x: Array, units: Array | None) -> Array:
    """Values in a row as float64: logits through a sigmoid; values with an infinite unit unchanged."""
    flat = x.reshape(-1).astype(np.float64)
    if units is None:
        return flat
    bent = np.isfinite(units)
    flat[bent] = sigmoid(flat[bent] / units[bent] / AGREEMENT.softer)
    return flat


def slopes(x: Array, units: Array) -> Array:
    """The slope of `compand`, in the shape of the values."""
    flat = x.reshape(-1).astype(np.float64)
    result = np.ones(flat.size, np.float32)
    bent = np.isfinite(units)
    scores = sigmoid(flat[bent] / units[bent] / AGREEMENT.softer)
    result[bent] = scores * (1.0 - scores) / (AGREEMENT.softer * units[bent])
    return result.reshape(x.shape)


def sigmoid(x: Array) -> Array:
    """Logits to scores; beyond the steepest magnitude nothing changes."""
    return 1.0 / (1.0 + elementary.exp(-np.clip(x, -_STEEPEST, _STEEPEST)))
