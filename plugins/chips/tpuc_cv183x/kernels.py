"""The kernel table: TPU op → instructions, or functions of the runtime."""

from __future__ import annotations

from tpuc_cv18.kernels import kernel_table

from tpuc_cv183x.chip import CV183X

TABLE = kernel_table(CV183X)
