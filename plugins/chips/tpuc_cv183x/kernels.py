"""Kernel table: maps each TPU op to instructions or to a function of the runtime."""

from __future__ import annotations

from tpuc_cv18.kernels import kernel_table

from tpuc_cv183x.chip import CV183X

TABLE = kernel_table(CV183X)
