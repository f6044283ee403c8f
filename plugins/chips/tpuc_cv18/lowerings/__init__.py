"""Lowering tables of the family: map each TOP op and mode to TPU ops, and lower casts."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_cv18.lowerings.table import CASTS, TABLE

__all__ = ["CASTS", "TABLE"]

import_modules(__name__)
