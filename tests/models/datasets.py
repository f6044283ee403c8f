"""Labeled images as the float networks of the tests take them: `x: [n, c, h, w]` float32, `y: [n]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def evaluation_set(name: str, model_data: Path | None = None) -> tuple[Images, Labels]:
    """The 200 labeled images of `digits`, `mnist` or `ic01`, unscaled; only digits needs no model data."""
    with np.load(_file(name, "eval", model_data)) as data:
        return _as_nchw(data["x"]), data["y"].astype(np.int64)


def calibration_set(name: str, model_data: Path | None = None) -> Images:
    """The 100 calibration images of `digits`, `mnist` or `ic01`, unscaled."""
    with np.load(_file(name, "calib", model_data)) as data:
        return _as_nchw(data["x"])


def _file(name: str, part: str, model_data: Path | None) -> Path:
    if name == "digits":
        return DIGITS / f"digits_{part}.npz"
    assert model_data is not None, f"{name} lies in the model data folder"
    return model_data / "data" / f"{name}_{part}.npz"


def _as_nchw(x: NDArray[Any]) -> Images:
    """Gray images `[n, h, w]` get a channel axis; color images `[n, h, w, c]` have it moved forward."""
    moved = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(moved, dtype=np.float32)
