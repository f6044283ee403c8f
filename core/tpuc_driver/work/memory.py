"""Free memory of this process: keep it for reuse during work, return it to the system afterwards."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h of glibc
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 32 << 20
"""The most that glibc takes for `M_MMAP_THRESHOLD` on 64 bits (mallopt(3))."""


def give_back_memory() -> None:
    """Let the C library return what it keeps for later; nothing where it is not glibc.

    It keeps freed arrays of up to 32 MiB each (mallopt(3), M_MMAP_THRESHOLD): after one stage of a calibration that is
    as much as the next one needs.
    """
    trim = _function("malloc_trim")
    if trim is not None:
        trim(0)


@functools.cache
def keep_memory() -> None:
    """From now on the C library keeps up to 64 MiB of freed arrays, in one heap for all threads; nothing where it is
    not glibc, or where the environment says what it shall do.

    Otherwise each thread has a heap of its own, which shrinks whenever a large array on top goes: running ResNet-50 in
    two threads spent a tenth of its time on fresh pages, half of it avoidable.
    """
    mallopt = _function("mallopt")
    if mallopt is None or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt(M_ARENA_MAX, 1)
    mallopt(M_MMAP_THRESHOLD, LARGEST_BYTES)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
