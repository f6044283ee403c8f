"""A network input as samples must provide it."""

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
    """A network input as samples must provide it; `preprocess` applies to images only, arrays are taken unchanged.
    Unless it `is_described`, images are refused.

    `store` quantizes float data for an integer input; integers are taken unchanged. `meant` dequantizes the network's
    own integers where its compiled file stores other ones. `layout` is the accepted array layout. With `may_hide` -inf
    is accepted: it masks places.
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
