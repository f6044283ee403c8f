"""The lowering tables that the modules of this package fill."""

from __future__ import annotations

from tpuc.api import LoweringTable

from tpuc_cv18.isa.target import FAMILY

TABLE = LoweringTable(FAMILY, "top")
CASTS = LoweringTable(FAMILY, "tpu")
