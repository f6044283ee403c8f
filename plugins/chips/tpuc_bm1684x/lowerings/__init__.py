"""The lowering table of BM1684X: TOP op × mode → TPU ops."""

from __future__ import annotations

from tpuc.api import LoweringTable

TABLE = LoweringTable("bm1684x", "top")
