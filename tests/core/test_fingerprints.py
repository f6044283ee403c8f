"""Fingerprints tell samples apart by what they hold, whatever file it is in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc_driver.data import SampleInput, fingerprint, fingerprints, open_samples, without_seen

INPUT = (SampleInput("x", (1, 2, 3)),)


def test_the_same_numbers_have_the_same_fingerprint_in_any_file(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(5, 1, 2, 3)).astype(np.float32)
    np.save(tmp_path / "all.npy", data)
    np.savez_compressed(tmp_path / "all.npz", x=data.astype(np.float64))
    np.save(tmp_path / "second.npy", data[1])
    every = fingerprints(open_samples(INPUT, tmp_path / "all.npy"))
    assert len(set(every)) == 5
    assert fingerprints(open_samples(INPUT, tmp_path / "all.npz")) == every
    assert fingerprints(open_samples(INPUT, tmp_path / "second.npy")) == [every[1]] == [fingerprint(data[1])]


def test_what_was_seen_is_left_out(tmp_path: Path) -> None:
    data = np.arange(30, dtype=np.float32).reshape(5, 1, 2, 3)
    np.save(tmp_path / "all.npy", data)
    source = open_samples(INPUT, tmp_path / "all.npy")
    left = without_seen(source, [fingerprint(data[1]), fingerprint(data[4]), "00000000"])
    assert left.samples == tuple(source.samples[place] for place in (0, 2, 3))
    assert without_seen(source, []).samples == source.samples
