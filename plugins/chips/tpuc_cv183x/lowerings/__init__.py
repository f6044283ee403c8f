"""The lowering tables of CV183x: TOP op × mode → TPU ops, and how casts are made."""

from __future__ import annotations

from tpuc_cv183x.lowerings import (
    activations,
    arrangement,
    casts,
    comparisons,
    curves,
    deconv,
    elementwise,
    extremes,
    gathers,
    normalisations,
    places,
    pools,
    products,
    quotients,
    reductions,
    resampling,
    shapes,
    softmax,
    triangles,
)
from tpuc_cv183x.lowerings.table import CASTS, TABLE

__all__ = [
    "CASTS",
    "TABLE",
    "activations",
    "arrangement",
    "casts",
    "comparisons",
    "curves",
    "deconv",
    "elementwise",
    "extremes",
    "gathers",
    "normalisations",
    "places",
    "pools",
    "products",
    "quotients",
    "reductions",
    "resampling",
    "shapes",
    "softmax",
    "triangles",
]
