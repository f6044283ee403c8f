"""What rounding alone does to a network: its imported form on the host, with every value rounded to a mode's type.

A chip whose outputs are this far from the reference, and no further, computes as its types allow; where they are
further away, there may be a fault. In int8, a step is the largest magnitude over all samples divided by 127, in weights
of two and more dimensions that of each filter or column, and vectors (biases) stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
from tpuc.interpreter import Interpreter
from tpuc.ir import Module

Arrays = Mapping[str, np.ndarray]
FLOATS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
LEVELS = 127


def rounded(module: Module, samples: Sequence[Arrays], mode: str) -> Arrays:
    """The outputs for the first sample."""
    peaks: dict[str, float] = {}
    if mode not in FLOATS:
        for sample in samples:
            Interpreter(module).run(sample, on_value=lambda name, array: _watch(peaks, name, array))
    narrow = module.clone()
    for name in module.weights:
        array = module.weights[name]
        if array.dtype == np.float32:
            narrow.weights[name] = array.astype(FLOATS[mode]).astype(np.float32) if mode in FLOATS else _filters(array)

    def round_in_place(name: str, array: np.ndarray) -> None:
        """Read-only arrays are repeated views of what was rounded before."""
        if array.dtype == np.float32 and array.flags.writeable:
            array[...] = array.astype(FLOATS[mode]) if mode in FLOATS else _in_steps(array, peaks[name] / LEVELS)

    inputs = {name: array.copy() for name, array in samples[0].items()}
    return Interpreter(narrow).run(inputs, on_value=round_in_place)


def _watch(peaks: dict[str, float], name: str, array: np.ndarray) -> None:
    if array.dtype == np.float32:
        peaks[name] = max(peaks.get(name, 0), float(np.abs(array[np.isfinite(array)]).max(initial=0)))


def _filters(array: np.ndarray) -> np.ndarray:
    if array.ndim < 2:
        return array
    axes = tuple(range(1, array.ndim)) if array.ndim > 3 else tuple(range(array.ndim - 1))
    return _in_steps(array, np.abs(array).max(axes, keepdims=True) / LEVELS)


def _in_steps(array: np.ndarray, step: float | np.ndarray) -> np.ndarray:
    """The nearest multiples of a step, as far as 8 bits reach."""
    step = np.where(np.equal(step, 0), 1, step).astype(np.float32)
    return np.clip(np.round(array / step), -LEVELS - 1, LEVELS) * step
