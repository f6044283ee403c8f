"""Control how the C library reuses freed memory during work and returns it to the system afterward."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h of glibc
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 32 << 20
"""Maximum that glibc accepts for `M_MMAP_THRESHOLD` on 64-bit systems (mallopt(3))."""


def give_back_memory() -> None:
    """Return memory that the C library has kept to the system; does nothing without glibc.

    glibc keeps freed arrays of up to 32 MiB each (mallopt(3), M_MMAP_THRESHOLD): after one stage of a calibration as
    much as the next one needs.
    """
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


@functools.cache
def keep_memory() -> None:
    """Make the C library keep up to 64 MiB of freed arrays, in one heap for all threads; does nothing without glibc, or
    if the environment configures malloc.

    By default each thread has its own heap, which shrinks whenever a large array at its end is freed: running ResNet-50
    in two threads spent a tenth of its time on fresh pages, half of it avoidable.
    """
    mallopt = _function("mallopt")
    if mallopt is None or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt(M_ARENA_MAX, 1)
    mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
