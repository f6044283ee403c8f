"""Limit the threads of numpy's bundled OpenBLAS; other BLAS libraries are left alone."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any


def blas_threads(count: int) -> int | None:
    """Set the number of threads; returns the previous number, None if no OpenBLAS is found."""
    library = _openblas()
    if library is None:
        return None
    get, put = library
    before = int(get())
    if before != count:
        put(count)
    return before


@functools.cache
def _openblas() -> tuple[Any, Any] | None:
    import numpy as np

    # Wheels of numpy carry their OpenBLAS in a folder beside the package; its functions have a prefix and a suffix.
    package = Path(np.__file__).parent
    found = [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]
    for path in sorted(found):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            try:
                get = library[f"{prefix}openblas_get_num_threads{suffix}"]
                put = library[f"{prefix}openblas_set_num_threads{suffix}"]
            except AttributeError:
                continue
            return get, put
    return None
