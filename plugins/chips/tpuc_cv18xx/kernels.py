"""Kernel tables: map each TPU op to instructions or to a function of the runtime."""

from __future__ import annotations

from tpuc_cv18.kernels import kernel_table

from tpuc_cv18xx.chip import CV180X, CV181X, CV182X

CV182X_TABLE, CV181X_TABLE, CV180X_TABLE = kernel_table(CV182X), kernel_table(CV181X), kernel_table(CV180X)
