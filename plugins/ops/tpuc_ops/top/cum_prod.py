"""Running products along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.top.cumulative import Cumulative


@dataclass(frozen=True)
class CumProd(Cumulative):
    """Products of all elements along `axis`, as `Cumulative` says."""

    name = "top.CumProd"
    combine = np.multiply
