"""The lowering table of BM1684X: TOP op × mode → TPU ops."""

from __future__ import annotations

from tpuc_bm1684x.lowerings import (
    activations,
    arrangement,
    casts,
    deconv,
    elementwise,
    extremes,
    gathers,
    logic,
    normalisations,
    offsets,
    order,
    pools,
    powers,
    products,
    rectifiers,
    recurrent,
    reductions,
    scatters,
    shapes,
    softmax,
)
from tpuc_bm1684x.lowerings.table import TABLE

__all__ = [
    "TABLE",
    "activations",
    "arrangement",
    "casts",
    "deconv",
    "elementwise",
    "extremes",
    "gathers",
    "logic",
    "normalisations",
    "offsets",
    "order",
    "pools",
    "powers",
    "products",
    "rectifiers",
    "recurrent",
    "reductions",
    "scatters",
    "shapes",
    "softmax",
]
