"""Element-wise minimum of tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.top.extreme import Extreme
from tpuc_ops.traits import ChoosesElements


@dataclass(frozen=True)
class Min(Extreme, ChoosesElements):
    """The smallest of all operands at each position."""

    name = "top.Min"
    choose = np.minimum
