"""Legalizations for every chip: rewrite ops of the network as simpler ones. One file per family of ops."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_legalize.table import TABLE

__all__ = ["TABLE"]

import_modules(__name__)
