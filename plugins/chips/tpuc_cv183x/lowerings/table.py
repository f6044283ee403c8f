"""The lowering tables that the modules of this package fill."""

from __future__ import annotations

from tpuc.api import LoweringTable

TABLE = LoweringTable("cv183x", "top")
CASTS = LoweringTable("cv183x", "tpu")
