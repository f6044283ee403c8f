"""Element-wise maximum of stored values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.tpu.extreme import Extreme


@dataclass(frozen=True)
class Max(Extreme):
    """The largest of all operands at each position."""

    name = "tpu.Max"
    choose = np.maximum
