"""Importers of Caffe's layers, and of those of its well-known forks, into TOP; `TABLE` holds all of them."""

from __future__ import annotations

from tpuc.api import import_modules

from tpuc_caffe.importers.common import TABLE

__all__ = ["TABLE"]

import_modules(__name__)
