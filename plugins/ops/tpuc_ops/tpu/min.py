"""Element-wise minimum of stored values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.tpu.extreme import Extreme


@dataclass(frozen=True)
class Min(Extreme):
    """The smallest of all operands at each position."""

    name = "tpu.Min"
    choose = np.minimum
