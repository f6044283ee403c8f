"""Fingerprints of samples, by which a calibrated network knows the samples that it was calibrated on.

A fingerprint is eight hexadecimal digits of what a sample holds, not of where it lies: the bytes of an image file, the
numbers of an array. Of a thousand samples beside a thousand others one in some four thousand pairs of data sets has two
that look alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.npz import ARCHIVE_ERRORS

from tpuc_driver.data.samples import SampleReader, SampleSource, has_reader

CALIBRATED_ON = "module.calibrated_on"
"""The attribute of a module that lists the fingerprints of its calibration samples, between spaces."""


def fingerprints(source: SampleSource) -> list[str]:
    """Of each sample; empty for one that cannot be read."""
    reader, found = SampleReader(source), list[str]()
    for parts in source.samples:
        digest = hashlib.blake2b(digest_size=4)
        try:
            for one, part in zip(source.inputs, parts, strict=True):
                is_read = has_reader(source.registry, part.file)
                digest.update(part.file.read_bytes() if is_read else _bytes(reader.stored(one, part)))
        except ARCHIVE_ERRORS:
            found.append("")
            continue
        found.append(digest.hexdigest())
    return found


def fingerprint(sample: Path | NDArray[Any]) -> str:
    """Of a sample of one image file or one array."""
    data = sample.read_bytes() if isinstance(sample, Path) else _bytes(sample)
    return hashlib.blake2b(data, digest_size=4).hexdigest()


def without_seen(source: SampleSource, seen: Iterable[str]) -> SampleSource:
    """The samples whose fingerprints are not among those that were `seen`."""
    known = frozenset(seen)
    if not known:
        return source
    pairs = zip(source.samples, fingerprints(source), strict=True)
    left = tuple(sample for sample, one in pairs if one not in known)
    return SampleSource(source.inputs, left, source.registry)


def _bytes(array: NDArray[Any]) -> bytes:
    """Of the numbers alone: the same for floats of one and of two sizes, and for whole numbers of any."""
    wide = array.astype(np.float64, copy=False)
    return np.ascontiguousarray(wide).tobytes()
