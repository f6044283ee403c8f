"""The statistics file: what was seen of every value, so that a calibration can go on and take in more samples."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CalibrationError, InvalidModel, Module, print_module
from tpuc.api.host import SampleInput, SampleSource, read_npz, write_npz

VERSION = 1


@dataclass
class Progress:
    """How far the statistics are: ranges cover the first `ranged` samples, counts the first `counted`.

    Counts belong to the bins of `ranges` as they are now. `skipped` are samples that could not be read.
    """

    samples: SampleSource
    bins: int
    ranged: int = 0
    counted: int = 0
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict[str, NDArray[np.int64]])
    skipped: dict[int, str] = field(default_factory=dict[int, str])

    def extend(self, more: SampleSource) -> None:
        """Add the samples that are not in it yet, at the end."""
        known = {json.dumps(row) for row in self.samples.rows()}
        new = [sample for sample, row in zip(more.samples, more.rows(), strict=True) if json.dumps(row) not in known]
        self.samples = SampleSource(more.inputs, (*self.samples.samples, *new))


def save(path: Path, progress: Progress, network: str) -> None:
    """Write the file, whole or not at all; equal statistics give equal bytes. `network` is the module's digest."""
    names = list(progress.ranges)
    counted = [name for name in names if name in progress.counts]
    zero = np.zeros((0, progress.bins + 1), np.int64)
    head = {
        "version": VERSION,
        "network": network,
        "bins": progress.bins,
        "ranged": progress.ranged,
        "counted": progress.counted,
        "names": names,
        "counted_names": counted,
        "samples": progress.samples.rows(),
        "skipped": sorted(progress.skipped.items()),
    }
    arrays = {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "ranges": np.array([progress.ranges[name] for name in names], np.float64).reshape(-1, 2),
        "counts": np.stack([progress.counts[name] for name in counted]) if counted else zero,
    }
    write_npz(path, arrays, compressed=True)


def load(path: Path, network: str, inputs: tuple[SampleInput, ...], bins: int) -> Progress:
    """Read the file; raises CalibrationError when it is of another network or does not fit."""
    way_out = "Give another file with --resume, or delete it to start again."
    try:
        arrays = read_npz(path)
        head: dict[str, Any] = json.loads(bytes(arrays["head"]))
        if head["version"] != VERSION:
            raise CalibrationError(f"{path}: statistics of another version of tpuc. {way_out}")
        if head["network"] != network:
            raise CalibrationError(f"{path}: statistics of another network. {way_out}")
        if head["bins"] != bins:
            raise CalibrationError(f"{path}: statistics of {head['bins']} bins, not {bins}. {way_out}")
        return Progress(
            SampleSource.of_rows(inputs, [[tuple(part) for part in row] for row in head["samples"]]),
            bins,
            head["ranged"],
            head["counted"],
            {
                name: (float(low), float(high))
                for name, (low, high) in zip(head["names"], arrays["ranges"], strict=True)
            },
            {name: row.copy() for name, row in zip(head["counted_names"], arrays["counts"], strict=True)},
            {int(index): reason for index, reason in head["skipped"]},
        )
    except (InvalidModel, KeyError, ValueError, TypeError) as error:
        raise CalibrationError(f"{path}: not a statistics file ({error}). {way_out}") from error


def fingerprint(module: Module) -> str:
    """A digest of graph and weights."""
    digest = hashlib.blake2b(print_module(module).encode(), digest_size=16)
    for name in module.weights:
        array = np.ascontiguousarray(module.weights[name])
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.view(np.uint8).reshape(-1).data)
    return digest.hexdigest()
