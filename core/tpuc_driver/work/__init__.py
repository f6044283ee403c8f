"""Process many samples in this process, in several, or on a cluster, with bit-identical results."""

from __future__ import annotations

from tpuc_driver.work.job import (
    UNIT_SAMPLES,
    Job,
    Pool,
    Sealed,
    one_blas_thread,
    shares,
    small_units_of,
    units_of,
)
from tpuc_driver.work.memory import give_back_memory
from tpuc_driver.work.pools import open_pool
from tpuc_driver.work.portable import PortableModule

__all__ = [
    "UNIT_SAMPLES",
    "Job",
    "Pool",
    "PortableModule",
    "Sealed",
    "give_back_memory",
    "one_blas_thread",
    "open_pool",
    "shares",
    "small_units_of",
    "units_of",
]
