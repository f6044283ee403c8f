"""Samples that look wrong by their values are named; those that would set ranges by themselves are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_driver.data import Findings, SampleInput, SampleReader, distinct, examined, open_samples, sample_statistics

from tests.families import each

RANDOM = np.random.default_rng(45)
WAVES = np.sin(np.arange(400) * RANDOM.uniform(0.02, 0.3, (40, 1)) + RANDOM.uniform(0, 6, (40, 1)))
GOOD = (WAVES * RANDOM.uniform(0.5, 1.5, (40, 1))).astype(np.float32)
"""Forty sounds, some of which are three times as loud as others."""


def seen(folder: Path, samples: NDArray[np.float32], shape: tuple[int, ...] = (1, 400)) -> tuple[Findings, list[str]]:
    for place, sample in enumerate(samples):
        np.save(folder / f"{place:02}.npy", sample.reshape(shape))
    given = distinct(open_samples([SampleInput("x", shape)], folder))
    reader = SampleReader(given.source)
    found = examined(
        given, [entry for place in range(len(given.source)) for entry in sample_statistics(reader, place)], 16
    )
    return found, sorted(file.name for files in found.source.files() for file in files)


def changed(place: int, change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float32]:
    samples = GOOD.copy()
    samples[place] = change(samples[place])
    return samples


def clicks(change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float32]:
    """Sounds with peaks of different heights: that of a changed sample is not alone."""
    samples = changed(7, change)
    samples[:, 100] = 4
    samples[7, 100], samples[20, 100] = 14, 9
    return samples


@each(
    ("samples", "sentences", "left_out"),
    [
        (GOOD, [], []),
        (GOOD * 1e4, [], []),
        (np.abs(GOOD) - 3, [], []),
        (
            changed(7, lambda x: x * 10),
            ["07.npy reaches", "times as far as usual", "left out. Correct or remove it."],
            [7],
        ),
        (changed(7, lambda x: x * 255), ["07.npy reaches"], [7]),
        (clicks(lambda x: x * 10), ["07.npy reaches", "times the usual root mean square", "left out"], [7]),
        (changed(7, lambda x: x / 255), ["07.npy is", "times as faint as usual", "scaled differently? Left out."], [7]),
        (changed(7, lambda x: x * 0), ["07.npy is constant (0 everywhere). Left out."], [7]),
        (changed(7, lambda _: GOOD[9]), ["the same as an earlier sample (as ", "and left out."], [9]),
        (changed(7, RANDOM.permutation), ["07.npy is like noise", "unlike in the others. Left out."], [7]),
        (RANDOM.uniform(-1, 1, GOOD.shape).astype(np.float32), ["all 40 samples look like noise"], []),
    ],
)
def test_each_kind_is_named(
    tmp_path: Path, samples: NDArray[np.float32], sentences: list[str], left_out: list[int]
) -> None:
    found, names = seen(tmp_path, samples)
    said = " ".join([*found.left_out, *found.remarks])
    assert [one for one in sentences if one not in said] == [], said
    assert bool(said) == bool(sentences)
    assert names == [f"{place:02}.npy" for place in range(40) if place not in left_out]
    assert not found.useless


def test_states_have_no_neighbors(tmp_path: Path) -> None:
    found, _ = seen(tmp_path, RANDOM.uniform(-1, 1, GOOD.shape).astype(np.float32), (2, 2, 100))
    assert found.remarks == ()


def test_samples_without_content_are_useless(tmp_path: Path) -> None:
    found, _ = seen(tmp_path, np.zeros_like(GOOD[:3]))
    assert found.useless == "Input 'x': all 3 samples are 0 everywhere, so ranges measured on them say nothing."


@pytest.mark.parametrize("noisy", [3, 12])
def test_many_samples_like_noise_are_only_named(noisy: int, tmp_path: Path) -> None:
    samples = GOOD.copy()
    samples[:noisy] = RANDOM.permuted(samples[:noisy], axis=1)
    found, names = seen(tmp_path, samples)
    assert (found.left_out, len(names)) == ((), 40)
    assert "like noise" in " ".join(found.remarks)


@pytest.mark.parametrize("loud", [3, 12])
def test_many_loud_samples_are_the_nature_of_the_data(loud: int, tmp_path: Path) -> None:
    samples = GOOD.copy()
    samples[:loud] *= 10
    found, names = seen(tmp_path, samples)
    assert (found.left_out, len(names)) == ((), 40)
