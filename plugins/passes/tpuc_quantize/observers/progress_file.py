"""The statistics file, from which a calibration can resume and include more samples."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CalibrationError, InvalidModel, Module, print_module
from tpuc.api.evaluation import read_npz, write_npz
from tpuc_driver.api.host import SampleInput, SampleSource, digests, fingerprints

from tpuc_quantize.observers.collector import Counting, Means, Outputs
from tpuc_quantize.observers.histogram import FINER, Histogram, TensorRange

VERSION = 4


@dataclass
class Progress:
    """The state of the statistics: histograms cover the first `seen` samples; `skipped` ones are unreadable. `outputs`
    are the network's outputs for some samples, `values` all values and `products` the means of products; no file
    keeps these. `keys` are the samples' fingerprints.
    """

    samples: SampleSource
    counting: Counting
    seen: int = 0
    histograms: dict[str, Histogram] = field(default_factory=dict[str, Histogram])
    skipped: dict[int, str] = field(default_factory=dict[int, str])
    outputs: dict[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    values: dict[int, Outputs] = field(default_factory=dict[int, "Outputs"])
    products: dict[int, Means] = field(default_factory=dict[int, "Means"])
    keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.keys = self.keys or fingerprints(self.samples)

    @property
    def usable(self) -> list[int]:
        """The places of the samples that are not skipped, in the order of `by_content`."""
        return by_content(self.keys, self.skipped)

    def extend(self, more: SampleSource) -> None:
        """Append the samples whose content is not included yet."""
        known = frozenset(digests(self.samples))
        new = [sample for sample, key in zip(more.samples, digests(more), strict=True) if key not in known]
        self.samples = replace(more, samples=(*self.samples.samples, *new))
        self.keys = fingerprints(self.samples)


def by_content(keys: Sequence[str], skipped: Container[int] = ()) -> list[int]:
    """The places of the samples with these fingerprints in an order that depends on their contents alone. Each part of
    it is a random draw, which one more sample hardly changes.
    """
    mentions = Counter[str]()
    order = list[tuple[bytes, int]]()
    for place, key in enumerate(keys):
        if place not in skipped:
            mentions[key] += 1
            order.append((hashlib.blake2b(f"{key} {mentions[key]}".encode()).digest(), place))
    return [place for _, place in sorted(order)]


def save(path: Path, progress: Progress, network: str) -> None:
    """Write the file atomically; equal statistics give equal bytes. `network` is the module's digest."""
    found = progress.histograms
    head = {
        "version": VERSION,
        "network": network,
        "bins": progress.counting.bins,
        "counting": progress.counting.counting,
        "seen": progress.seen,
        "names": list(found),
        "wins": {name: one.wins.tolist() for name, one in found.items() if one.wins.ndim},
        "whole": [name for name, one in found.items() if one.whole],
        "samples": progress.samples.rows(),
        "skipped": sorted(progress.skipped.items()),
    }
    ranges = [(one.range.minimum, one.range.maximum) for one in found.values()]
    arrays = {
        "head": np.frombuffer(json.dumps(head).encode(), np.uint8),
        "ranges": np.array(ranges, np.float64).reshape(-1, 2),
        "counts": np.array([one.all_counts for one in found.values()], np.int64),
    }
    write_npz(path, arrays, compressed=True)


def load(path: Path, network: str, inputs: tuple[SampleInput, ...], wanted: Counting) -> Progress:
    """Read the file to continue as `wanted`, without counts where it has none; raises CalibrationError when it belongs
    to another network or does not fit.
    """
    way_out = "Give another file with --resume, or delete it to start again."
    try:
        arrays = read_npz(path)
        head: dict[str, Any] = json.loads(bytes(arrays["head"]))
        if head["version"] != VERSION:
            raise CalibrationError(f"{path}: statistics of another version of tpuc. {way_out}")
        if head["network"] != network:
            raise CalibrationError(f"{path}: statistics of another network. {way_out}")
        if head["bins"] != wanted.bins:
            raise CalibrationError(f"{path}: statistics of {head['bins']} bins, not {wanted.bins}. {way_out}")
        _check(head, arrays)
        counting = replace(wanted, counting=head["counting"])
        rows = zip(head["names"], arrays["ranges"].tolist(), arrays["counts"], strict=True)
        histograms = {
            name: Histogram.of(TensorRange.of(name, *limits), counts, counting=counting.counting)
            for name, limits, counts in rows
        }
        for name, won in head["wins"].items():
            histograms[name].wins = np.array(won, np.int64)
        for name, one in histograms.items():
            one.whole = name in head["whole"]
        return Progress(
            SampleSource.of_rows(inputs, [[tuple(part) for part in row] for row in head["samples"]]),
            counting,
            head["seen"],
            histograms,
            {int(index): reason for index, reason in head["skipped"]},
        )
    except (InvalidModel, LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CalibrationError(f"{path}: not a statistics file ({error}). {way_out}") from error


def _check(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless everything has the form that `save` writes."""
    names: Any = head["names"]
    wins: Any = head["wins"]
    parts = [part for row in head["samples"] for part in row]
    is_sound = (
        all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names)
        and type(wins) is dict
        and {*wins} <= {*names}
        and {*head["whole"]} <= {*names}
        and isinstance(head["counting"], bool)
        and type(head["seen"]) is int
        and 0 <= head["seen"] <= len(head["samples"])
        and all(isinstance(part[0], str) and isinstance(part[1], str) and type(part[2]) is int for part in parts)
        and all(type(index) is int and isinstance(reason, str) for index, reason in head["skipped"])
    )
    ranges, counts = arrays["ranges"], arrays["counts"]
    counted = (len(names), head["bins"] * FINER + 1)
    if not is_sound or (ranges.shape, ranges.dtype.kind) != ((len(names), 2), "f"):
        raise ValueError("what it says of the values is damaged")
    if not np.isfinite(ranges).all() or (ranges[:, 0] > ranges[:, 1]).any():
        raise ValueError("what it says of the values is damaged")
    if counts.dtype != np.int64 or (head["counting"] and counts.shape != counted) or (counts < 0).any():
        raise ValueError("its counts are damaged")


def fingerprint(module: Module) -> str:
    """A digest of graph and weights."""
    digest = hashlib.blake2b(print_module(module).encode(), digest_size=16)
    for name in module.weights:
        array = np.ascontiguousarray(module.weights[name])
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.view(np.uint8).reshape(-1).data)
    return digest.hexdigest()
