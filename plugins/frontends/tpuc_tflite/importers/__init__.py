"""Importers of the builtin operators into TOP, one file per family; `TABLE` holds all of them."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_tflite.importers.common import TABLE

__all__ = ["TABLE"]

import_modules(__name__)
