"""Memory that is free inside this process, back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back_memory() -> None:
    """Let the C library return what it keeps for later; nothing where it is not glibc.

    It keeps freed arrays of up to 32 MiB each, for every thread apart (mallopt(3), M_MMAP_THRESHOLD): after one stage
    of a calibration that is as much as the next one needs.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(0)
