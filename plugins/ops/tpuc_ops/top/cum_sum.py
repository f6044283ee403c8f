"""Cumulative sums along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.attributes import listed
from tpuc_ops.top.cumulative import Cumulative


@dataclass(frozen=True)
class CumSum(Cumulative):
    """Sums of elements along `axis`; see `Cumulative`."""

    name = "top.CumSum"
    slots = listed(2, kept=1)
    combine = np.add
