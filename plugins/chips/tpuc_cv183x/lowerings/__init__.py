"""The lowering tables of CV183x: TOP op × mode → TPU ops, and how casts are made."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_cv183x.lowerings.table import CASTS, TABLE

__all__ = ["CASTS", "TABLE"]

import_modules(__name__)
