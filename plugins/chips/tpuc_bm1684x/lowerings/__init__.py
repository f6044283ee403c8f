"""Lowering table of BM1684X: maps each TOP op and mode to TPU ops."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_bm1684x.lowerings.table import TABLE

__all__ = ["TABLE"]

import_modules(__name__)
