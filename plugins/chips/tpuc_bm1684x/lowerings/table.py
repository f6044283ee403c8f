"""The lowering table that the modules of this package fill."""

from __future__ import annotations

from tpuc.api import LoweringTable

TABLE = LoweringTable("bm1684x", "top")
