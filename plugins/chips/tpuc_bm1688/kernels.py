"""Kernel tables of the second generation: the kernels of BM1684X, for its lanes."""

from __future__ import annotations

from tpuc_bm1684x.kernels import kernel_table

from tpuc_bm1688.target import BM1688, CV186X

TABLE = kernel_table(CV186X)
BM1688_TABLE = kernel_table(BM1688)
