"""The C functions of each TPU op."""

from __future__ import annotations

from tpuc.api import KernelTable, import_modules

TABLE = KernelTable("c", "tpu")

import_modules(__name__)
