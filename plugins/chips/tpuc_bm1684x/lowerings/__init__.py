"""The lowering table of BM1684X: TOP op × mode → TPU ops."""

from __future__ import annotations

from tpuc_bm1684x.lowerings import activations, elementwise, pools, products, reductions, shapes
from tpuc_bm1684x.lowerings.table import TABLE

__all__ = ["TABLE", "activations", "elementwise", "pools", "products", "reductions", "shapes"]
