"""The lowering tables of the family: TOP op × mode → TPU ops, and how casts are made."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_cv18.lowerings.table import CASTS, TABLE

__all__ = ["CASTS", "TABLE"]

import_modules(__name__)
