"""Legalisations for every chip: ops of the network in terms of simpler ones. One file per family of ops."""

from __future__ import annotations

from tpuc_legalise import deform, determinant, deviations, einsum, normalisations, recurrent, regions, sampling, softmax
from tpuc_legalise.table import TABLE

__all__ = [
    "TABLE",
    "deform",
    "determinant",
    "deviations",
    "einsum",
    "normalisations",
    "recurrent",
    "regions",
    "sampling",
    "softmax",
]
