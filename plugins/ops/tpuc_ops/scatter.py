"""Write updates into a tensor, for both scatter ops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpuc_ops.arrays import Array

_UFUNCS: Mapping[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def check_reduction(reduction: str) -> None:
    """Raise ValueError for an unknown reduction."""
    if reduction != "none" and reduction not in _UFUNCS:
        raise ValueError(f"reduction must be none, {', '.join(_UFUNCS)}, this one is {reduction}")


def scatter(x: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Return a copy of `x` with `updates` at `places`; several updates of one place are combined by `reduction`, or the
    last one wins.
    """
    result = x.copy()
    if reduction == "none":
        result[places] = updates
    else:
        _UFUNCS[reduction].at(result, places, updates)
    return result
