"""Importers of the standard operators into TOP, one file per family; `TABLE` holds all of them."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_onnx.importers.common import TABLE

__all__ = ["TABLE"]

import_modules(__name__)
