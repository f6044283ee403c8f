"""A network input, as samples must fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from tpuc.ir.preprocess import Preprocess

from tpuc_driver.data.layout import ArrayLayout

Array = NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class SampleInput:
    """A network input as samples must fill it; `preprocess` is for images only, arrays are taken as they are. Without
    `is_described` nobody said what it is, and images are refused.

    `store` makes what an input of quantised integers holds of float data; integers are taken as they are. `meant` makes
    float data of integers that the network stores itself, where its compiled file stores other ones. `layout` says how
    arrays may lie. With `may_hide` -inf is a number like others: it hides places of a mask.
    """

    name: str
    shape: Shape
    dtype: DTypeLike = np.float32
    preprocess: Preprocess = field(default_factory=Preprocess)
    store: Callable[[Array], Array] | None = None
    layout: ArrayLayout = field(default_factory=ArrayLayout)
    is_described: bool = True
    may_hide: bool = True
    meant: Callable[[Array], Array | None] | None = None
