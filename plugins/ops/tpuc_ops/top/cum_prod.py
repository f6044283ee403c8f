"""Cumulative products along one dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpuc_ops.top.cumulative import Cumulative


@dataclass(frozen=True)
class CumProd(Cumulative):
    """Products of elements along `axis`; see `Cumulative`."""

    name = "top.CumProd"
    combine = np.multiply
