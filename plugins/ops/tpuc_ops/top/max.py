"""Element-wise maximum of tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.top.extreme import Extreme


@dataclass(frozen=True)
class Max(Extreme):
    """The largest of all operands at each place."""

    name = "top.Max"
    choose = np.maximum
