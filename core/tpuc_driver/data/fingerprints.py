"""Fingerprints of samples, by which a calibrated network recognizes its calibration samples.

A fingerprint is eight hexadecimal digits computed from a sample's content, not its path: the bytes of an image file, or
the numbers of an array. For two data sets of a thousand samples each, the probability of a collision is about 1 in
4,000.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.npz import ARCHIVE_ERRORS

from tpuc_driver.data.samples import SamplePart, SampleReader, SampleSource, has_reader

CALIBRATED_ON = "module.calibrated_on"
"""The attribute of a module that lists the fingerprints of its calibration samples, separated by spaces."""


def fingerprints(source: SampleSource) -> list[str]:
    """The fingerprint of each sample; empty for unreadable ones."""
    reader, found = SampleReader(source), list[str]()
    for parts in source.samples:
        digest = hashlib.blake2b(digest_size=4)
        try:
            add_content(digest, source, reader, parts)
        except ARCHIVE_ERRORS:
            found.append("")
            continue
        found.append(digest.hexdigest())
    return found


def add_content(digest: Any, source: SampleSource, reader: SampleReader, parts: Sequence[SamplePart]) -> None:
    """Add a sample to a digest: the bytes of files that packages read, the numbers of arrays in any type."""
    for one, part in zip(source.inputs, parts, strict=True):
        is_read = has_reader(source.registry, part.file)
        digest.update(part.file.read_bytes() if is_read else _bytes(reader.stored(one, part)))


def fingerprint(sample: Path | NDArray[Any]) -> str:
    """The fingerprint of a sample of one image file or one array."""
    data = sample.read_bytes() if isinstance(sample, Path) else _bytes(sample)
    return hashlib.blake2b(data, digest_size=4).hexdigest()


def without_seen(source: SampleSource, seen: Iterable[str]) -> SampleSource:
    """The samples whose fingerprints are not in `seen`."""
    known = frozenset(seen)
    if not known:
        return source
    pairs = zip(source.samples, fingerprints(source), strict=True)
    left = tuple(sample for sample, one in pairs if one not in known)
    return SampleSource(source.inputs, left, source.registry)


def _bytes(array: NDArray[Any]) -> bytes:
    """The numbers in a canonical form: equal for both float sizes, and for integers of any size."""
    wide = array.astype(np.float64, copy=False)
    return np.ascontiguousarray(wide).tobytes()
